"""DeviceClasses of the cache, by name and by the extended resource that they stand for (KEP-5004)."""

from collections.abc import Iterable, Iterator, Mapping

from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.runtime.store import Store


class DeviceClasses(Mapping[str, Object]):
    """The store has the index `extended-resource`, from `spec.extendedResourceName` to the classes that have it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getitem__(self, name: str) -> Object:
        found = self._store.get(Key("", name))
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key_of(each).name for each in self._store.values())

    def __len__(self) -> int:
        return len(self._store)

    def for_extended_resource(self, resource: str) -> Object | None:
        """The class that backs this resource, by name or by `spec.extendedResourceName`: of several the one that was
        created last (API reference of DeviceClassSpec)."""
        if (implicit := claims.implicit_class(resource)) is not None:
            return self.get(implicit)
        return last_created(self._store.by_index("extended-resource", resource))


def last_created(classes: Iterable[Object]) -> Object | None:
    """The class created last, then the first by name: the one that backs an extended resource that several name."""
    by_name = sorted(classes, key=lambda found: key_of(found).name)
    return max(by_name, key=lambda found: metadata(found).get("creationTimestamp") or "", default=None)
