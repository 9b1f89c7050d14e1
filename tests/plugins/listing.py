"""A lister as plugins get it of their Handle, of objects that are given."""

from collections.abc import Hashable, Iterable

from tollbar.model.objects import Key, Object, key_of
from tollbar.views.scheduling import attached_node, selector_label


class Listing:
    """Objects of one kind, by name."""

    served = True

    def __init__(self, objects: Iterable[Object]) -> None:
        self._objects = {key_of(each): each for each in objects}

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def values(self) -> list[Object]:
        return list(self._objects.values())

    def by_index(self, name: str, value: Hashable) -> list[Object]:
        index = {"selector": selector_label, "node": attached_node}[name]
        return [each for each in self._objects.values() if value in index(each)]

    def keys_by_index(self, name: str, value: Hashable) -> list[Key]:
        return [key_of(each) for each in self.by_index(name, value)]
