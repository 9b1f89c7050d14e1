"""The Events about Pods that no plan of the tolerations' gate has in all their forms."""

from collections.abc import Callable

import pytest
from objects.builders import toleration

from tollbar.decide.pods import events
from tollbar.decide.pods.justification import Given
from tollbar.model.plan import Event

TWO = [Given(name, 1, toleration(f"{name}.dev/x")) for name in "ab"]
UNJUSTIFIED = (
    "the claims that the Pod runs with do not justify what it tolerates:"
    " a.dev/x:NoSchedule op=Exists by rule a, b.dev/x:NoSchedule op=Exists by rule b"
)
TEXTS: dict[str, tuple[Callable[[], Event], Event]] = {
    "a gate class fails": (lambda: events.gate_failed("why"), Event("Warning", "GateFailed", "why", "Decide")),
    "released": (lambda: events.gate_released("", ()), Event("Normal", "GateReleased", "released", "Release")),
    "released with something, and still held by others": (
        lambda: events.gate_released("its zone", ["a.dev/x", "b.dev/y"]),
        Event("Normal", "GateReleased", "released with its zone; still waiting for a.dev/x, b.dev/y", "Release"),
    ),
    "released without tolerations, and without its claims": (
        lambda: events.released((), (), ["ResourceClaim a", "ResourceClaim b"]),
        Event(
            "Normal",
            "GateReleased",
            "released; no toleration added; kube-scheduler waits for ResourceClaim a, ResourceClaim b, until then"
            " kubectl shows SchedulingGated",
            "Release",
        ),
    ),
    "a gate of nobody that is known": (
        lambda: events.others_gate_overdue("a.dev/x", 60.0, ()),
        Event("Warning", "GateOverdue", "held by a.dev/x for more than 60s", "Hold"),
    ),
    "a gate of others": (
        lambda: events.others_gate_overdue("a.dev/x", 60.0, ["b", "c"]),
        Event("Warning", "GateOverdue", "held by a.dev/x for more than 60s; its owners are b, c", "Hold"),
    ),
    "several rules fail": (
        lambda: events.rule_evaluation_failed([("a", "x"), ("b", "y")]),
        Event("Warning", "RuleEvaluationFailed", "rule a: x; rule b: y", "Evaluate"),
    ),
    "several tolerations are not justified": (
        lambda: events.toleration_unjustified(TWO),
        Event("Warning", "TolerationUnjustified", UNJUSTIFIED, "Review"),
    ),
}


GATE = "example.com/zone"
UNSCHEDULABLE = "0/3 nodes are available: 3 Insufficient cpu."
NOTES: dict[str, tuple[str, tuple[str, str]]] = {
    "of a class": (events.about_gate(GATE, events.scheduling_held("a: b")).note, (GATE, "waiting for a: b")),
    "cut off by the recorder": (f"{GATE}: {'x' * 1000}", (GATE, "x" * 1000)),
    "of Tollbar's own gate": (
        events.scheduling_held("ResourceClaim ml/c: d").note,
        ("", "waiting for ResourceClaim ml/c: d"),
    ),
    "of its refusal": (events.release_refused("no").note, ("", "the API server refused the patch: no")),
    "of a rule": (events.rule_evaluation_failed([("a/b", "x")]).note, ("", "rule a/b: x")),
    "of another component": (UNSCHEDULABLE, ("", UNSCHEDULABLE)),
    "without a text": ("", ("", "")),
}


@pytest.mark.parametrize(("note", "want"), NOTES.values(), ids=NOTES)
def test_of_which_gate_a_note_is(note: str, want: tuple[str, str]) -> None:
    assert events.gate_of(note) == want


@pytest.mark.parametrize(("said", "want"), TEXTS.values(), ids=TEXTS)
def test_texts(said: Callable[[], Event], want: Event) -> None:
    assert said() == want
