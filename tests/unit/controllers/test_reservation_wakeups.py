"""Which claims and WorkloadClaims a change wakes: those that it concerns, and nobody else."""

from collections.abc import Callable
from typing import Any

import pytest
from fakes.manager import Managed, drained
from objects.builders import Built, claim, pod, template

from controllers import reservations
from controllers.reservations.workloads import Workloads
from tollbar.decide.claims.reservations import State
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.views import kinds
from tollbar.views.oscillations import RETURNS, Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Problem, Takeover

KEPT = claim("kept").annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})
OTHER = claim("other")


def workload_claim(name: str, **spec: Any) -> Built:
    return Built(kind="WorkloadClaim", metadata={"namespace": "ml", "name": name, "uid": name}, spec=spec)


MADE = workload_claim("made", resourceClaimTemplateName="one")
ADOPTED = workload_claim("adopting", resourceClaimName="other")


class World:
    """Both controllers listen, and nobody works."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.manager = Managed()
        self.takeover = Takeover()
        self.states = ReservationStates(self.manager.metrics)
        self.oscillations = Oscillations(self.manager.caches.store(kinds.CLAIMS_WITH_STATUS), self.manager.clock)
        self.workloads: Workloads

        def workloads(*given: Any, **more: Any) -> Workloads:
            self.workloads = Workloads(*given, **more)
            return self.workloads

        monkeypatch.setattr(reservations, "Workloads", workloads)
        self.oscillations.start()
        self.controllers = reservations.setup(
            self.manager, self.takeover, self.states, self.oscillations, self.manager.device_tolerations()
        )
        self.manager.fill([KEPT, OTHER, MADE, ADOPTED])
        for controller in self.controllers:
            controller.connect()

    async def woken(self) -> dict[str, set[str]]:
        found = {each.name: {key.name for key in await drained(each.queue)} for each in self.controllers}
        return {name: keys for name, keys in found.items() if keys}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


async def test_at_the_start_everything_that_is_there_is_reconciled(world: World) -> None:
    assert await world.woken() == {"reservations": {"kept"}, "workloadclaims": {"made", "adopting"}}


CHANGES: dict[str, tuple[Object, dict[str, set[str]]]] = {
    "a claim that is kept": (KEPT.allocated(), {"reservations": {"kept"}}),
    "a claim of a WorkloadClaim": (OTHER.allocated(), {"workloadclaims": {"adopting"}}),
    "a claim that nobody keeps": (claim("nobodys"), {}),
    "a claim of which nothing but our entry is left": (
        claim("other").allocated().pinned({"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}),
        {"reservations": {"other"}, "workloadclaims": {"adopting"}},
    ),
    "a claim that nobody keeps any more": (
        claim("kept").allocated().reserved(pod_entry(pod())),
        {"reservations": {"kept"}},
    ),
    "a Pod of a claim that is kept": (pod().claims("kept", "other"), {"reservations": {"kept"}}),
    "a Pod of other claims": (pod().claims("other"), {}),
    "a template": (template("one"), {"workloadclaims": {"made"}}),
    "another template": (template("two"), {}),
    "a WorkloadClaim whose claim exists": (
        ADOPTED.but("spec.release", "WhenIdle"),
        {"reservations": {"other"}, "workloadclaims": {"adopting"}},
    ),
    "a WorkloadClaim whose claim does not exist": (
        MADE.but("spec.release", "WhenIdle"),
        {"workloadclaims": {"made"}},
    ),
}


@pytest.mark.parametrize(("changed", "want"), CHANGES.values(), ids=CHANGES)
async def test_changes(world: World, changed: Object, want: dict[str, set[str]]) -> None:
    await world.woken()
    world.manager.fill([changed])
    assert await world.woken() == want


DELETIONS: dict[str, tuple[Object, dict[str, set[str]]]] = {
    "a WorkloadClaim wakes its claim": (ADOPTED, {"reservations": {"other"}, "workloadclaims": {"adopting"}}),
    "a claim that was kept": (KEPT, {"reservations": {"kept"}}),
    "a claim of a WorkloadClaim": (OTHER, {"workloadclaims": {"adopting"}}),
}


@pytest.mark.parametrize(("gone", "want"), DELETIONS.values(), ids=DELETIONS)
async def test_deletions(world: World, gone: Object, want: dict[str, set[str]]) -> None:
    await world.woken()
    world.manager.remove(gone)
    assert await world.woken() == want


def _is_replaced(world: World) -> None:
    world.takeover.found(None)


def _yields(world: World) -> None:
    world.takeover.found(Problem("AnotherGenerator", ""))


def _workload_changes(world: World) -> None:
    world.workloads.changes.send(Key("ml", "kept"))


def _entry_comes_and_goes(world: World) -> None:
    """Of a Pod on a claim that nobody keeps."""
    allocated = claim("nobodys").allocated()
    for _ in range(RETURNS + 1):
        world.manager.fill([allocated.reserved(pod_entry(pod()))])
        world.manager.fill([allocated])


def _reservation_stands_otherwise(world: World) -> None:
    world.states.record(Key("ml", "other"), State(True, "Held"))


def _reservation_stands_as_before(world: World) -> None:
    world.states.record(Key("ml", "other"), None)


FOUND_OUT: dict[str, tuple[Callable[[World], None], dict[str, set[str]]]] = {
    "nobody else generates claims: every claim that is kept": (_is_replaced, {"reservations": {"kept"}}),
    "another generator is at work: every claim that is kept": (_yields, {"reservations": {"kept"}}),
    "the workload of a claim changes": (_workload_changes, {"reservations": {"kept"}}),
    "a Pod's entry comes and goes on any claim": (_entry_comes_and_goes, {"reservations": {"nobodys"}}),
    "a reservation stands otherwise than before": (_reservation_stands_otherwise, {"workloadclaims": {"adopting"}}),
    "a reservation stands as before": (_reservation_stands_as_before, {}),
}


@pytest.mark.parametrize(("happens", "want"), FOUND_OUT.values(), ids=FOUND_OUT)
async def test_what_is_found_out(world: World, happens: Callable[[World], None], want: dict[str, set[str]]) -> None:
    await world.woken()
    happens(world)
    assert await world.woken() == want


async def test_claims_whose_entries_come_and_go_are_counted(world: World) -> None:
    _entry_comes_and_goes(world)
    metrics = world.manager.metrics
    counted = metrics.counter("tollbar_claim_oscillations_total")._value.get()
    (gauge,) = (each for each in metrics.registry.collect() if each.name == "tollbar_claims_oscillating")
    assert (counted, [sample.value for sample in gauge.samples]) == (1, [1])
