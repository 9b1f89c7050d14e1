"""Whether a controller renews the Lease, counted from when the renewals are seen."""

from dataclasses import dataclass

import pytest
from fakes.clocks import EPOCH
from fakes.manager import Managed
from objects.builders import Built

from tollbar.model import timestamps
from tollbar.model.objects import Key, Object
from tollbar.views.lease import ControllersLease


@dataclass
class HandClock:
    """Time goes on when the test says so; `wall` is ahead of the API server's clock by `skew`."""

    elapsed: float = 500.0
    skew: float = 0.0

    def monotonic(self) -> float:
        return self.elapsed

    def now(self) -> float:
        return EPOCH + self.elapsed + self.skew

    async def sleep(self, _seconds: float) -> None:
        raise NotImplementedError


class World:
    """A webhook's view of the Lease, whose holder writes the API server's time."""

    def __init__(self, **settings: object) -> None:
        self.clock = HandClock()
        self.manager = Managed(clock=self.clock, **settings)
        self.lease = ControllersLease(self.manager)
        self.version = 0

    def renewed(self, *, ago: float = 0.0, by: str = "controllers-0", lasts: int = 15) -> None:
        self.version += 1
        renewed = timestamps.micro_time(EPOCH + self.clock.elapsed - ago)
        self.shows(
            Built(
                kind="Lease",
                metadata={"name": "tollbar-controllers", "namespace": "tollbar-system"},
                spec={"holderIdentity": by, "renewTime": renewed, "leaseDurationSeconds": lasts},
            )
        )

    def shows(self, lease: Object) -> None:
        meta = {**lease["metadata"], "resourceVersion": str(self.version)}
        self.manager.caches.stores["lease"].apply({**lease, "metadata": meta})

    def after(self, seconds: float) -> bool:
        self.clock.elapsed += seconds
        return self.lease.is_renewed()


def test_before_anybody_has_led_nobody_is_there() -> None:
    assert World().lease.is_renewed() is False


def test_it_is_renewed_for_twice_its_duration_after_the_last_renewal() -> None:
    world = World()
    world.renewed()
    world.clock.elapsed += 2
    world.renewed()
    assert [world.after(30), world.after(0.1)] == [True, False]
    world.renewed()
    assert world.lease.is_renewed()


def test_the_holders_own_duration_counts() -> None:
    world = World()
    world.renewed(lasts=60)
    assert [world.after(120), world.after(0.1)] == [True, False]


def test_an_old_lease_is_none_when_it_is_first_listed() -> None:
    world = World()
    world.renewed(ago=31)
    assert world.lease.is_renewed() is False


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_clocks_may_differ_once_a_renewal_was_seen(skew: float) -> None:
    world = World()
    world.clock.skew = skew
    world.renewed()
    world.clock.elapsed += 2
    world.renewed()
    assert [world.lease.is_renewed(), world.after(30), world.after(0.1)] == [True, True, False]


def test_a_lease_that_is_given_back_or_deleted_is_renewed_by_nobody() -> None:
    world = World()
    world.renewed()
    world.clock.elapsed += 20
    world.renewed(by="", lasts=1)
    found = [world.lease.is_renewed(), world.after(10.1)]
    world.renewed()
    world.manager.caches.stores["lease"].discard(Key("tollbar-system", "tollbar-controllers"))
    assert [*found, world.lease.is_renewed(), world.after(30.1)] == [True, False, True, False]


def test_another_change_of_the_lease_is_no_renewal() -> None:
    world = World()
    world.renewed()
    (lease,) = world.manager.caches.stores["lease"].values()
    world.clock.elapsed += 29
    world.version += 1
    world.shows({**lease, "metadata": {**lease["metadata"], "annotations": {"a": "b"}}})
    assert world.after(2) is False


def test_without_leader_election_there_is_no_lease_to_look_at() -> None:
    world = World(**{"leaderElection.enabled": False})
    assert (world.lease.is_renewed(), list(world.manager.caches.stores)) == (True, [])


SAYS: dict[str, tuple[dict[str, str], bool]] = {
    "it releases this gate": ({"tollbar.dev/gates": "a.dev/x,b.dev/y"}, True),
    "it releases other gates": ({"tollbar.dev/gates": "a.dev/x"}, False),
    "it releases no gate of a class": ({"tollbar.dev/gates": ""}, False),
    "it does not say": ({}, True),
}


@pytest.mark.parametrize(("annotations", "releases"), SAYS.values(), ids=SAYS)
def test_the_holder_says_which_gates_it_releases(annotations: dict[str, str], releases: bool) -> None:
    world = World()
    world.renewed()
    (lease,) = world.manager.caches.stores["lease"].values()
    world.version += 1
    world.shows({**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
    assert [world.lease.releases("b.dev/y"), world.after(31), world.lease.releases("b.dev/y")] == [
        releases,
        False,
        False,
    ]


SAYS_OF_DEVICES: dict[str, tuple[dict[str, str], bool]] = {
    "they are kept": ({"tollbar.dev/device-tolerations": "Kept"}, True),
    "they are dropped": ({"tollbar.dev/device-tolerations": "Dropped"}, False),
    "it does not say": ({}, True),
}


@pytest.mark.parametrize(("annotations", "kept"), SAYS_OF_DEVICES.values(), ids=SAYS_OF_DEVICES)
def test_the_holder_says_what_the_api_server_does_with_tolerations_of_devices(
    annotations: dict[str, str], kept: bool
) -> None:
    world = World()
    world.renewed()
    (lease,) = world.manager.caches.stores["lease"].values()
    world.version += 1
    world.shows({**lease, "metadata": {**lease["metadata"], "annotations": annotations}})
    assert world.lease.keeps_tolerations() is kept


def test_what_is_said_of_tolerations_of_devices_counts_while_the_lease_is_renewed() -> None:
    world = World()
    world.renewed()
    (lease,) = world.manager.caches.stores["lease"].values()
    world.version += 1
    said = {"tollbar.dev/device-tolerations": "Dropped"}
    world.shows({**lease, "metadata": {**lease["metadata"], "annotations": said}})
    assert [world.after(30), world.lease.keeps_tolerations()] == [True, False]
    assert [world.after(0.1), world.lease.keeps_tolerations()] == [False, True]
