"""A copy of a cluster: what it keeps of given objects, what is decided on it, and what a trial leaves behind."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from clusters.scheduler import node
from objects.builders import (
    CREATED,
    Built,
    claim,
    device_class,
    namespace,
    pod,
    scheduling_gate,
    template,
    toleration,
    toleration_rule,
)
from objects.devices import DRIVER, allocation, published, taint_rule

from tollbar.decide.pods.matching import Truth
from tollbar.model.objects import Key, Object
from tollbar.model.resources import NODES, PODS, RESOURCE_SLICES
from tollbar.offline import Cluster
from tollbar.offline.scheduling import Preemption
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.framework.diagnosis import FitError

WANTS_GPU = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
TAINT: Object = {"key": "example.com/gpu", "effect": "NoSchedule"}


def cluster(*objects: Object, **more: Any) -> Cluster:
    return Cluster([namespace(), *objects], now=CREATED + 30, **more)


def gpu_node(name: str = "n1", *taints: Object) -> Built:
    return node(name, taints=list(taints)) if taints else node(name)


def claiming() -> Any:
    return pod().claims("c")


def stored(given: Cluster) -> list[bytes]:
    return [orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in given.objects()]


def test_a_rule_that_is_true_a_package_and_a_released_gate() -> None:
    rule = toleration_rule("gpu").cel(WANTS_GPU).giving(toleration("example.com/gpu"))
    given = cluster(rule, claim("c").request("gpu"), device_class("gpu"), scheduling_gate())
    held = claiming().gated()
    plan = given.gate_plan(held)
    assert (plan.released, [each.rule for each in plan.additions], sorted(given.package(held).classes)) == (
        True,
        ["gpu"],
        ["gpu"],
    )
    assert {name: each.truth for name, each in given.verdicts(held).items()} == {"gpu": Truth.TRUE}


def test_what_is_missing_holds_the_pod_until_the_trial_brings_it() -> None:
    given = cluster(toleration_rule("gpu").cel(WANTS_GPU), claim("c").request("gpu"))
    held = claiming().gated()
    assert [str(each) for each in given.gate_plan(held).because] == ["WaitingFor: DeviceClass gpu"]
    with given.changed(put=[device_class("gpu")]):
        assert given.gate_plan(held).released
    assert not given.gate_plan(held).released


REJECTED: Mapping[str, tuple[list[Object], Object, dict[str, tuple[str, str]]]] = {
    "a taint that the Pod does not tolerate": (
        [gpu_node("n1", TAINT)],
        pod(),
        {"n1": ("TaintToleration", "node(s) had untolerated taint(s)")},
    ),
    "no device for its claim": (
        [gpu_node("n1"), claim("c").request("gpu"), device_class("gpu"), published("s", "d1", node="n2")],
        claiming(),
        {"n1": ("DynamicResources", "cannot allocate all claims")},
    ),
    "a device that another claim holds": (
        [
            gpu_node("n1"),
            claim("c").request("gpu"),
            claim("other").request("gpu").but("status.allocation", allocation("d1")),
            device_class("gpu"),
            published("s", "d1"),
        ],
        claiming(),
        {"n1": ("DynamicResources", "cannot allocate all claims")},
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_the_diagnosis_of_an_attempt(case: str) -> None:
    objects, asked, expected = REJECTED[case]
    result = cluster(*objects).scheduler.attempt(asked).result
    assert isinstance(result, FitError)
    assert {name: (each.plugin, each.message) for name, each in result.diagnosis.statuses} == expected


def test_each_attempt_tells_node_and_devices_also_where_they_are_known_from_the_one_before() -> None:
    nodes = [gpu_node(), node("n2")]
    given = cluster(*nodes, claim("c").request("gpu"), device_class("gpu"), published("s", "d1"))
    for _ in range(3):
        attempt = given.scheduler.attempt(claiming())
        assert (attempt.node_name, attempt.held, attempt.message) == ("n1", None, "")
        results = attempt.allocations[Key("ml", "c")]["devices"]["results"]
        assert [(each["driver"], each["device"]) for each in results] == [(DRIVER, "d1")]


def test_a_gate_keeps_the_pod_out_of_the_queue_and_the_attempt_says_what_comes_after() -> None:
    attempt = cluster(node("n1")).scheduler.attempt(pod().gated("example.com/quota"))
    assert attempt.held is not None
    assert (attempt.held.plugin, isinstance(attempt.result, Scheduled)) == ("SchedulingGates", True)


def test_room_that_preemption_makes() -> None:
    low = pod("low").wants({"cpu": "4"}).but("spec.nodeName", "n1").but("spec.priority", 1)
    given = cluster(node("n1"), low)
    asked = pod().wants({"cpu": "4"}).but("spec.priority", 10)
    found = [given.scheduler.attempt(asked, preempt=True) for _ in range(2)]
    made = "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    assert [(each.preemption, each.message) for each in found] == [
        (Preemption(made, "n1", 1), f"0/1 nodes are available: 1 Insufficient cpu. {made}")
    ] * 2


def test_every_node_is_surveyed_even_where_one_fits() -> None:
    given = cluster(node("n1"), gpu_node("n2", TAINT), node("n3", unschedulable=True))
    survey = given.scheduler.survey(pod())
    assert {name: status and status.plugin for name, status in survey.items()} == {
        "n1": None,
        "n2": "TaintToleration",
        "n3": "NodeUnschedulable",
    }
    assert given.scheduler.survey(pod(), {"n2"}) == {"n2": survey["n2"]}


TRIALS: Mapping[str, tuple[list[Object], list[Object]]] = {
    "a Node that is new": ([node("n9")], []),
    "a Node that is changed": ([gpu_node("n1", TAINT)], []),
    "a Node that is gone, with a Pod on it": ([], [node("n1")]),
    "a Pod that goes": ([], [pod("bound").but("spec.nodeName", "n1")]),
    "a Pod that is bound": ([pod("waits").but("spec.nodeName", "n1")], []),
    "a claim that gives up its device": ([claim("c").request("gpu")], []),
    "devices that are gone and come": ([published("s2", "d2", node="n9")], [published("s", "d1")]),
    "a taint of a device": ([taint_rule("t", driver=DRIVER)], []),
    "nothing that is known": ([], [node("nowhere")]),
}


@pytest.mark.parametrize("case", TRIALS)
def test_a_trial_leaves_nothing_behind(case: str) -> None:
    put, without = TRIALS[case]
    given = cluster(
        node("n1"),
        node("n2"),
        pod("bound").wants({"cpu": "3"}).but("spec.nodeName", "n1"),
        pod("waits"),
        claim("c").request("gpu").but("status.allocation", allocation("d1")),
        claim("d").request("gpu"),
        device_class("gpu"),
        published("s", "d1"),
    )
    asked = [pod("x").wants({"cpu": "2"}), pod("y").claims("d")]
    before = stored(given), [given.scheduler.survey(each) for each in asked]
    with given.changed(put=put, without=without):
        [given.scheduler.survey(each) for each in asked]
    assert (stored(given), [given.scheduler.survey(each) for each in asked]) == before


def test_objects_of_files_get_what_they_lack() -> None:
    bare: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"nodeName": "n1"}}
    given = Cluster([bare, node("n1")])
    assert given.get(PODS, "p", "default") == {
        **bare,
        "metadata": {"name": "p", "namespace": "default", "uid": "pods/p"},
    }
    given.remove(bare)
    assert given.objects(PODS) == []


def test_kinds_and_versions_that_are_not_read_are_left_out() -> None:
    foreign: list[Object] = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        {"apiVersion": "other.example.com/v1", "kind": "Pod", "metadata": {"name": "s"}},
        {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim", "metadata": {"name": "s"}},
        {"kind": "Pod", "metadata": {"name": "s"}},
    ]
    older = {**taint_rule("t"), "apiVersion": "resource.k8s.io/v1beta2"}
    given = Cluster([*foreign, older])
    assert (given.left_out, given.objects()) == (foreign, [older])


def test_objects_come_in_a_stable_order() -> None:
    given = [pod("b"), pod("a"), node("n2"), template("t"), node("n1")]
    assert Cluster(given).objects() == Cluster(given[::-1]).objects()
    assert [each["metadata"]["name"] for each in Cluster(given).objects(NODES)] == ["n1", "n2"]


def test_a_kind_that_could_not_be_read_is_not_known() -> None:
    given = Cluster(unknown={"ResourceSlice": "forbidden"})
    assert (given.knows(NODES), given.knows(NODES, RESOURCE_SLICES)) == (True, False)
