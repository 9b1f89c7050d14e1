"""A binary heap whose items have keys, so that one that waits can be replaced or removed.

Source: pkg/scheduler/backend/heap.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class KeyedHeap(Generic[K, T]):
    """Items in the order of `less`; put again what has changed in a way that concerns its order."""

    def __init__(self, less: Callable[[T, T], bool]) -> None:
        self._less = less
        self._items: list[tuple[K, T]] = []
        self._index: dict[K, int] = {}

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: K) -> bool:
        return key in self._index

    def get(self, key: K) -> T | None:
        index = self._index.get(key)
        return None if index is None else self._items[index][1]

    def first(self) -> T | None:
        """The item that `pop` would take."""
        return self._items[0][1] if self._items else None

    def put(self, key: K, item: T) -> None:
        """Add an item, or replace the one of this key."""
        index = self._index.get(key)
        if index is None:
            index = len(self._items)
            self._items.append((key, item))
            self._index[key] = index
            self._up(index)
        else:
            self._items[index] = (key, item)
            self._settle(index)

    def pop(self) -> T | None:
        """Take the first item."""
        return self.remove(self._items[0][0]) if self._items else None

    def remove(self, key: K) -> T | None:
        """Take the item of this key."""
        index = self._index.pop(key, None)
        if index is None:
            return None
        removed = self._items[index][1]
        last = self._items.pop()
        if index < len(self._items):
            self._place(index, last)
            self._settle(index)
        return removed

    def in_order(self) -> list[T]:
        """All items as `pop` would take them one by one."""
        copied: KeyedHeap[K, T] = KeyedHeap(self._less)
        copied._items, copied._index = list(self._items), dict(self._index)
        return [item for _ in range(len(self)) if (item := copied.pop()) is not None]

    def _settle(self, index: int) -> None:
        if not self._down(index):
            self._up(index)

    def _place(self, index: int, entry: tuple[K, T]) -> None:
        self._items[index] = entry
        self._index[entry[0]] = index

    def _up(self, index: int) -> None:
        entry = self._items[index]
        while index:
            parent = (index - 1) // 2
            if not self._less(entry[1], self._items[parent][1]):
                break
            self._place(index, self._items[parent])
            index = parent
        self._place(index, entry)

    def _down(self, start: int) -> bool:
        index, size = start, len(self._items)
        entry = self._items[index]
        while (child := 2 * index + 1) < size:
            if child + 1 < size and self._less(self._items[child + 1][1], self._items[child][1]):
                child += 1
            if not self._less(self._items[child][1], entry[1]):
                break
            self._place(index, self._items[child])
            index = child
        self._place(index, entry)
        return index != start
