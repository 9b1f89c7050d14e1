"""The oracle's protocol: what tests and benchmarks rely on when they ask Kubernetes."""

import subprocess
from typing import Any

import pytest
from planes.parameters import since

from tollbar.devplane.binaries import DEFAULT_VERSION
from tollbar.devplane.real.oracle import Oracle, OracleError
from tollbar.model.objects import Object

pytestmark = since(DEFAULT_VERSION, "there is no oracle")

DEVICE = {"driver": "a.example.com", "attributes": {"lanes": {"ints": [1, 2]}}, "capacity": {"m": {"value": "1Gi"}}}

ANSWERS: dict[str, tuple[Object, Object]] = {
    "a value": ({"expression": "1 + 1"}, {"outcome": "value", "type": "int", "value": 2, "cost": 1}),
    "an int that a double cannot hold": (
        {"expression": "pod.n", "inputs": {"pod": {"n": 9007199254740993}}},
        {"outcome": "value", "type": "int", "value": "9007199254740993", "cost": 2},
    ),
    "kinds within a value": (
        {"expression": '[dyn(1), dyn(2.0), dyn({"a": b"x"})]', "typed": True},
        {
            "outcome": "value",
            "type": "list",
            "value": ["list", [["int", "1"], ["double", "2.0"], ["map", [[["string", "a"], ["bytes", "eA=="]]]]]],
        },
    ),
    "a declared type": (
        {"expression": "x + 1.0", "variables": {"x": "double"}, "inputs": {"x": 1.5}},
        {"outcome": "value", "type": "double", "value": 2.5, "cost": 2},
    ),
    "a selector": (
        {"expression": 'device.attributes["a.example.com"].lanes.includes(2)', "device": DEVICE},
        {"outcome": "value", "type": "bool", "value": True, "cost": 6},
    ),
    "a value with line breaks of Unicode": (
        {"expression": r'"a\u0085b\u2028c"'},
        {"outcome": "value", "type": "string", "value": "a\x85b\u2028c"},
    ),
    "an error": ({"expression": "1 / 0"}, {"outcome": "error", "message": "division by zero", "value": None}),
}


@pytest.mark.parametrize(("request_", "want"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(oracle: Oracle, request_: Object, want: Object) -> None:
    (answer,) = oracle.evaluate([{"id": "n", **request_}])
    assert {key: answer.get(key) for key in want} | {"id": answer["id"]} == {"id": "n", **want}


def test_a_refusal_names_the_place(oracle: Oracle) -> None:
    (answer,) = oracle.evaluate([{"expression": "x + 1", "variables": {"x": "string"}}])
    assert (answer["outcome"], "1:3" in answer["message"]) == ("compile_error", True)


def test_answers_keep_the_order_of_requests(oracle: Oracle) -> None:
    answers = oracle.evaluate({"id": number, "expression": str(number)} for number in range(500))
    assert [(answer["id"], answer["value"]) for answer in answers] == [(number, number) for number in range(500)]


def test_times_are_measured_on_request(oracle: Oracle) -> None:
    rule, selector = oracle.evaluate(
        [{"expression": "1 + 1", "repeat": 10}, {"expression": "true", "device": DEVICE, "repeat": 10}]
    )
    measured: list[Any] = [rule["nanoseconds"], rule["nanosecondsWithoutCost"], selector["nanoseconds"]]
    assert [value > 0 for value in measured] == [True] * 3


def test_a_line_that_is_no_request_is_answered_too(oracle: Oracle) -> None:
    done = subprocess.run(
        (*oracle.command, "cel"), input='{"expression": 1}\n{\n', capture_output=True, text=True, check=True
    )
    assert [line.count('"compile_error"') for line in done.stdout.splitlines()] == [1, 1]


def test_a_binary_without_an_oracle_is_an_error() -> None:
    with pytest.raises(OracleError, match="0 answers to 1 requests"):
        Oracle(("true",)).evaluate([{"expression": "1"}])


NODE: Object = {"metadata": {"name": "node-0"}}
CYCLE: Object = {
    "id": 7,
    "nodes": [NODE, {"metadata": {"name": "node-1"}}],
    "claims": [
        {
            "metadata": {"name": "gpu", "namespace": "ml"},
            "spec": {
                "devices": {
                    "requests": [
                        {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}
                    ]
                }
            },
        }
    ],
    "classes": [{"metadata": {"name": "gpu"}, "spec": {}}],
    "slices": [
        {
            "metadata": {"name": "s"},
            "spec": {
                "driver": "a.example.com",
                "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
                "nodeName": "node-0",
                "devices": [{"name": "d"}],
            },
        }
    ],
}
HELD: Object = {"request": "r", "driver": "a.example.com", "pool": "p", "device": "d"}
ONLY_HERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]}]}
ALLOCATED: Object = {
    "node": "node-0",
    "outcome": "allocated",
    "results": [{"devices": {"results": [HELD]}, "nodeSelector": ONLY_HERE}],
    "steps": 4,
}
NONE: Object = {"node": "node-0", "outcome": "none", "steps": 1}
MISSING = 'claim ml/gpu, request r: could not retrieve device class gpu: deviceclass.resource.k8s.io "gpu" not found'


