"""Entries that come and go: found quickly, told once, and only of Pods."""

from collections.abc import Sequence

import pytest
from builders import claim, pod

from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.store import Store
from tollbar.views.oscillations import RETURNS, WINDOW, Oscillations

A, B = pod_entry(pod("a")), pod_entry(pod("b"))
FOREIGN = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "w"}


class Hand(SystemClock):
    """A clock that is moved by hand."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class World:
    def __init__(self) -> None:
        self.clock = Hand()
        self.store = Store(RESOURCE_CLAIMS)
        self.told: list[Key] = []
        self.oscillations = Oscillations(self.clock)
        self.oscillations.watch(self.store)
        self.oscillations.subscribe(self.told.append)
        self.show()

    def show(self, *entries: Object) -> None:
        self.store.apply(claim().allocated().reserved(*entries))

    def flap(self, times: int, entry: Object = A, every: float = 0.1, beside: Sequence[Object] = (B,)) -> None:
        """The entry is there, then it goes and comes back so many times."""
        self.show(entry, *beside)
        for _ in range(times):
            self.clock.seconds += every
            self.show(*beside)
            self.show(entry, *beside)

    def flapping(self) -> frozenset[str]:
        return self.oscillations.flapping(claim())


def test_an_entry_that_comes_and_goes_is_told_once() -> None:
    world = World()
    world.flap(RETURNS * 5)
    assert (world.flapping(), world.told, world.oscillations.count()) == ({"uid-of-a"}, [Key("ml", "gpu")], 1)


@pytest.mark.parametrize(
    ("times", "every", "entry"),
    [(RETURNS - 1, 0.1, A), (RETURNS * 2, WINDOW, A), (RETURNS * 2, 0.1, FOREIGN)],
    ids=["too few times", "too slowly", "no Pod's"],
)
def test_what_is_no_oscillation(times: int, every: float, entry: Object) -> None:
    world = World()
    world.flap(times, entry, every)
    assert (world.flapping(), world.told) == (frozenset(), [])


def test_many_pods_that_come_and_go_once_are_no_oscillation() -> None:
    world = World()
    for number in range(50):
        world.show(pod_entry(pod(f"p{number}")))
        world.show()
    assert (world.flapping(), world.told) == (frozenset(), [])


def test_the_first_time_is_no_return() -> None:
    world = World()
    world.show(B)
    world.show()
    world.flap(RETURNS - 1)
    assert world.flapping() == frozenset()


def test_it_is_over_when_it_stops() -> None:
    world = World()
    world.flap(RETURNS)
    world.clock.seconds += WINDOW + 1
    assert (world.flapping(), world.oscillations.count()) == (frozenset(), 0)


def test_and_is_told_again_when_it_begins_again() -> None:
    world = World()
    world.flap(RETURNS)
    world.clock.seconds += WINDOW + 1
    world.flap(RETURNS)
    assert world.told == [Key("ml", "gpu")] * 2


def test_a_claim_that_is_gone_is_forgotten() -> None:
    world = World()
    world.flap(RETURNS)
    world.store.remove(claim())
    assert (world.flapping(), world.oscillations.count()) == (frozenset(), 0)
