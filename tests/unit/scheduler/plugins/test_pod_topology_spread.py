"""PodTopologySpread: which Nodes keep Pods spread evenly, and how the others rank."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from plugins.topologies import (
    HOST,
    NO_ARGUMENTS,
    WEB,
    ZONE,
    World,
    filtered,
    handle,
    lister,
    node,
    pod,
    pods,
    scored,
    trials,
    world,
)
from plugins.toys import done

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import Action, ClusterEvent, EventResource, QueueingHint
from tollbar.scheduler.framework.interface import Arguments, Mask
from tollbar.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from tollbar.scheduler.plugins.pod_topology_spread import PodTopologySpread, log

SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
NODES = [node("a1"), node("a2"), node("b1"), node("c1")]
RACK = {"rack": "r"}
DEDICATED = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}


def spread(key: str = ZONE, *, skew: int = 1, selector: Object | None = WEB, **more: Any) -> Object:
    found = {"topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule", **more}
    return found if selector is None else {**found, "labelSelector": selector}


def softly(key: str = ZONE, **more: Any) -> Object:
    return spread(key, **{"whenUnsatisfiable": "ScheduleAnyway", **more})


def spreading(*constraints: Object, **more: Any) -> PodInfo:
    return pod(topologySpreadConstraints=list(constraints), **more)


class Case(NamedTuple):
    constraints: Sequence[Object]
    pods: Sequence[PodInfo]
    want: Mapping[str, Status | None] | Status
    nodes: Sequence[Object] = NODES
    more: Mapping[str, Any] = {}
    """Of the Pod that is to be scheduled."""


FILTER: dict[str, Case] = {
    "without constraints there is nothing to filter": Case([], pods({"a1": 9}), SKIP),
    "constraints that only rank do not filter": Case([softly()], pods({"a1": 9}), SKIP),
    "the first Pod goes anywhere": Case([spread()], [], dict.fromkeys(["a1", "a2", "b1", "c1"])),
    "existing and itself less the minimum is at most maxSkew": Case(
        [spread()], pods({"a1": 1, "b1": 1}), {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "c1": None}
    ),
    "a Pod that its own selector does not select adds nothing": Case(
        [spread()],
        pods({"a1": 1, "b1": 2}),
        {"a1": None, "a2": None, "b1": SKEWED, "c1": None},
        more={"labels": {"app": "other"}},
    ),
    "a greater maxSkew allows more": Case(
        [spread(skew=2)], pods({"a1": 1, "b1": 2}), {"a1": None, "a2": None, "b1": SKEWED, "c1": None}
    ),
    "domains of one Node each": Case(
        [spread(HOST)], pods({"a1": 1, "b1": 1}), {"a1": SKEWED, "a2": None, "b1": SKEWED, "c1": None}
    ),
    "each constraint must hold": Case(
        [spread(), spread(HOST, skew=1)],
        pods({"a1": 1, "b1": 1, "c1": 1}),
        {"a1": SKEWED, "a2": None, "b1": SKEWED, "c1": SKEWED},
    ),
    "a Node without the label can never be chosen": Case(
        [spread()], [], {"a1": None, "-1": NO_LABEL}, [node("a1"), node("-1")]
    ),
    "constraints are asked in their order, and the first one that fails says why": Case(
        [spread(), spread("rack")],
        pods({"a2": 1}),
        {"a1": SKEWED, "a2": SKEWED, "b1": None, "b2": NO_LABEL},
        [node("a1"), node("a2", labels=RACK), node("b1", labels=RACK), node("b2")],
    ),
    "a Node that lacks a label of one constraint counts for none": Case(
        [spread(), spread("rack")],
        pods({"a1": 5, "b1": 1}),
        {"a1": NO_LABEL, "b1": None},
        [node("a1"), node("b1", labels=RACK)],
    ),
    "Pods of other namespaces do not count": Case(
        [spread()], pods({"a1": 3}, namespace="other"), dict.fromkeys(["a1", "a2", "b1", "c1"])
    ),
    "Pods that the selector does not select do not count": Case(
        [spread()], pods({"a1": 3}, labels={"app": "db"}), dict.fromkeys(["a1", "a2", "b1", "c1"])
    ),
    "terminating Pods do not count": Case(
        [spread()], pods({"a1": 3}, terminating=True), dict.fromkeys(["a1", "a2", "b1", "c1"])
    ),
    "without a selector no Pod counts": Case(
        [spread(selector=None)], pods({"a1": 3}), dict.fromkeys(["a1", "a2", "b1", "c1"])
    ),
    "an empty selector counts no Pod but the new one": Case(
        [spread(selector={})], pods({"a1": 3}), dict.fromkeys(["a1", "a2", "b1", "c1"])
    ),
    "minDomains (KEP-3022): with too few domains the minimum is 0": Case(
        [spread(minDomains=4)],
        pods({"a1": 1, "b1": 1, "c1": 1}),
        {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "c1": SKEWED},
    ),
    "minDomains (KEP-3022): with enough domains it changes nothing": Case(
        [spread(minDomains=3)],
        pods({"a1": 1, "b1": 1, "c1": 1}),
        dict.fromkeys(["a1", "a2", "b1", "c1"]),
    ),
    "nodeAffinityPolicy (KEP-3094): Nodes that the Pod cannot go to do not count by default": Case(
        [spread()],
        pods({"a1": 1, "b1": 1}),
        {"a1": None, "a2": None, "b1": None, "c1": None},
        more={"nodeSelector": {HOST: "a1"}},
    ),
    "nodeAffinityPolicy Ignore (KEP-3094): they count": Case(
        [spread(nodeAffinityPolicy="Ignore")],
        pods({"a1": 1, "b1": 1}),
        {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED, "c1": None},
        more={"nodeSelector": {HOST: "a1"}},
    ),
    "nodeTaintsPolicy (KEP-3094): by default a tainted Node keeps the minimum down and the Pod pending": Case(
        [spread()],
        pods({"a1": 1}),
        {"a1": SKEWED, "b1": None},
        [node("a1"), node("b1", taints=[DEDICATED])],
    ),
    "nodeTaintsPolicy Honor (KEP-3094): a tainted Node does not count": Case(
        [spread(nodeTaintsPolicy="Honor")],
        pods({"a1": 1}),
        {"a1": None, "b1": None},
        [node("a1"), node("b1", taints=[DEDICATED])],
    ),
    "nodeTaintsPolicy Honor (KEP-3094): a tolerated taint changes nothing": Case(
        [spread(nodeTaintsPolicy="Honor")],
        pods({"a1": 1}),
        {"a1": SKEWED, "b1": None},
        [node("a1"), node("b1", taints=[DEDICATED])],
        more={"tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    ),
    "nodeTaintsPolicy Honor (KEP-3094): PreferNoSchedule does not keep away": Case(
        [spread(nodeTaintsPolicy="Honor")],
        pods({"a1": 1}),
        {"a1": SKEWED, "b1": None},
        [node("a1"), node("b1", taints=[{**DEDICATED, "effect": "PreferNoSchedule"}])],
    ),
    "policies are asked of each constraint by itself": Case(
        [spread(nodeTaintsPolicy="Honor"), spread(HOST)],
        pods({"a1": 1}),
        {"a1": SKEWED, "b1": None},
        [node("a1"), node("b1", taints=[DEDICATED])],
    ),
    "matchLabelKeys (KEP-3243): Pods of the old revision do not count in a rolling update": Case(
        [spread(matchLabelKeys=["pod-template-hash"])],
        [
            *pods({"a1": 2}, labels={"app": "web", "pod-template-hash": "old"}),
            *pods({"b1": 1}, labels={"app": "web", "pod-template-hash": "new"}),
        ],
        {"a1": None, "a2": None, "b1": SKEWED, "c1": None},
        more={"labels": {"app": "web", "pod-template-hash": "new"}},
    ),
    "matchLabelKeys (KEP-3243): a key that the Pod does not have is left out": Case(
        [spread(matchLabelKeys=["pod-template-hash"])],
        pods({"a1": 2}, labels={"app": "web", "pod-template-hash": "old"}),
        {"a1": SKEWED, "a2": SKEWED, "b1": None, "c1": None},
    ),
    "matchLabelKeys: an empty selector with a key is no longer empty": Case(
        [spread(selector={}, matchLabelKeys=["app"])],
        pods({"a1": 1}),
        {"a1": SKEWED, "a2": SKEWED, "b1": None, "c1": None},
    ),
}


@pytest.mark.behaviour(20, case="minDomains (KEP-3022)")
@pytest.mark.behaviour(22, case="nodeAffinityPolicy (KEP-3094)")
@pytest.mark.behaviour(22, case="nodeTaintsPolicy (KEP-3094)")
@pytest.mark.behaviour(22, case="nodeTaintsPolicy Honor (KEP-3094)")
@pytest.mark.behaviour(23, case="matchLabelKeys (KEP-3243)")
@pytest.mark.parametrize("case", FILTER.values(), ids=FILTER)
def test_filter(case: Case) -> None:
    given = world(PodTopologySpread, case.nodes, case.pods)
    assert filtered(given, spreading(*case.constraints, **case.more)) == case.want


SKEWS: dict[str, tuple[int, int, int, bool, bool]] = {
    # existing in the domain, minimum, maxSkew, whether the Pod selects itself, whether it fits
    "0 + 1 - 0 <= 1": (0, 0, 1, True, True),
    "1 + 1 - 0 > 1": (1, 0, 1, True, False),
    "1 + 1 - 1 <= 1": (1, 1, 1, True, True),
    "1 + 0 - 0 <= 1": (1, 0, 1, False, True),
    "2 + 0 - 0 > 1": (2, 0, 1, False, False),
    "3 + 1 - 2 <= 2": (3, 2, 2, True, True),
    "4 + 1 - 2 > 2": (4, 2, 2, True, False),
    "4 + 0 - 2 <= 2": (4, 2, 2, False, True),
}


@pytest.mark.behaviour(21)
@pytest.mark.parametrize(("existing", "minimum", "skew", "itself", "fits"), SKEWS.values(), ids=SKEWS)
def test_the_formula_of_skew(existing: int, minimum: int, skew: int, itself: bool, fits: bool) -> None:
    """Pods of the domain, and the Pod itself if it matches, less the minimum of all domains: at most maxSkew."""
    given = world(PodTopologySpread, [node("a1"), node("b1")], pods({"a1": existing, "b1": minimum}))
    one = spreading(spread(skew=skew), labels={"app": "web" if itself else "other"})
    answers = filtered(given, one)
    assert not isinstance(answers, Status)
    assert answers["a1"] == (None if fits else SKEWED)


@pytest.mark.behaviour(20)
def test_min_domains_keep_the_second_replica_pending_until_a_domain_is_added() -> None:
    """KEP-3022: two replicas, one zone, minDomains 2; the autoscaler adds a Node in a second zone."""
    replica, first = spreading(spread(minDomains=2)), pods({"a1": 1})
    before = filtered(world(PodTopologySpread, [node("a1"), node("a2")], first), replica)
    after = filtered(world(PodTopologySpread, [node("a1"), node("a2"), node("b1")], first), replica)
    assert (before, after) == ({"a1": SKEWED, "a2": SKEWED}, {"a1": SKEWED, "a2": SKEWED, "b1": None})


LISTED: Arguments = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"},
        {"topologyKey": HOST, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
}


def service(selector: Object | None, *, in_namespace: str = "ml", name: str = "web") -> Object:
    return {"metadata": {"name": name, "namespace": in_namespace}, "spec": {"selector": selector} if selector else {}}


def workload(selector: Object) -> Object:
    return {"metadata": {"name": "web", "namespace": "ml"}, "spec": {"selector": selector}}


def owner(kind: str, version: str = "apps/v1") -> Object:
    return {"apiVersion": version, "kind": kind, "name": "web", "uid": "u"}


ONLY_B_AND_C = {"a1": SKEWED, "a2": SKEWED, "b1": None, "c1": None}
DEFAULTS: dict[str, tuple[PodInfo, dict[str, list[Object]], Mapping[str, Status | None] | Status]] = {
    "a Pod that nothing selects has no default constraints": (pod(), {}, SKIP),
    "a Service": (pod(), {"services": [service({"app": "web"})]}, ONLY_B_AND_C),
    "a Service that selects other Pods": (pod(), {"services": [service({"app": "db"})]}, SKIP),
    "a Service of another namespace": (pod(), {"services": [service({"app": "web"}, in_namespace="x")]}, SKIP),
    "a Service without a selector": (pod(), {"services": [service(None)]}, SKIP),
    "two Services select together": (
        pod(labels={"app": "web", "tier": "front"}),
        {"services": [service({"app": "web"}), service({"tier": "front"}, name="front")]},
        dict.fromkeys(["a1", "a2", "b1", "c1"]),
    ),
    "its ReplicaSet": (pod(owner=owner("ReplicaSet")), {"replica_sets": [workload(WEB)]}, ONLY_B_AND_C),
    "its StatefulSet": (pod(owner=owner("StatefulSet")), {"stateful_sets": [workload(WEB)]}, ONLY_B_AND_C),
    "its ReplicationController": (
        pod(owner=owner("ReplicationController", "v1")),
        {"replication_controllers": [workload({"app": "web"})]},
        ONLY_B_AND_C,
    ),
    "a workload of another kind": (pod(owner=owner("Job", "batch/v1")), {"replica_sets": [workload(WEB)]}, SKIP),
    "a workload of another group": (
        pod(owner=owner("ReplicaSet", "example.com/v1")),
        {"replica_sets": [workload(WEB)]},
        SKIP,
    ),
    "a workload that is gone": (pod(owner=owner("ReplicaSet")), {}, SKIP),
    "a workload that selects nothing": (pod(owner=owner("ReplicaSet")), {"replica_sets": [workload({})]}, SKIP),
    "a Service and the ReplicaSet select together": (
        pod(owner=owner("ReplicaSet")),
        {"services": [service({"app": "web"})], "replica_sets": [workload({"matchLabels": {"app": "db"}})]},
        dict.fromkeys(["a1", "a2", "b1", "c1"]),
    ),
    "a Pod with constraints of its own has no others": (
        spreading(softly()),
        {"services": [service({"app": "web"})]},
        SKIP,
    ),
}


@pytest.mark.parametrize(("one", "listers", "want"), DEFAULTS.values(), ids=DEFAULTS)
def test_default_constraints(
    one: PodInfo, listers: Mapping[str, list[Object]], want: Mapping[str, Status | None] | Status
) -> None:
    listed = {kind: lister(*objects) for kind, objects in listers.items()}
    assert filtered(world(PodTopologySpread, NODES, pods({"a1": 1}), LISTED, **listed), one) == want


def test_the_defaults_of_the_system_never_filter() -> None:
    given = world(PodTopologySpread, NODES, pods({"a1": 9}), services=lister(service({"app": "web"})))
    assert filtered(given, pod()) == SKIP


def test_a_pod_with_many_constraints_pauses_after_each_of_them() -> None:
    labels = [f"label-{number}" for number in range(5)]
    given = world(PodTopologySpread, [node("a1", labels=dict.fromkeys(labels, "x"))])
    one = spreading(*map(spread, labels), *map(softly, labels))
    state, nodes = CycleState(), list(given.snapshot)
    steps = (given.plugin.pre_filter(state, one, given.snapshot), given.plugin.pre_score(state, one, nodes))
    assert [len(list(each)) for each in steps] == [5, 5]


def test_labels_that_no_node_has_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Pod may name thousands of them, and each look goes over all Nodes."""
    asked: list[str] = []
    given = world(PodTopologySpread, NODES)
    label = given.snapshot.table.label
    monkeypatch.setattr(given.snapshot.table, "label", lambda key: asked.append(key) or label(key))
    constraints = [spread(f"label-{number}") for number in range(5)]
    assert filtered(given, spreading(*constraints)) == dict.fromkeys(["a1", "a2", "b1", "c1"], NO_LABEL)
    mask = _mask_of_all_nodes(given, spreading(*constraints))
    assert not mask.any()
    assert set(asked) == {"label-0"}


