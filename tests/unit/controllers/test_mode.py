"""The annotations about claims that the leader writes on its Lease."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, Literal

import pytest
from fakes.clocks import InstantClock
from fakes.manager import Managed
from objects.builders import CREATED, Pod, claim, pod, template

from controllers import mode
from controllers.mode.condition import DETECTION_PERIOD, PERIOD, WAITED, waiting
from tollbar.decide.claims.reservations import State
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.runtime.errors import Forbidden
from tollbar.views import kinds
from tollbar.views.lookup import filled
from tollbar.views.oscillations import RETURNS, Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Problem, Takeover


class Clock(InstantClock):
    """`meanwhile` is called in each sleep, and the world ends after so many."""

    def __init__(self, sleeps: int = 1) -> None:
        super().__init__(0.0, CREATED)
        self.meanwhile: Callable[[], None] = lambda: None
        self._left = sleeps

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds)
        self.meanwhile()
        self._left -= 1
        if not self._left:
            raise asyncio.CancelledError


class Server:
    """Permits everything, serves no PodGroups; does not answer `at_first`."""

    def __init__(self, *, at_first: bool = True) -> None:
        self.versions = 0
        self._answers = at_first

    async def served(self, _group_version: str) -> set[str]:
        return set()

    async def raw(self, *_: Any) -> bytes:
        self.versions += 1
        if not self._answers:
            raise Forbidden(403, "Forbidden", "no")
        return b'{"gitVersion": "v1.37.0"}'

    async def create(self, *_: Any) -> Any:
        return {"status": {"allowed": True}}


def said(manager: Managed) -> tuple[str, str, str]:
    """On the Lease: the mode, and the reason and message of its condition."""
    annotations = manager.lease_annotations
    condition = json.loads(annotations["tollbar.dev/claims-condition"])
    return annotations["tollbar.dev/claims"], condition["reason"], condition["message"]


class World:
    """The leader, in a cluster of these objects."""

    def __init__(
        self,
        claims: Literal["Complement", "Replace"],
        *objects: Object,
        clock: Clock | None = None,
        server: Server | None = None,
    ) -> None:
        self.clock, self.server = clock or Clock(), server or Server()
        self.manager = Managed(self.server, clock=self.clock, claims=claims)
        self.takeover = Takeover() if claims == "Replace" else None
        self.states = ReservationStates(self.manager.metrics)
        self.oscillations = Oscillations(self.manager.caches.store(kinds.CLAIMS_WITH_STATUS), self.clock)
        self.oscillations.start()
        mode.setup(self.manager, self.takeover, self.states, self.oscillations)
        self.manager.fill(objects)

    async def run(self) -> None:
        with pytest.raises(asyncio.CancelledError):
            await self.manager.leading("claims mode")()


async def test_the_lease_shows_what_is_detected_and_the_server_is_read_again_periodically() -> None:
    world = World("Replace", clock=Clock(int(DETECTION_PERIOD / PERIOD) + 1))
    assert said(world.manager)[:2] == ("Replace", "Starting")
    told = []

    def nobody_else_is_found() -> None:
        told.append(said(world.manager)[1])
        assert world.takeover is not None
        world.takeover.found(None)

    world.clock.meanwhile = nobody_else_is_found
    await world.run()
    assert said(world.manager) == (
        "Replace",
        "Generating",
        "nobody else generates ResourceClaims; Kubernetes v1.37.0, no PodGroups",
    )
    assert (told[:2], world.server.versions) == (["Starting", "Generating"], 2)


async def test_the_condition_is_not_decided_before_the_caches_are_filled() -> None:
    world = World("Complement")
    world.manager.caches.stores["claims"].synced.clear()
    running = asyncio.create_task(world.manager.leading("claims mode")())
    for _ in range(10):
        await asyncio.sleep(0)
    read = world.server.versions
    running.cancel()
    await asyncio.wait({running})
    assert read == 0


async def test_a_server_that_does_not_answer_changes_nothing() -> None:
    world = World("Complement", clock=Clock(2), server=Server(at_first=False))
    await world.run()
    assert said(world.manager)[1] == "Complementing"


def test_claims_that_are_left_alone_are_said_to_be_so_at_once() -> None:
    manager = Managed(claims="Disabled")
    mode.disabled(manager)
    assert said(manager) == ("Disabled", "Disabled", "claims are left alone")


async def test_who_made_the_newest_claim_of_a_pod() -> None:
    world = World("Complement")
    for name, manager, seconds in (("a", "tollbar-controllers", 2), ("b", "kube-controller-manager", 3), ("c", "x", 1)):
        made = claim(name).generated_for(pod(), "gpu").written_by(manager, {"f:spec": {}})
        world.manager.fill([made.created(CREATED + seconds)])
    world.manager.fill([claim("by-hand").written_by("kubectl", {"f:spec": {}}).created(CREATED + 9)])
    await world.run()
    assert "kube-controller-manager made the newest one" in said(world.manager)[2]


OLD = CREATED - WAITED - 1
WAITS = pod().templates("gpu").created(OLD)


def _too_old(world: World) -> None:
    world.states.record(Key("ml", "gpu"), State(False, "UpstreamTooOld"))


def _oscillates(world: World) -> None:
    for _ in range(RETURNS + 1):
        world.manager.fill([claim().allocated().reserved(pod_entry(pod()))])
        world.manager.fill([claim().allocated()])


def _refused(world: World) -> None:
    assert world.takeover is not None
    world.takeover.found(Problem("MissingRights", "no rights"))


def _waits(world: World) -> None:
    world.manager.fill([template("gpu"), WAITS])


OBSERVED: dict[str, tuple[Literal["Complement", "Replace"], Callable[[World], None], str]] = {
    "a reservation that the server is too old for": ("Complement", _too_old, "UpstreamTooOld"),
    "a claim whose entries come and go": ("Complement", _oscillates, "UpstreamOscillation"),
    "a Pod that waits for a claim which nobody makes": ("Complement", _waits, "NobodyGenerates"),
    "what speaks against replacing": ("Replace", _refused, "MissingRights"),
    "nothing is known about other generators": ("Replace", _waits, "Starting"),
}


@pytest.mark.parametrize(("claims", "happens", "reason"), OBSERVED.values(), ids=OBSERVED)
async def test_what_this_process_knows_is_on_the_lease(
    claims: Literal["Complement", "Replace"], happens: Callable[[World], None], reason: str
) -> None:
    world = World(claims)
    happens(world)
    await world.run()
    assert said(world.manager)[:2] == (claims, reason)


WAITING: dict[str, tuple[Pod, int]] = {
    "for a claim that nobody makes": (WAITS, 1),
    "not for long": (WAITS.created(CREATED - 1), 0),
    "for a template": (pod().templates("nic").created(OLD), 0),
    "for two, of which one has no template": (pod().templates("nic", "gpu").created(OLD), 0),
    "for nothing": (WAITS.generated("gpu", "web-gpu-x"), 0),
    "for its PodGroup's": (WAITS.in_group("gang"), 0),
    "no more": (WAITS.phase("Failed"), 0),
    "by name": (pod().claims("gpu").created(OLD), 0),
}


@pytest.mark.parametrize(("given", "want"), WAITING.values(), ids=WAITING)
def test_who_waits(given: Pod, want: int) -> None:
    store = filled([template("gpu"), given], (kinds.PENDING_PODS, kinds.TEMPLATES))
    assert waiting(store(kinds.PENDING_PODS), store(kinds.TEMPLATES), CREATED) == want
