"""The budget of the caches, whatever comes and goes: it holds, it is fair, and a list brings back what it can."""

from collections.abc import Iterator
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tollbar.model.objects import Key
from tollbar.runtime.budget import Budget, Entry

MOST = 100


class Shelf:
    def leave_out(self, key: Key) -> None:
        raise AssertionError


SHELF = Shelf()


class Size(NamedTuple):
    """What an object takes beside its stub, and its stub."""

    more: int
    stub: int


keys = st.builds(Key, st.sampled_from(["a", "b", "c"]), st.sampled_from([str(number) for number in range(8)]))
sizes = st.builds(Size, st.integers(0, 60), st.integers(1, 9))
histories = st.lists(st.tuples(keys, st.none() | sizes), max_size=60)
"""Objects with their size now; None for one that is deleted."""


class Cluster:
    """`there` has every object with its size, `kept` those that the cache has whole, `out` those that it left out."""

    def __init__(self) -> None:
        self.budget = Budget(MOST)
        self.there: dict[Key, Size] = {}
        self.kept: set[Key] = set()
        self.out: set[Key] = set()

    def used(self, *namespaces: str) -> int:
        found = ((key, size) for key, size in self.there.items() if key.namespace in namespaces)
        return sum(size.stub + (size.more if key in self.kept else 0) for key, size in found)

    def all_used(self) -> int:
        return self.used("a", "b", "c")

    def part(self) -> float:
        return MOST / len({each.namespace for each in self.there})

    def giving(self) -> set[str]:
        """The namespaces that have something to lose."""
        return {key.namespace for key in self.kept if self.there[key].more}

    def comes(self, key: Key, size: Size) -> None:
        """Whatever has to go is of the namespace that takes the most of those that have something to lose, and more
        than an equal part; what was left out may stay so."""
        out = key in self.out
        self.there[key] = size
        self.kept.add(key)
        self.out.discard(key)
        for number, (_, gone) in enumerate(self.budget.keep((SHELF, key), *size)):
            if not (out and gone == key and number == 0):
                assert self.used(gone.namespace) > self.part()
                assert self.used(gone.namespace) == max(map(self.used, self.giving()))
            self.kept.remove(gone)
            self.out.add(gone)

    def goes(self, key: Key) -> None:
        self.there.pop(key, None)
        self.kept.discard(key)
        self.out.discard(key)
        entry: Entry = (SHELF, key)
        self.budget.forget(entry)


def played(history: list[tuple[Key, Size | None]]) -> Iterator[Cluster]:
    """The cluster after each step: an object comes with a size, or goes."""
    cluster = Cluster()
    for key, size in history:
        if size is not None:
            cluster.comes(key, size)
        else:
            cluster.goes(key)
        yield cluster


@given(histories)
def test_it_holds_and_is_fair(history: list[tuple[Key, Size | None]]) -> None:
    for cluster in played(history):
        assert cluster.budget.used == cluster.all_used()
        assert cluster.all_used() <= MOST or all(cluster.used(each) <= cluster.part() for each in cluster.giving())


@given(histories)
def test_lists_end_when_nothing_can_be_brought_back(history: list[tuple[Key, Size | None]]) -> None:
    *_, cluster = (Cluster(), *played(history))
    lists = 0
    while cluster.budget.would_keep_more(SHELF):
        lists += 1
        assert lists <= len(cluster.there)
        for key in sorted(cluster.there):
            cluster.comes(key, cluster.there[key])
    for key in cluster.out:
        assert cluster.all_used() + cluster.there[key].more > MOST
