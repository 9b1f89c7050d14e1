"""Objects in a part of the memory that they take decoded, which are built when they are read.

For caches of many objects that are much alike, and that are read one by one or rarely; see `tollbar.model.flat`.

Invariants: what is read equals what was stored, and is not changed by who reads it; reads that follow one another may
return one object, others return another copy, so identity means nothing.
"""

from collections.abc import Callable, Iterator, MutableMapping

from tollbar.model.flat import Flat, unfolded
from tollbar.model.objects import Key, Object


class Flattened(MutableMapping[Key, Object]):
    """Objects by key; those of which `flat` returns something are kept as that, others as they are."""

    def __init__(self, flat: Callable[[Object], Flat | None]) -> None:
        self._flat = flat
        self._kept: dict[Key, Object | Flat] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def __getitem__(self, key: Key) -> Object:
        found = self._kept[key]
        if isinstance(found, dict):
            return found
        built: Object = unfolded(found)
        return built

    def __setitem__(self, key: Key, obj: Object) -> None:
        self._kept[key] = self._flat(obj) or obj

    def __delitem__(self, key: Key) -> None:
        del self._kept[key]
