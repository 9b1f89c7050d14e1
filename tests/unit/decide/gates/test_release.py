"""What the chain of every gate does for a gate that says nothing else than its answer."""

from functools import cached_property

import pytest
from objects.builders import CREATED, Pod, pod, toleration

from tollbar.decide.gates.answers import Answer, Hold, Mutation, Release
from tollbar.decide.gates.release import Case, Plan, after_refusal, plan
from tollbar.decide.pods.scope import GatePolicy
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.plan import Event

GATE = "example.com/zone"
GPU, NIC = toleration("example.com/gpu"), toleration("example.com/nic")
HELD = pod().gated("a.dev/x", GATE)
LIFT: Patch = (
    {"op": "test", "path": "/metadata/uid", "value": "uid-of-web"},
    {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
    {"op": "remove", "path": "/spec/schedulingGates/1"},
)


class Saying(Case[Plan]):
    """A gate that says the same of every Pod."""

    gate = GATE

    def __init__(self, held: Object, says: Answer, now: float) -> None:
        super().__init__(held, GatePolicy(max_hold=60), now, managed=True, refusal=None)
        self._says = says

    @cached_property
    def answer(self) -> Answer:
        return self._says

    def decide(self) -> Plan:
        return plan(self)

    def refused(self, plan: Plan, why: str) -> Plan:
        return after_refusal(self, plan.release, why)


RELEASES: dict[str, tuple[Pod, Mutation, Patch, str]] = {
    "with nothing": (HELD, Mutation(), LIFT, "released; still waiting for a.dev/x"),
    "with what it lacks": (
        HELD.tolerating(GPU),
        Mutation((GPU, NIC)),
        (
            *LIFT,
            {"op": "test", "path": "/spec/tolerations", "value": [GPU]},
            {"op": "add", "path": "/spec/tolerations/-", "value": NIC},
        ),
        "released with its devices; still waiting for a.dev/x",
    ),
}


@pytest.mark.parametrize(("held", "mutation", "patch", "note"), RELEASES.values(), ids=RELEASES)
def test_the_gate_comes_off(held: Pod, mutation: Mutation, patch: Patch, note: str) -> None:
    found = Saying(held, Release(mutation, "its devices"), CREATED + 1).decide()
    assert (found.patch, found.events) == (patch, (Event("Normal", "GateReleased", note, "Release"),))


def test_the_same_at_a_later_moment() -> None:
    case = Saying(HELD, Release(), CREATED + 1)
    later = case.at(CREATED + 61)
    assert (case.age, later.age, later.pod, later.held_too_long) == (1.0, 61.0, HELD, True)


def test_what_a_release_would_have_told_is_not_told_of_one_at_max_hold() -> None:
    told = Event("Normal", "Placed", "in zone a", "Place")
    found = Saying(HELD, Hold("Early", "the evening", Release(events=(told,))), CREATED + 60).decide()
    assert [each.note for each in found.events] == [
        "released after 60s, while Tollbar still waits for the evening",
        "released; still waiting for a.dev/x",
    ]