def _mask_of_all_nodes(given: World, one: PodInfo) -> Mask:
    assert isinstance(given.plugin, PodTopologySpread)
    state = CycleState()
    done(given.plugin.pre_filter(state, one, given.snapshot))
    return given.plugin.filter_nodes(state, one, given.snapshot)


class Changes(NamedTuple):
    changed: PodInfo
    want_added: list[Status | None]
    """Of the Nodes a1 and b1, after one such Pod was added to a1."""
    want_removed: list[Status | None]
    """After one such Pod was removed from a1."""
    constraint: Object = spread()
    nodes: Sequence[Object] = (node("a1"), node("b1"))


CHANGES: dict[str, Changes] = {
    # Two Pods are on a1 and two on b1.
    "a Pod that matches": Changes(pod("x"), [SKEWED, None], [None, SKEWED]),
    "a Pod that does not match": Changes(pod("x", labels={}), [None, None], [None, None]),
    "a Pod of another namespace": Changes(pod("x", namespace="other"), [None, None], [None, None]),
    "a terminating Pod counts here": Changes(pod("x", terminating=True), [SKEWED, None], [None, SKEWED]),
    "an empty selector counts here": Changes(pod("x"), [SKEWED, None], [None, SKEWED], spread(selector={})),
    "a Node without the label": Changes(
        pod("x"), [NO_LABEL, None], [NO_LABEL, None], nodes=[node("a1", labels={ZONE: None}), node("b1")]
    ),
    "a Node that does not count": Changes(
        pod("x"),
        [None, None],
        [None, None],
        spread(nodeTaintsPolicy="Honor", skew=2),
        [node("a1", taints=[DEDICATED]), node("b1")],
    ),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_a_trial_adds_and_removes_pods(case: Changes) -> None:
    given = world(PodTopologySpread, case.nodes, pods({"a1": 2, "b1": 2}))
    assert trials(given, spreading(case.constraint), case.changed) == (case.want_added, case.want_removed)


class Scores(NamedTuple):
    pod: PodInfo
    pods: Sequence[PodInfo]
    want: tuple[list[int], list[int]] | None
    """Raw and normalised."""
    nodes: Sequence[Object] = NODES
    feasible: Sequence[str] | None = None
    args: Arguments = NO_ARGUMENTS
    services: Sequence[Object] = ()


BY_SERVICE = [service({"app": "web"})]
SCORE: dict[str, Scores] = {
    "without constraints there is nothing to score": Scores(pod(), pods({"a1": 1}), None),
    "constraints that filter do not score": Scores(spreading(spread()), pods({"a1": 1}), None),
    "the fewer Pods in the domain, the better": Scores(
        spreading(softly()), pods({"a1": 2, "a2": 1, "b1": 1}), ([5, 5, 2, 0], [0, 0, 60, 100])
    ),
    "an empty cluster is as good everywhere": Scores(spreading(softly()), [], ([0] * 4, [100] * 4)),
    "maxSkew makes differences smaller": Scores(
        spreading(softly(skew=5)), pods({"a1": 2, "a2": 1, "b1": 1}), ([9, 9, 6, 4], [44, 44, 77, 100])
    ),
    "hosts count their own Pods": Scores(
        spreading(softly(HOST)), pods({"a1": 2, "a2": 1, "b1": 1}), ([4, 2, 2, 0], [0, 50, 50, 100])
    ),
    "constraints are added up": Scores(
        spreading(softly(), softly(HOST)), pods({"a1": 2, "a2": 1, "b1": 1}), ([8, 7, 3, 0], [0, 12, 62, 100])
    ),
    "Pods on Nodes that do not fit count in their domain": Scores(
        spreading(softly()),
        pods({"a1": 2, "b1": 1}),
        ([3, 2, 0], [0, 33, 100]),
        feasible=["a2", "b1", "c1"],
    ),
    "a domain without a Node that fits does not weigh": Scores(
        spreading(softly()), pods({"a1": 2, "b1": 1}), ([3, 1], [33, 100]), feasible=["a1", "b1"]
    ),
    "a Node that lacks a label scores 0": Scores(
        spreading(softly()),
        pods({"a1": 2, "b1": 1, "-1": 1}),
        ([3, 1, 0], [33, 100, 0]),
        [node("a1"), node("b1"), node("-1")],
    ),
    "Nodes that all lack a label score 0": Scores(spreading(softly("rack")), pods({"a1": 2}), ([0] * 4, [0] * 4)),
    "Nodes that do not count by policy are scored without their Pods": Scores(
        spreading(softly(nodeTaintsPolicy="Honor")),
        pods({"a1": 3, "b1": 1}),
        ([0, 1], [100, 0]),
        [node("a1", taints=[DEDICATED]), node("b1")],
    ),
    "a host that does not count by policy counts its own Pods still": Scores(
        spreading(softly(HOST, nodeTaintsPolicy="Honor")),
        pods({"a1": 3, "b1": 1}),
        ([4, 1], [25, 100]),
        [node("a1", taints=[DEDICATED]), node("b1")],
    ),
    "terminating Pods do not count": Scores(
        spreading(softly()), pods({"a1": 3}, terminating=True), ([0] * 4, [100] * 4)
    ),
    "Pods of other namespaces do not count": Scores(
        spreading(softly()), pods({"a1": 3}, namespace="other"), ([0] * 4, [100] * 4)
    ),
    "the defaults of the system spread over hosts and zones": Scores(
        pod(), pods({"a1": 2, "b1": 1}), ([13, 9, 9, 6], [46, 76, 76, 100]), services=BY_SERVICE
    ),
    "the defaults of the system score Nodes without a zone, by host": Scores(
        pod(),
        pods({"a1": 2, "-1": 1}),
        ([12, 3], [25, 100]),
        [node("a1"), node("-1")],
        services=BY_SERVICE,
    ),
    "the defaults of the system count a Node without a zone and one whose zone is empty as one domain": Scores(
        pod(),
        pods({"-1": 2}),
        ([9, 5, 6], [55, 100, 88]),
        [node("a1", labels={ZONE: ""}), node("-1"), node("b1")],
        services=BY_SERVICE,
    ),
    "listed defaults ignore Nodes without a label": Scores(
        pod(),
        pods({"a1": 2, "-1": 1}),
        ([2, 0], [100, 0]),
        [node("a1"), node("-1")],
        args={
            "defaultingType": "List",
            "defaultConstraints": [
                {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
            ],
        },
        services=BY_SERVICE,
    ),
    "an empty list of defaults switches them off": Scores(
        pod(), pods({"a1": 2}), None, args={"defaultingType": "List"}, services=BY_SERVICE
    ),
}


@pytest.mark.parametrize("case", SCORE.values(), ids=SCORE)
def test_score(case: Scores) -> None:
    given = world(PodTopologySpread, case.nodes, case.pods, case.args, services=lister(*case.services))
    assert scored(given, case.pod, case.feasible) == case.want


def test_logarithms_are_those_of_go() -> None:
    """C's are another one by the last bit for 198 of these sizes, and for no other."""
    differing = [size for size in range(2, 20_003) if log(size) != math.log(size)]
    assert (len(differing), log(2)) == (198, math.log(2))


HINTED = spreading(spread(), spread(HOST, nodeTaintsPolicy="Honor"))
QUEUE, NO = QueueingHint.QUEUE, QueueingHint.SKIP
ASSIGNED: dict[str, tuple[PodInfo | None, PodInfo | None, QueueingHint]] = {
    "one that matches came": (None, pod("x", on="a1"), QUEUE),
    "one that does not match came": (None, pod("x", on="a1", labels={}), NO),
    "one of another namespace came": (None, pod("x", on="a1", namespace="other"), NO),
    "one without a Node came": (None, pod("x"), NO),
    "one that is nominated came": (None, pod("x", nominated="a1"), QUEUE),
    "one that matches left": (pod("x", on="a1"), None, QUEUE),
    "one that does not match left": (pod("x", on="a1", labels={}), None, NO),
    "one begins to match": (pod("x", on="a1", labels={}), pod("x", on="a1"), QUEUE),
    "one ceases to match": (pod("x", on="a1"), pod("x", on="a1", labels={}), QUEUE),
    "one matches as before": (pod("x", on="a1"), pod("x", on="a1", labels={"app": "web", "v": "2"}), NO),
}


@pytest.mark.parametrize(("old", "new", "want"), ASSIGNED.values(), ids=ASSIGNED)
def test_hint_of_a_pod_on_a_node(old: PodInfo | None, new: PodInfo | None, want: QueueingHint) -> None:
    assert hint(EventResource.ASSIGNED_POD, HINTED, old, new) is want


TOLERATING = {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}
TARGET: dict[str, tuple[PodInfo, PodInfo, QueueingHint]] = {
    "it got a toleration": (HINTED, spreading(*HINTED.spec["topologySpreadConstraints"], **TOLERATING), QUEUE),
    "no policy asks about the toleration that it got": (
        spreading(spread()),
        spreading(spread(), **TOLERATING),
        NO,
    ),
    "it begins to match its own constraints": (spreading(spread(), labels={}), spreading(spread()), QUEUE),
    "it matches them as before": (spreading(spread()), spreading(spread(), labels={"app": "web", "v": "2"}), NO),
}


@pytest.mark.parametrize(("old", "new", "want"), TARGET.values(), ids=TARGET)
def test_hint_of_the_pod_itself(old: PodInfo, new: PodInfo, want: QueueingHint) -> None:
    assert hint(EventResource.TARGET_POD, old, old, new) is want


NO_ZONE = {ZONE: None}
NODE_HINTS: dict[str, tuple[Object | None, Object | None, QueueingHint]] = {
    "one with all labels came": (None, node("a1"), QUEUE),
    "one that lacks a label came": (None, node("a1", labels=NO_ZONE), NO),
    "one with all labels left": (node("a1"), None, QUEUE),
    "one that lacks a label left": (node("a1", labels=NO_ZONE), None, NO),
    "one got the label that it lacked": (node("a1", labels=NO_ZONE), node("a1"), QUEUE),
    "one lost a label": (node("a1"), node("a1", labels=NO_ZONE), QUEUE),
    "one moved to another domain": (node("a1"), node("a1", labels={ZONE: "b"}), QUEUE),
    "another label of it changed": (node("a1"), node("a1", labels={"other": "b"}), NO),
    "its taints changed": (node("a1"), node("a1", taints=[DEDICATED]), QUEUE),
    "taints changed of one that lacks a label": (
        node("a1", labels=NO_ZONE),
        node("a1", labels=NO_ZONE, taints=[DEDICATED]),
        NO,
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_of_a_node(old: Object | None, new: Object | None, want: QueueingHint) -> None:
    assert hint(EventResource.NODE, HINTED, old, new) is want


def test_hints_know_the_default_constraints() -> None:
    services = lister(service({"app": "web"}))
    plugin = PodTopologySpread(LISTED, handle(Snapshot(), services=services))
    registered = {each.event.resource: each.hint for each in plugin.events_to_register()}
    asked = registered[EventResource.ASSIGNED_POD]
    assert asked is not None
    assert asked(pod(), None, pod("x", on="a1")) is QUEUE


def test_events_to_register() -> None:
    plugin = PodTopologySpread({}, handle(Snapshot()))
    assert [each.event for each in plugin.events_to_register()] == [
        ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL),
        ClusterEvent(
            EventResource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        ),
    ]


def hint(resource: EventResource, waiting: PodInfo, old: object, new: object) -> QueueingHint:
    plugin = PodTopologySpread({}, handle(Snapshot()))
    registered = {each.event.resource: each.hint for each in plugin.events_to_register()}
    asked = registered[resource]
    assert asked is not None
    return asked(waiting, old, new)
