"""Oscillating entries of Pods: found quickly and reported once."""

from collections.abc import Sequence

import pytest
from fakes.clocks import Hand
from objects.builders import claim, pod

from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.store import Store
from tollbar.views.oscillations import RETURNS, WINDOW, Oscillations

A, B = pod_entry(pod("a")), pod_entry(pod("b"))
FOREIGN = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "w"}


class World:
    def __init__(self) -> None:
        self.clock = Hand()
        self.store = Store(RESOURCE_CLAIMS)
        self.told: list[Key] = []
        self.oscillations = Oscillations(self.store, self.clock)
        self.oscillations.subscribe(self.told.append)
        self.oscillations.start()
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

    def oscillating(self) -> frozenset[str]:
        return self.oscillations.oscillating(claim())


def test_an_oscillating_entry_is_reported_once() -> None:
    world = World()
    world.flap(RETURNS * 5)
    assert (world.oscillating(), world.told, world.oscillations.count()) == ({"uid-of-a"}, [Key("ml", "gpu")], 1)


@pytest.mark.parametrize(
    ("times", "every", "entry"),
    [(RETURNS - 1, 0.1, A), (RETURNS * 2, WINDOW, A), (RETURNS * 2, 0.1, FOREIGN)],
    ids=["too few times", "too slowly", "no Pod's"],
)
def test_what_is_no_oscillation(times: int, every: float, entry: Object) -> None:
    world = World()
    world.flap(times, entry, every)
    assert (world.oscillating(), world.told) == (frozenset(), [])


def test_many_pods_that_come_and_go_once_are_no_oscillation() -> None:
    world = World()
    for number in range(50):
        world.show(pod_entry(pod(f"p{number}")))
        world.show()
    assert (world.oscillating(), world.told) == (frozenset(), [])


def test_the_first_time_is_no_return() -> None:
    world = World()
    world.show(B)
    world.show()
    world.flap(RETURNS - 1)
    assert world.oscillating() == frozenset()


def test_an_oscillation_ends_when_the_entry_stays() -> None:
    world = World()
    world.flap(RETURNS)
    world.clock.seconds += WINDOW + 1
    assert (world.oscillating(), world.oscillations.count()) == (frozenset(), 0)


def test_an_oscillation_that_starts_again_is_reported_again() -> None:
    world = World()
    world.flap(RETURNS)
    world.clock.seconds += WINDOW + 1
    world.flap(RETURNS)
    assert world.told == [Key("ml", "gpu")] * 2


def test_a_claim_that_is_gone_is_forgotten() -> None:
    world = World()
    world.flap(RETURNS)
    world.store.remove(claim())
    assert (world.oscillating(), world.oscillations.count()) == (frozenset(), 0)


def test_one_that_began_before_anybody_listened_is_told_to_whoever_asks_for_what_is_there() -> None:
    world, late = World(), list[Key]()
    world.flap(RETURNS)
    world.oscillations.replay(late.append)
    world.clock.seconds += WINDOW + 1
    world.oscillations.replay(late.append)
    assert late == [Key("ml", "gpu")]


def test_nothing_is_counted_before_it_starts() -> None:
    world = World()
    standby = Oscillations(world.store, world.clock)
    world.flap(RETURNS)
    assert standby.count() == 0
