"""A cluster as the claims controller sees it: real stores, filled with objects."""

from collections.abc import Iterable
from typing import Any

from fakes.manager import Managed

from controllers import claims
from tollbar.model.objects import Object
from tollbar.runtime.clock import Clock
from tollbar.views import kinds
from tollbar.views.lookup import ClaimLookup
from tollbar.views.takeover import Takeover


def view_of(*objects: Object, gone: Iterable[str] = ()) -> ClaimLookup:
    """`gone` are uids of objects that are known to be deleted."""
    lookup = ClaimLookup.of(objects)
    for uid in gone:
        lookup.deleted.add(uid)
    return lookup


def cached(claim: Object) -> Object:
    """What the cache keeps of it."""
    return kinds.CLAIMS_WITH_STATUS.project(claim)


class ClaimsWorld:
    """The claims controller with `claims: Replace` in a cluster of these objects; it has not begun to lead."""

    def __init__(self, client: Any = None, *objects: Object, clock: Clock | None = None) -> None:
        self.manager = Managed(client, clock=clock, claims="Replace", workers=1)
        self.takeover = Takeover()
        self.taking_over = claims.setup(self.manager, self.takeover, self.manager.device_tolerations())
        self.controller = self.taking_over.controller
        self.claims = self.manager.caches.stores["claims"]
        self.manager.fill(objects)

    async def work(self, seen: str) -> None:
        """Begin beside nobody else.  The cache of claims shows what there was at this resourceVersion."""
        self.claims.resource_version = seen
        await self.taking_over.unseen.begin()
        self.takeover.found(None)
