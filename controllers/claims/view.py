"""What the decisions about claims see: the caches, and what this process has done that they do not show yet."""

from collections.abc import Sequence

from tollbar.model.objects import Key, Object
from tollbar.runtime.clock import Clock
from tollbar.views.caches import ClaimCaches
from tollbar.views.createdclaims import CreatedClaims


class View:
    """Implements `tollbar.decide.claims.resourceclaims.Lookup`.  Make it before anybody subscribes who asks it."""

    def __init__(self, caches: ClaimCaches, clock: Clock) -> None:
        self.caches = caches
        self.created = CreatedClaims(caches.claims, clock)

    def claim(self, key: Key) -> Object | None:
        return self.caches.claims.get(key) or self.created.get(key)

    def claims_owned_by(self, uid: str) -> Sequence[Object]:
        return [*self.caches.claims.by_index("owner", uid), *self.created.owned_by(uid)]

    def template(self, key: Key) -> Object | None:
        return self.caches.templates.get(key)

    def pod(self, key: Key) -> Object | None:
        return self.caches.claim_users.get(key)

    def pod_group(self, key: Key) -> Object | None:
        return self.caches.pod_groups.get(key)

    def is_gone(self, uid: str) -> bool:
        return uid in self.caches.deleted
