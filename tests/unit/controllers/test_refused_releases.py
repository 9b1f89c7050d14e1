"""A held Pod whose tolerations other admission refuses: free at maxHold without them, and who remembers what."""

from dataclasses import dataclass
from typing import Any

import pytest
from clusters.strategies import World
from fakes.clocks import Aged
from fakes.engine import FakeEngine, has_label
from objects import patching
from objects.builders import Pod, namespace, pod, scheduling_gate, toleration, toleration_rule

from tollbar import wellknown
from tollbar.decide.gates.release import Refusal
from tollbar.gates.refusals import Refusals
from tollbar.model import resources
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, key_of
from tollbar.model.plan import DONE, Failed, Outcome
from tollbar.runtime.errors import error_from_status
from tollbar.runtime.store import Store

WANTED = toleration("example.com/a")
ENGINE = FakeEngine({"is an app": has_label("app").program})  # type: ignore[dict-item]
HELD = pod().gated().labelled(app="web").but("metadata.resourceVersion", "6")
FREE = HELD.but("spec.schedulingGates", None).labelled({"tollbar.dev/gate": "released"})
WORDS = "pod tolerations conflict with its namespace whitelist"
REFUSED = f"Pod web: ReleaseRefused: the API server refused the patch: {WORDS}"


@dataclass
class Api:
    """Stores what it is sent, but no tolerations while a policy is against them."""

    pods: Store | None = None
    policy: bool = True
    version: int = 6

    async def patch(self, _resource: Any, _name: str, patch: Patch, **_: Any) -> Object:
        if self.policy and any(op["path"].startswith("/spec/tolerations") and op["op"] == "add" for op in patch):
            raise error_from_status({"code": 403, "reason": "Forbidden", "message": WORDS})
        self.version += 1
        stored = Pod(patching.apply((self.pods and self.pods.get(key_of(HELD))) or {}, patch))
        if not stored.at("spec.schedulingGates"):
            stored = stored.but("spec.schedulingGates", None)
        return stored.but("metadata.resourceVersion", str(self.version))


class Held(World):
    """HELD, its rule and a gate with a maxHold of a minute."""

    def __init__(self, on_expiry: str = "Release") -> None:
        self.api, self.time = Api(), Aged(0.0)
        gate = scheduling_gate().expiring("60s", on_expiry)
        cluster = (HELD, namespace(), gate, toleration_rule("r1").cel("is an app").giving(WANTED))
        super().__init__(cluster, {}, engine=ENGINE, client=self.api, clock=self.time)
        self.api.pods = self.pods

    async def at(self, age: float) -> tuple[Outcome, list[str]]:
        """What becomes of the Pod at this age, and what is said."""
        self.time.age = age
        self.told.said.clear()
        return await self.controllers["gates"].reconcile(key_of(HELD)), list(self.told.said)

    def pod(self) -> Object:
        return self.pods.get(key_of(HELD)) or {}


async def test_it_is_released_without_them_at_max_hold_and_gets_them_when_the_policy_is_gone() -> None:
    given = Held()
    steps = [await given.at(age) for age in (1, 40, 60)]
    released, late = given.pod(), await given.at(61)
    given.api.policy = False
    assert (steps, released, late, await given.at(62), given.pod()["spec"]["tolerations"]) == (
        [
            (Failed("ReleaseRefused", at_most=59.0), [REFUSED]),
            (Failed("ReleaseRefused", at_most=20.0), [REFUSED]),
            (
                DONE,
                [
                    (
                        "Pod web: GateOverdue: released after 60s, without the tolerations by r1, "
                        f"which the API server refused: {WORDS}"
                    ),
                    "Pod web: GateReleased: released; no toleration added",
                ],
            ),
        ],
        FREE.but("metadata.resourceVersion", "7"),
        (Failed("ReleaseRefused"), [REFUSED]),
        (DONE, ["Pod web: TolerationsAdded: 1 toleration by r1; added after admission"]),
        [WANTED],
    )


async def test_a_controller_that_starts_later_needs_two_reconciles() -> None:
    given = Held()
    steps = [(await given.at(age))[0] for age in (3600, 3600)]
    assert (steps, given.pod()) == ([Failed("ReleaseRefused", 0.0), DONE], FREE.but("metadata.resourceVersion", "7"))


async def test_where_the_gate_only_reports_it_waits_for_the_policy() -> None:
    given = Held("Report")
    steps = [await given.at(age) for age in (60, 3600)]
    given.api.policy = False
    still = f"Pod web: GateOverdue: held for more than 60s: the API server refused the patch: {WORDS}"
    assert (steps, await given.at(3601)) == (
        [(Failed("ReleaseRefused", at_most=60.0), [REFUSED, still])] * 2,
        (DONE, ["Pod web: TolerationsAdded: 1 toleration by r1; released"]),
    )


SAID = Refusal((), "no")
FATES: dict[str, tuple[Pod | None, int]] = {
    "it goes": (None, 0),
    "it is released": (FREE.but("metadata.resourceVersion", "7"), 0),
    "it changes otherwise": (HELD.labelled(team="a").but("metadata.resourceVersion", "7"), 1),
}


@pytest.mark.parametrize(("becomes", "left"), FATES.values(), ids=FATES)
def test_a_refusal_is_remembered_until(becomes: Pod | None, left: int) -> None:
    cache = Store(resources.PODS)
    cache.apply(HELD)
    refusals = Refusals(cache, wellknown.GATE)
    refusals.remember(HELD, SAID)
    cache.apply(becomes) if becomes is not None else cache.remove(HELD)
    assert len(refusals) == left


def test_a_refusal_is_not_that_of_another_pod_of_the_same_name() -> None:
    cache = Store(resources.PODS)
    cache.apply(HELD)
    refusals = Refusals(cache, wellknown.GATE)
    refusals.remember(HELD, SAID)
    assert (refusals.of(HELD), refusals.of(HELD.but("metadata.uid", "another"))) == (SAID, None)


def test_a_refusal_of_a_pod_that_is_gone_is_not_remembered() -> None:
    refusals = Refusals(Store(resources.PODS), wellknown.GATE)
    refusals.remember(HELD, SAID)
    assert len(refusals) == 0
