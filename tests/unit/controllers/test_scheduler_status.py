"""What the scheduler writes into the status of a Pod."""

from typing import Any

import pytest

from controllers.scheduler import status
from tollbar.model.objects import Object

NOW = 1_790_000_000.0
NOW_TEXT = "2026-09-21T14:13:20Z"
BEFORE = "2026-01-01T00:00:00Z"


def pod(**fields: Any) -> Object:
    return {"metadata": {"name": "web", "namespace": "a", "uid": "u1", "generation": 3}, "status": fields}


def condition(**changes: Any) -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Too many pods.",
        "lastTransitionTime": NOW_TEXT,
        "observedGeneration": 3,
    } | changes


UNSCHEDULABLE = {"reason": "Unschedulable", "message": "0/1 nodes are available: 1 Too many pods."}
CASES: dict[str, tuple[Object, dict[str, Any], Object | None]] = {
    "the first rejection": (pod(), UNSCHEDULABLE, {"conditions": [condition()]}),
    "the same rejection again": (pod(conditions=[condition(lastTransitionTime=BEFORE)]), UNSCHEDULABLE, None),
    "another message keeps the time of the transition": (
        pod(conditions=[condition(message="0/2 nodes", lastTransitionTime=BEFORE)]),
        UNSCHEDULABLE,
        {"conditions": [condition(lastTransitionTime=BEFORE)]},
    ),
    "a gate before counts as another reason": (
        pod(conditions=[condition(reason="SchedulingGated", message="gated", lastTransitionTime=BEFORE)]),
        UNSCHEDULABLE,
        {"conditions": [condition(lastTransitionTime=BEFORE)]},
    ),
    "a condition without a time, such as that of a gated Pod, gets none": (
        pod(conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
        UNSCHEDULABLE,
        {"conditions": [condition(lastTransitionTime=None)]},
    ),
    "a condition that was true": (
        pod(conditions=[condition(status="True", lastTransitionTime=BEFORE)]),
        UNSCHEDULABLE,
        {"conditions": [condition()]},
    ),
    "a nomination": (pod(), {"nominated_node_name": "n1"}, {"nominatedNodeName": "n1"}),
    "the same nomination": (pod(nominatedNodeName="n1"), {"nominated_node_name": "n1"}, None),
    "a nomination is cleared": (pod(nominatedNodeName="n1"), {"nominated_node_name": ""}, {"nominatedNodeName": None}),
    "there is none to clear": (pod(), {"nominated_node_name": ""}, None),
    "nothing to say": (pod(nominatedNodeName="n1"), {}, None),
    "both": (
        pod(),
        {**UNSCHEDULABLE, "nominated_node_name": "n1"},
        {"conditions": [condition()], "nominatedNodeName": "n1"},
    ),
}


@pytest.mark.behaviour(8, case="a condition that was true")
@pytest.mark.parametrize(("given", "said", "expected"), CASES.values(), ids=CASES)
def test_patch(given: Object, said: dict[str, Any], expected: Object | None) -> None:
    wanted = {"status": expected} if expected else None
    assert status.patch(given, NOW, **said) == wanted
