"""Implements the lookups that decisions need, from stores.

`of` fills the stores with given objects, for decisions without an API server.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Self

from tollbar.dra.classes import DeviceClasses
from tollbar.model.ask import Answers, Get
from tollbar.model.objects import Key, Object, is_stub
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.caches import Cached, Caches
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.deleted import DeletedUids


def filled(objects: Iterable[Object], declared: Iterable[Cached]) -> Callable[[Cached], Store]:
    """Stores of these kinds filled with these objects; objects of other kinds are left out."""
    caches = Caches()
    stores = [caches.store(cached) for cached in declared]
    for obj in objects:
        for store in stores:
            if store.resource.kind == obj["kind"]:
                store.apply(obj)
    for store in stores:
        store.synced.set()
    return caches.store


class PackageLookup:
    """Implements `tollbar.decide.pods.package.Lookup`."""

    KINDS = (kinds.CLAIMS, kinds.TEMPLATES, kinds.CLASSES, kinds.NAMESPACES)

    def __init__(self, store: Callable[[Cached], Store]) -> None:
        """`store` is `Caches.store`."""
        self.claims, self.templates, self.classes, self.namespaces = map(store, self.KINDS)
        self._device_classes = DeviceClasses(self.classes)

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Self:
        return cls(filled(objects, cls.KINDS))

    def claim(self, key: Key) -> Object | None:
        return self.claims.get(key)

    def template(self, key: Key) -> Object | None:
        return self.templates.get(key)

    def device_class(self, name: str) -> Object | None:
        return self._device_classes.get(name)

    def namespace(self, name: str) -> Object | None:
        return self.namespaces.get(Key("", name))

    def class_for_extended_resource(self, resource: str) -> Object | None:
        return self._device_classes.for_extended_resource(resource)


class WholeClaims:
    """Implements `tollbar.decide.pods.package.Lookup`: with what the API server has answered for claims of which the
    caches have only a stub."""

    def __init__(self, lookup: PackageLookup, answers: Answers) -> None:
        self._lookup = lookup
        self._answers = answers
        self.template = lookup.template
        self.device_class = lookup.device_class
        self.class_for_extended_resource = lookup.class_for_extended_resource
        self.namespace = lookup.namespace

    def claim(self, key: Key) -> Object | None:
        """A stub of one that was not asked for yet."""
        known = self._lookup.claim(key)
        if known is None or not is_stub(known):
            return known
        answer = self._answers.get(Get(RESOURCE_CLAIMS, key), known)
        return answer if isinstance(answer, dict) else None


class ClaimLookup:
    """Implements `tollbar.decide.claims.resourceclaims.Lookup`."""

    KINDS = (kinds.CLAIMS_WITH_STATUS, kinds.TEMPLATES, kinds.CLAIM_CONSUMERS, kinds.POD_GROUPS)

    def __init__(self, store: Callable[[Cached], Store]) -> None:
        """`store` is `Caches.store`."""
        self.claims, self.templates, self.consumers, self.pod_groups = map(store, self.KINDS)
        self.deleted = DeletedUids(self.consumers, self.pod_groups)

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Self:
        return cls(filled(objects, cls.KINDS))

    def claim(self, key: Key) -> Object | None:
        return self.claims.get(key)

    def claims_owned_by(self, uid: str) -> Sequence[Object]:
        return self.claims.by_index("owner", uid)

    def template(self, key: Key) -> Object | None:
        return self.templates.get(key)

    def pod(self, key: Key) -> Object | None:
        return self.consumers.get(key)

    def pod_group(self, key: Key) -> Object | None:
        return self.pod_groups.get(key)

    def serves_pod_groups(self) -> bool:
        return self.pod_groups.served

    def is_gone(self, uid: str) -> bool:
        return uid in self.deleted
