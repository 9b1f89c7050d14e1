"""Gates as `tollbar status` shows them: computed from the Pods, since controllers that are dead write no status."""

from dataclasses import replace

import pytest
from objects.builders import CREATED, NAMESPACE, pod, scheduling_gate
from unit.gates.zones import saying

from tollbar import wellknown
from tollbar.cli.status.gates import GateStatus, HeldPod, gates_of, read_of
from tollbar.gates import NotMine
from tollbar.model.objects import Object
from tollbar.runtime.footprint import footprint

NOW = CREATED + 1000
READY = {"type": "Ready", "status": "True", "reason": "Owned"}
NOT_OWNED = {"type": "Ready", "status": "False", "reason": "NotAnOwner", "message": "so"}
INVALID = {**NOT_OWNED, "reason": "InvalidSpec"}
OBSERVED = {**READY, "reason": "Observed"}
DECLARED = scheduling_gate().but("spec.owners", ["somebody", "controllers"]).expiring("60s")
OURS = DECLARED.but("status.conditions", [READY])
THEIRS = scheduling_gate("quota", "example.com/quota").but("spec.maxHold", "1h").but("status.conditions", [OBSERVED])
OF_CLASS = THEIRS.but("spec.owners", ["controllers"])
OLD = pod("old").gated()
NEW = pod("new").gated().created(NOW - 65)
LATE = pod("late").gated().created(NOW - 70)
FOREIGN = pod("foreign").gated("example.com/quota")
STATUS = GateStatus("tolerations", wellknown.GATE, 60.0, "Release", "", 0, (), owned=True)

CASES: dict[str, tuple[list[Object], list[Object] | None, list[GateStatus]]] = {
    "nothing is held": ([OURS], [], [STATUS]),
    "the oldest overdue Pod is first; one that is about to be released is none": (
        [OURS],
        [LATE, OLD, NEW],
        [
            replace(
                STATUS,
                held=3,
                overdue=(HeldPod(f"{NAMESPACE}/old", 1000.0), HeldPod(f"{NAMESPACE}/late", 70.0)),
            )
        ],
    ),
    "each gate has its own Pods and its own limit": (
        [OURS, THEIRS],
        [FOREIGN, NEW],
        [
            replace(STATUS, held=1),
            GateStatus("quota", "example.com/quota", 3600.0, "Report", "", 1, ()),
        ],
    ),
    "one of a class that the leader runs without is the controllers' all the same": (
        [OURS, OF_CLASS],
        [FOREIGN],
        [STATUS, GateStatus("quota", "example.com/quota", 3600.0, "Report", "", 1, (), owned=True)],
    ),
    "one of others that is not valid has no limit": (
        [OURS, THEIRS.but("spec.maxHold", "soon").but("status.conditions", [INVALID])],
        [FOREIGN],
        [STATUS, GateStatus("quota", "example.com/quota", None, "Report", "InvalidSpec: so", 1, ())],
    ),
    "Tollbar's own that is not valid has the defaults": (
        [OURS.but("spec.maxHold", "soon").but("status.conditions", [INVALID])],
        [],
        [replace(STATUS, refused="InvalidSpec: so")],
    ),
    "without a declaration the defaults hold": (
        [],
        [LATE],
        [GateStatus("", wellknown.GATE, 60.0, "Release", "", 1, (HeldPod(f"{NAMESPACE}/late", 70.0),))],
    ),
    "the controllers may not act on it": (
        [OURS.but("status.conditions", [NOT_OWNED])],
        [],
        [replace(STATUS, refused="NotAnOwner: so")],
    ),
    "nobody has looked at it": (
        [OURS.but("status.conditions", [])],
        [],
        [replace(STATUS, refused="not looked at yet")],
    ),
    "Pods may not be read": (
        [OURS],
        None,
        [replace(STATUS, held=None, overdue=None)],
    ),
}


@pytest.mark.parametrize(("declared", "held", "want"), CASES.values(), ids=CASES)
def test_gates(declared: list[Object], held: list[Object] | None, want: list[GateStatus]) -> None:
    assert gates_of(declared, held, NOW) == tuple(want)


def test_one_of_a_class_that_is_not_valid_has_the_limit_of_the_class() -> None:
    gate = saying(lambda _facts: NotMine(), max_hold="1000s")
    unclear = scheduling_gate("zone", gate.name).expiring("soon", "Report").but("status.conditions", [OBSERVED])
    found, _ = gates_of([unclear], [pod("old").gated(gate.name)], NOW, [gate])
    assert (found.limit, found.on_expiry, found.held, found.overdue) == ("maxHold 16m40s", "Release", 1, ())


def test_what_is_kept_of_a_large_pod_is_little_and_tells_all() -> None:
    large = OLD.but("spec.containers", [{"name": "main", "command": ["x" * 1_000_000]}])
    kept = read_of(large)
    assert gates_of([OURS], [kept], NOW) == gates_of([OURS], [large], NOW)
    assert footprint(kept) < 4096
