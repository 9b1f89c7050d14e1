"""The budget of the caches, whatever comes and goes: it holds, it is fair, and a list brings back what it can."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from tollbar.model.objects import Key
from tollbar.runtime.budget import Budget, Entry

MOST = 100


class Shelf:
    def leave_out(self, key: Key) -> None:
        raise AssertionError


SHELF = Shelf()
keys = st.builds(Key, st.sampled_from(["a", "b", "c"]), st.sampled_from([str(number) for number in range(8)]))
histories = st.lists(st.tuples(keys, st.integers(0, 60)), max_size=60)
"""Objects with their size now; 0 for one that is deleted."""


class Cluster:
    """`there` has every object with its size, `kept` those that the cache has whole, `out` those that it left out."""

    def __init__(self) -> None:
        self.budget = Budget(MOST)
        self.there: dict[Key, int] = {}
        self.kept: dict[Key, int] = {}
        self.out: set[Key] = set()

    def used(self, namespace: str) -> int:
        return sum(size for key, size in self.kept.items() if key.namespace == namespace)

    def comes(self, key: Key) -> None:
        """Whatever has to go is of a namespace that takes more than an equal part; what was left out may stay so."""
        again = key in self.there and key in self.out
        self.kept[key] = self.there[key]
        self.out.discard(key)
        for _, gone in self.budget.keep((SHELF, key), self.there[key]):
            self.out.add(gone)
            if again and gone == key:
                del self.kept[key]
                return
            namespaces = {each.namespace for each in self.kept}
            assert self.used(gone.namespace) > MOST / len(namespaces)
            assert self.used(gone.namespace) == max(map(self.used, namespaces))
            del self.kept[gone]

    def goes(self, key: Key) -> None:
        self.there.pop(key, None)
        self.kept.pop(key, None)
        self.out.discard(key)
        entry: Entry = (SHELF, key)
        self.budget.forget(entry)


def played(history: list[tuple[Key, int]]) -> Iterator[Cluster]:
    """The cluster after each step: an object comes with a size, or goes where the size is 0."""
    cluster = Cluster()
    for key, size in history:
        if size:
            cluster.there[key] = size
            cluster.comes(key)
        else:
            cluster.goes(key)
        yield cluster


@given(histories)
def test_it_holds_and_is_fair(history: list[tuple[Key, int]]) -> None:
    for cluster in played(history):
        assert cluster.budget.used == sum(cluster.kept.values()) <= MOST


@given(histories)
def test_lists_end_when_nothing_can_be_brought_back(history: list[tuple[Key, int]]) -> None:
    *_, cluster = (Cluster(), *played(history))
    lists = 0
    while cluster.budget.would_keep_more(SHELF):
        lists += 1
        assert lists <= len(cluster.there)
        for key in sorted(cluster.there):
            cluster.comes(key)
    for key, size in cluster.there.items():
        assert key in cluster.kept or sum(cluster.kept.values()) + size > MOST
