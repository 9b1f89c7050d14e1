"""What the leader says on its Lease about claims, as it learns more."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from builders import CREATED, Pod, claim, pod, template
from claimworld import view_of

from controllers import standing
from controllers.standing import AROUND, PERIOD, Standing, waiting
from tollbar.decide.claims.modes import RECENTLY, ModeFacts, record
from tollbar.model import timestamps
from tollbar.model.conditions import Condition
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Forbidden


class Clock(SystemClock):
    """Sleeping takes no time but the clock's own; the world ends after so many sleeps."""

    def __init__(self, sleeps: int) -> None:
        self.passed = 0.0
        self._left = sleeps

    def now(self) -> float:
        return CREATED + self.passed

    def monotonic(self) -> float:
        return self.passed

    async def sleep(self, seconds: float) -> None:
        self.passed += seconds
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


def said(about: Standing) -> tuple[str, str, str]:
    condition = json.loads(about.annotations["tollbar.dev/claims-condition"])
    return about.annotations["tollbar.dev/claims"], condition["reason"], condition["message"]


async def test_the_lease_says_what_is_found_and_the_server_is_asked_now_and_then() -> None:
    sleeps = int(AROUND / PERIOD) + 1
    about, server, told = Standing("Replace", Clock(sleeps)), Server(), []
    assert said(about)[:2] == ("Replace", "Starting")

    def known(facts: ModeFacts) -> ModeFacts:
        told.append(said(about)[1])
        return replace(facts, working=len(told) > 1)

    with pytest.raises(asyncio.CancelledError):
        await about.run(server, known)  # type: ignore[arg-type]
    assert said(about) == (
        "Replace",
        "Generating",
        "nobody else generates ResourceClaims; Kubernetes v1.37.0, no PodGroups",
    )
    assert (told[:3], server.versions) == (["Starting", "Starting", "Generating"], 2)


async def test_a_server_that_does_not_answer_changes_nothing() -> None:
    about = Standing("Complement", Clock(2))
    with pytest.raises(asyncio.CancelledError):
        await about.run(Server(at_first=False), lambda facts: facts)  # type: ignore[arg-type]
    assert said(about)[1] == "Complementing"


async def test_who_made_the_newest_claim_of_a_pod() -> None:
    store = view_of().caches.claims
    for name, manager, seconds in (("a", "tollbar-controllers", 2), ("b", "kube-controller-manager", 3), ("c", "x", 1)):
        made = claim(name).generated_for(pod(), "gpu").written_by(manager, {"f:spec": {}})
        store.apply(made.created(CREATED + seconds))
    store.apply(claim("by-hand").written_by("kubectl", {"f:spec": {}}).created(CREATED + 9))
    about = Standing("Complement", Clock(2))
    about.watch(store)
    with pytest.raises(asyncio.CancelledError):
        await about.run(Server(), lambda facts: facts)  # type: ignore[arg-type]
    assert "kube-controller-manager made the newest one" in said(about)[2]


OLD = CREATED - standing.PATIENCE - 1
WAITS = pod().templates("gpu").created(OLD)
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
    view = view_of(template("gpu"))
    view.caches.claim_users.apply(given)
    assert waiting(view.caches, CREATED) == want


def test_whether_it_was_handed_over_is_judged_when_it_is_asked() -> None:
    clock = Clock(1)
    about, condition = Standing("Replace", clock), record("", Condition("True", "Generating", ""), CREATED)
    annotations = {"tollbar.dev/claims": "Replace", "tollbar.dev/claims-condition": condition}
    about.take_over({"metadata": {"annotations": annotations}, "spec": {"renewTime": timestamps.micro_time(CREATED)}})
    seen = [about.handed_over()]
    clock.passed = RECENTLY + 1
    assert [*seen, about.handed_over()] == [True, False]