def held_with(**more: Any) -> Object:
    return {
        "allocated": [{"metadata": {"name": "x"}, "status": {"allocation": {"devices": {"results": [HELD | more]}}}}]
    }


SHARE = {"shareID": "00000000-0000-4000-8000-000000000000"}
CYCLES: dict[str, tuple[Object, Object]] = {
    "a free device": ({}, ALLOCATED),
    "a device in use": (held_with(), NONE),
    "a device in use with admin access": (held_with(adminAccess=True), ALLOCATED),
    "a share of a device that is no longer shared": (held_with(**SHARE), ALLOCATED),
    "a share is a whole device without the feature": (
        held_with(**SHARE) | {"features": {"ConsumableCapacity": False}},
        NONE,
    ),
    "no claims": ({"claims": []}, {"node": "node-0", "outcome": "allocated", "results": [], "steps": 1}),
    "a class that does not exist": (
        {"classes": []},
        {"node": "node-0", "outcome": "error", "message": MISSING, "steps": 0},
    ),
    "no time": (
        {"timeoutSeconds": 1e-9},
        {
            "node": "node-0",
            "outcome": "error",
            "message": "filter operation aborted: context deadline exceeded",
            "steps": 1,
        },
    ),
}


@pytest.mark.parametrize(("more", "want"), CYCLES.values(), ids=CYCLES)
def test_a_scheduling_cycle(oracle: Oracle, more: Object, want: Object) -> None:
    (answer,) = oracle.allocate([CYCLE | more])
    assert (answer["id"], answer["nodes"][0], [each["node"] for each in answer["nodes"]]) == (
        7,
        want,
        ["node-0", "node-1"],
    )


def test_a_cycle_that_cannot_be_read_is_answered_too(oracle: Oracle) -> None:
    given = [CYCLE | {"unknown": 1}, {"nodes": [{"metadata": {"nmae": "x"}}]}, {"claims": {}}, {"nodes": [None]}, CYCLE]
    *failed, good = oracle.allocate(given)
    assert ([("message" in each, each["nodes"]) for each in failed], good["nodes"][0]) == (
        [(True, None)] * 4,
        ALLOCATED,
    )


def test_cycles_are_measured_on_request(oracle: Oracle) -> None:
    (answer,) = oracle.allocate([CYCLE | {"repeat": 2000}])
    measured: list[Any] = [answer["nanoseconds"], answer["nanosecondsOnce"]]
    assert [0 < value < 1e9 for value in measured] == [True, True]


NODES: list[Object] = [
    {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}},
    }
    for name, cpu in (("large", "4"), ("small", "1"))
]


def pod(name: str, cpu: str, priority: int = 0, node: str = "") -> Object:
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": cpu}}}
    spec: Object = {"schedulerName": "default-scheduler", "priority": priority, "containers": [container]}
    metadata = {"namespace": "default", "name": name, "uid": name}
    status = {"startTime": "2026-01-01T00:00:00Z"} if node else {}
    bound = {"nodeName": node} if node else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec | bound, "status": status}


def test_a_pod_that_fits_has_scores_and_the_best_nodes(oracle: Oracle) -> None:
    (answer,) = oracle.schedule([{"id": "n", "objects": [*NODES, pod("web", "500m")]}])
    (found,) = answer["pods"]
    assert (answer["id"], found["pod"], found["outcome"], found["best"]) == (
        "n",
        "default/web",
        "scheduled",
        ["large"],
    )
    assert {each["node"]: each["raw"]["NodeResourcesFit"] for each in found["scores"]} == {"large": 91, "small": 72}


def test_a_pod_that_does_not_fit_has_reasons_by_node_and_victims(oracle: Oracle) -> None:
    objects = [*NODES, pod("low", "3", node="large"), pod("high", "2", priority=10)]
    (answer,) = oracle.schedule([{"objects": objects}])
    (found,) = answer["pods"]
    insufficient = {"plugin": "NodeResourcesFit", "reasons": ["Insufficient cpu"]}
    assert found["nodes"] == [
        {"node": "large", "code": "Unschedulable", **insufficient},
        {"node": "small", "code": "UnschedulableAndUnresolvable", **insufficient},
    ]
    assert [(each["node"], each["victims"]) for each in found["candidates"]] == [("large", ["default/low"])]
    assert (found["postFilter"]["nominated"], found["bestOfCandidates"]) == ("large", ["large"])
    assert found["message"] == (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: found a potential placement for pod on node large, preempting 1 victims"
    )


def test_only_the_plugins_of_the_configuration_decide(oracle: Oracle) -> None:
    enabled = [{"name": name} for name in ("PrioritySort", "NodeName", "DefaultBinder")]
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": [{"name": "*"}]}}}
    profile["plugins"]["multiPoint"]["enabled"] = enabled
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    objects = [*NODES, pod("a", "100"), pod("b", "100")]
    request = {"configuration": head | {"profiles": [profile]}, "objects": objects, "pods": ["default/b"]}
    (answer,) = oracle.schedule([request])
    assert [(each["pod"], each["best"]) for each in answer["pods"]] == [("default/b", ["large", "small"])]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"objects": [{"apiVersion": "v1", "kind": "Node", "unknown": 1}]}, "objects[0]: strict decoding error"),
        ({"configuration": {"apiVersion": "v1", "kind": "Pod"}}, "configuration: no kind"),
        ({"nodes": []}, 'request: json: unknown field "nodes"'),
    ],
    ids=["object", "configuration", "request"],
)
def test_a_cluster_that_cannot_be_read_is_answered_with_a_message(
    oracle: Oracle, request_: Object, message: str
) -> None:
    (answer,) = oracle.schedule([request_])
    assert answer["message"].startswith(message)


IN_NS = {"metadata": {"namespace": "ns", "name": "web", "uid": "web"}, "spec": {"schedulerName": "default-scheduler"}}
TRACE: Object = {
    "id": "q",
    "profiles": {
        "default-scheduler": [
            {
                "name": "Filter",
                "preEnqueue": False,
                "events": [{"resource": "Node", "action": 1, "hint": False, "preHint": False}],
            }
        ]
    },
    "initialBackoff": 1,
    "maxBackoff": 10,
    "flush": 300,
    "steps": [
        {"at": 100.0, "op": "add", "name": "web", "pod": IN_NS},
        {"at": 100.0, "op": "pop"},
        {"at": 100.5, "op": "fail", "index": 0, "plugins": ["Filter"]},
        {"at": 100.5, "op": "event", "resource": "Node", "action": 1},
        {"at": 102.0, "op": "flushBackoff"},
    ],
}


def test_a_trace_of_the_queue_says_where_a_pod_is_after_each_step(oracle: Oracle) -> None:
    (answer,) = oracle.queue([TRACE])
    places = ("active", "backoff", "errorBackoff", "unschedulable", "gated", "inFlight")
    seen = [[place for place in places if state[place]] for state in answer["states"]]
    assert (answer["id"], seen) == (
        "q",
        [["active"], ["inFlight"], ["unschedulable"], ["backoff"], ["active"]],
    )


def test_a_trace_that_cannot_be_played_is_answered_too(oracle: Oracle) -> None:
    given = [TRACE | {"unknown": 1}, TRACE | {"steps": {}}, TRACE | {"steps": [{"op": "fly"}]}, TRACE]
    *failed, good = oracle.queue(given)
    assert (["message" in each for each in failed], len(good["states"])) == ([True] * 3, 5)
