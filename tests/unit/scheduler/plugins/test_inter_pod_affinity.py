"""InterPodAffinity: which Nodes suit Pods that want to be near others or away from them, and how they rank."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from plugins.topologies import (
    HOST,
    NO_ARGUMENTS,
    WEB,
    ZONE,
    filtered,
    handle,
    lister,
    namespace,
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
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable
from tollbar.scheduler.plugins.inter_pod_affinity import InterPodAffinity

FAR = unresolvable("node(s) didn't match pod affinity rules")
CLOSE = unschedulable("node(s) didn't match pod anti-affinity rules")
UNWELCOME = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
NODES = [node("a1"), node("a2"), node("b1")]
EVERYWHERE: dict[str, Status | None] = {"a1": None, "a2": None, "b1": None}
DB = {"app": "db"}
WEB_LABELS = {"app": "web"}


def term(key: str = ZONE, selector: Object | None = WEB, **more: object) -> Object:
    found: Object = {"topologyKey": key, **more}
    return found if selector is None else {**found, "labelSelector": selector}


def affinity(
    near: Sequence[Object] = (),
    away: Sequence[Object] = (),
    *,
    rather_near: Sequence[tuple[int, Object]] = (),
    rather_away: Sequence[tuple[int, Object]] = (),
) -> Object:
    """`spec.affinity` with required terms, and preferred ones with weights."""

    def part(required: Sequence[Object], preferred: Sequence[tuple[int, Object]]) -> Object:
        weighted = [{"weight": weight, "podAffinityTerm": each} for weight, each in preferred]
        return {
            **({"requiredDuringSchedulingIgnoredDuringExecution": list(required)} if required else {}),
            **({"preferredDuringSchedulingIgnoredDuringExecution": weighted} if weighted else {}),
        }

    parts = {"podAffinity": part(near, rather_near), "podAntiAffinity": part(away, rather_away)}
    return {name: each for name, each in parts.items() if each}


class Case(NamedTuple):
    affinity: Object
    pods: Sequence[PodInfo]
    want: Mapping[str, Status | None] | Status
    labels: Mapping[str, str] = DB
    """Of the Pod that is to be scheduled; the others are labelled `app: web`."""
    nodes: Sequence[Object] = NODES
    namespaces: Sequence[Object] = ()


TEAM_X = {"matchLabels": {"team": "x"}}
NO_TEAM = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
FILTER: dict[str, Case] = {
    "without terms anywhere there is nothing to filter": Case({}, pods({"a1": 1}), SKIP),
    "preferred terms do not filter": Case(affinity(rather_near=[(1, term())]), pods({"a1": 1}), SKIP),
    "affinity: into the domain of a Pod that matches": Case(
        affinity([term()]), pods({"a1": 1}), {"a1": None, "a2": None, "b1": FAR}
    ),
    "affinity: onto the Node of a Pod that matches": Case(
        affinity([term(HOST)]), pods({"a1": 1}), {"a1": None, "a2": FAR, "b1": FAR}
    ),
    "affinity: terminating Pods count": Case(
        affinity([term()]), pods({"a1": 1}, terminating=True), {"a1": None, "a2": None, "b1": FAR}
    ),
    "affinity: no Pod matches": Case(affinity([term()]), [], {"a1": FAR, "a2": FAR, "b1": FAR}),
    "affinity: without a labelSelector no Pod matches": Case(
        affinity([term(selector=None)]), pods({"a1": 1}), {"a1": FAR, "a2": FAR, "b1": FAR}
    ),
    "affinity: an empty labelSelector matches every Pod": Case(
        affinity([term(selector={})]), pods({"a1": 1}), {"a1": None, "a2": None, "b1": FAR}
    ),
    "affinity: one Pod must match all terms": Case(
        affinity([term(), term(HOST, {"matchLabels": DB})]),
        [*pods({"a1": 1}), *pods({"a2": 1}, labels=DB)],
        {"a1": FAR, "a2": FAR, "b1": FAR},
        labels={},
    ),
    "affinity: Pods that match all terms may be different ones by domain": Case(
        affinity([term(), term("rack")]),
        pods({"a1": 1, "b1": 1}),
        {"a1": None, "a2": None, "b1": None},
        nodes=[node("a1", labels={"rack": "1"}), node("a2", labels={"rack": "2"}), node("b1", labels={"rack": "2"})],
    ),
    "affinity: the first Pod of a group goes anywhere": Case(affinity([term()]), [], EVERYWHERE, labels=WEB_LABELS),
    "affinity: the second one follows it": Case(
        affinity([term()]), pods({"b1": 1}), {"a1": FAR, "a2": FAR, "b1": None}, labels=WEB_LABELS
    ),
    "affinity: the first Pod needs the label as well": Case(
        affinity([term()]), [], {"a1": None, "-1": FAR}, labels=WEB_LABELS, nodes=[node("a1"), node("-1")]
    ),
    "affinity: Pods outside of any domain do not count against the first one": Case(
        affinity([term()]),
        pods({"-1": 1}),
        {"a1": None, "-1": FAR},
        labels=WEB_LABELS,
        nodes=[node("a1"), node("-1")],
    ),
    "affinity: the first Pod must match all its terms": Case(
        affinity([term(), term(selector={"matchLabels": DB})]), [], {"a1": FAR, "a2": FAR, "b1": FAR}
    ),
    "affinity: Pods of other namespaces do not match": Case(
        affinity([term()]), pods({"a1": 1}, namespace="other"), {"a1": FAR, "a2": FAR, "b1": FAR}
    ),
    "affinity: namespaces by name": Case(
        affinity([term(namespaces=["other"])]),
        pods({"a1": 1}, namespace="other"),
        {"a1": None, "a2": None, "b1": FAR},
    ),
    "affinity: with names of others the Pod's own namespace is left out": Case(
        affinity([term(namespaces=["other"])]), pods({"a1": 1}), {"a1": FAR, "a2": FAR, "b1": FAR}
    ),
    "affinity: an empty namespaceSelector selects every namespace": Case(
        affinity([term(namespaceSelector={})]),
        pods({"a1": 1}, namespace="other"),
        {"a1": None, "a2": None, "b1": FAR},
    ),
    "affinity: namespaces by label": Case(
        affinity([term(namespaceSelector=TEAM_X)]),
        [*pods({"a1": 1}, namespace="x"), *pods({"b1": 1})],
        {"a1": None, "a2": None, "b1": FAR},
        namespaces=[namespace("x", team="x"), namespace("ml", team="ml")],
    ),
    "affinity: namespaces by name or by label": Case(
        affinity([term(namespaceSelector=TEAM_X, namespaces=["ml"])]),
        [*pods({"a1": 1}, namespace="x"), *pods({"b1": 1})],
        EVERYWHERE,
        namespaces=[namespace("x", team="x"), namespace("ml", team="ml")],
    ),
    "affinity: a namespace that is not known is not selected": Case(
        affinity([term(namespaceSelector=NO_TEAM)]),
        pods({"a1": 1}, namespace="x"),
        {"a1": FAR, "a2": FAR, "b1": FAR},
    ),
    "anti-affinity: out of the domain of a Pod that matches": Case(
        affinity(away=[term()]), pods({"a1": 1}), {"a1": CLOSE, "a2": CLOSE, "b1": None}
    ),
    "anti-affinity: off the Node of a Pod that matches": Case(
        affinity(away=[term(HOST)]), pods({"a1": 1}), {"a1": CLOSE, "a2": None, "b1": None}
    ),
    "anti-affinity: a Pod that matches one of two terms is enough": Case(
        affinity(away=[term(HOST), term(selector={"matchLabels": DB})]),
        [*pods({"a1": 1}), *pods({"b1": 1}, labels=DB)],
        {"a1": CLOSE, "a2": None, "b1": CLOSE},
    ),
    "anti-affinity: a Node without the label is in no domain": Case(
        affinity(away=[term()]), pods({"-1": 1}), {"a1": None, "-1": None}, nodes=[node("a1"), node("-1")]
    ),
    "anti-affinity of others: out of their domain": Case(
        {},
        pods({"a1": 1}, affinity=affinity(away=[term()])),
        {"a1": UNWELCOME, "a2": UNWELCOME, "b1": None},
        WEB_LABELS,
    ),
    "anti-affinity of others: off their Node": Case(
        {}, pods({"a1": 1}, affinity=affinity(away=[term(HOST)])), {"a1": UNWELCOME, "a2": None, "b1": None}, WEB_LABELS
    ),
    "anti-affinity of others on a Node without the label": Case(
        {},
        pods({"a1": 1, "-1": 1}, affinity=affinity(away=[term()])),
        {"a1": UNWELCOME, "-1": None, "b1": None},
        WEB_LABELS,
        [node("a1"), node("-1"), node("b1")],
    ),
    "anti-affinity of others that is about other Pods": Case(
        {}, pods({"a1": 1}, affinity=affinity(away=[term()])), SKIP
    ),
    "anti-affinity of others in another namespace": Case(
        {}, pods({"a1": 1}, affinity=affinity(away=[term()]), namespace="other"), SKIP, WEB_LABELS
    ),
    "anti-affinity of others by labels of namespaces": Case(
        {},
        pods({"a1": 1}, affinity=affinity(away=[term(namespaceSelector=TEAM_X)]), namespace="other"),
        {"a1": UNWELCOME, "a2": UNWELCOME, "b1": None},
        WEB_LABELS,
        namespaces=[namespace("ml", team="x")],
    ),
    "anti-affinity of others: a namespace that is not known has no labels": Case(
        {},
        pods({"a1": 1}, affinity=affinity(away=[term(namespaceSelector=NO_TEAM)]), namespace="other"),
        {"a1": UNWELCOME, "a2": UNWELCOME, "b1": None},
        WEB_LABELS,
    ),
    "anti-affinity of the Pod and of others, about domains of one label": Case(
        affinity(away=[term(selector={"matchLabels": {"tier": "front"}})]),
        [*pods({"a1": 1}, labels={"tier": "front"}), *pods({"b1": 1}, labels={}, affinity=affinity(away=[term()]))],
        {"a1": CLOSE, "a2": CLOSE, "b1": UNWELCOME},
        WEB_LABELS,
    ),
    "affinity is asked before anti-affinity, and that before the anti-affinity of others": Case(
        affinity([term(selector={"matchLabels": {"tier": "front"}})], [term(HOST)]),
        [
            *pods({"a1": 1}, labels={"tier": "front", "app": "web"}),
            *pods({"a2": 1, "b1": 1}, labels={}, affinity=affinity(away=[term(selector={"matchLabels": DB})])),
        ],
        {"a1": CLOSE, "a2": UNWELCOME, "b1": FAR},
    ),
    "matchLabelKeys and mismatchLabelKeys by themselves change nothing": Case(
        affinity([term(matchLabelKeys=["app"])], [term(HOST, mismatchLabelKeys=["app"])]),
        pods({"a1": 1}),
        {"a1": CLOSE, "a2": None, "b1": FAR},
    ),
}


@pytest.mark.parametrize("case", FILTER.values(), ids=FILTER)
def test_filter(case: Case) -> None:
    given = world(InterPodAffinity, case.nodes, case.pods, namespaces=lister(*case.namespaces))
    assert filtered(given, pod(labels=case.labels, affinity=case.affinity)) == case.want


@pytest.mark.parametrize("case", [each for each in FILTER.values() if not isinstance(each.want, Status)])
def test_filter_of_all_nodes_at_once(case: Case) -> None:
    given = world(InterPodAffinity, case.nodes, case.pods, namespaces=lister(*case.namespaces))
    assert isinstance(given.plugin, InterPodAffinity)
    assert isinstance(case.want, Mapping)
    state, one = CycleState(), pod(labels=case.labels, affinity=case.affinity)
    done(given.plugin.pre_filter(state, one, given.snapshot))
    mask = given.plugin.filter_nodes(state, one, given.snapshot)
    assert mask.tolist() == [case.want[each.name] is None for each in given.snapshot]
    said = given.plugin.filter_reasons(state, one, given.snapshot)
    assert said == [case.want[each.name] for each in given.snapshot]


def test_namespaces_by_label_are_those_of_the_moment() -> None:
    given = world(InterPodAffinity, NODES, pods({"a1": 1}, namespace="other"))
    one = pod(affinity=affinity([term(namespaceSelector=TEAM_X)]), labels=DB)
    found = []
    for namespaces in ((), (namespace("other", team="x"),), (namespace("other"),)):
        plugin = InterPodAffinity({}, handle(given.snapshot, namespaces=lister(*namespaces)))
        found.append(filtered(given._replace(plugin=plugin), one))
    nowhere = dict.fromkeys(EVERYWHERE, FAR)
    assert found == [nowhere, {"a1": None, "a2": None, "b1": FAR}, nowhere]


class Changes(NamedTuple):
    affinity: Object
    changed: PodInfo
    want_added: list[Status | None]
    """Of the Nodes a1 and b1, after such a Pod was added to a1."""
    want_removed: list[Status | None]
    """After such a Pod was removed from a1."""
    pods: Sequence[PodInfo]


CHANGES: dict[str, Changes] = {
    "affinity": Changes(affinity([term()]), pod("x"), [None, None], [FAR, None], pods({"a1": 1, "b1": 1})),
    "the last Pod of a group": Changes(affinity([term()]), pod("x"), [None, FAR], [None, None], pods({"a1": 1})),
    "anti-affinity": Changes(affinity(away=[term()]), pod("x"), [CLOSE, None], [None, None], pods({"a1": 1})),
    "anti-affinity of others": Changes(
        affinity(away=[term(selector={"matchLabels": DB})]),
        pod("x", labels={}, affinity=affinity(away=[term()])),
        [UNWELCOME, None],
        [None, None],
        pods({"a1": 1}, labels={}, affinity=affinity(away=[term()])),
    ),
    "a Pod that is not about it": Changes(
        affinity([term()]), pod("x", labels={}), [None, None], [None, None], pods({"a1": 1, "b1": 1})
    ),
}


@pytest.mark.parametrize("case", CHANGES.values(), ids=CHANGES)
def test_a_trial_adds_and_removes_pods(case: Changes) -> None:
    given = world(InterPodAffinity, [node("a1"), node("b1")], case.pods)
    assert trials(given, pod(affinity=case.affinity), case.changed) == (case.want_added, case.want_removed)


class Scores(NamedTuple):
    affinity: Object
    pods: Sequence[PodInfo]
    want: tuple[list[int], list[int]] | None
    """Raw and normalised."""
    nodes: Sequence[Object] = NODES
    args: Arguments = NO_ARGUMENTS
    namespaces: Sequence[Object] = ()


IGNORING: Arguments = {"ignorePreferredTermsOfExistingPods": True}
SCORE: dict[str, Scores] = {
    "without terms anywhere there is nothing to score": Scores({}, pods({"a1": 1}), None),
    "terms that hold nowhere": Scores(affinity(rather_near=[(5, term())]), pods({"a1": 1}, labels=DB), None),
    "a preferred term adds its weight for each Pod in the domain": Scores(
        affinity(rather_near=[(5, term())]), pods({"a1": 2, "b1": 1}), ([10, 10, 5], [100, 100, 0])
    ),
    "anti-affinity takes it away": Scores(
        affinity(rather_away=[(5, term())]), pods({"a1": 2, "b1": 1}), ([-10, -10, -5], [0, 0, 100])
    ),
    "terms are added up": Scores(
        affinity(rather_near=[(5, term())], rather_away=[(3, term(HOST))]),
        pods({"a1": 1}),
        ([2, 5, 0], [40, 100, 0]),
    ),
    "terms that cancel each other out": Scores(
        affinity(rather_near=[(5, term())], rather_away=[(5, term())]), pods({"a1": 1}), ([0, 0, 0], [0, 0, 0])
    ),
    "the scale ends at what is there, rounded down": Scores(
        affinity(rather_near=[(1, term()), (1, term(HOST))]),
        pods({"a1": 1, "b1": 2}),
        ([2, 1, 4], [33, 0, 100]),
    ),
    "required terms of the Pod itself do not score": Scores(affinity([term()], [term(HOST)]), pods({"a1": 1}), None),
    "required affinity of others scores hardPodAffinityWeight": Scores(
        {}, pods({"a1": 1}, affinity=affinity([term()])), ([1, 1, 0], [100, 100, 0])
    ),
    "another hardPodAffinityWeight": Scores(
        {},
        pods({"a1": 1}, affinity=affinity([term()])),
        ([50, 50, 0], [100, 100, 0]),
        args={"hardPodAffinityWeight": 50},
    ),
    "hardPodAffinityWeight 0 switches it off": Scores(
        {}, pods({"a1": 1}, affinity=affinity([term()])), None, args={"hardPodAffinityWeight": 0}
    ),
    "required anti-affinity of others does not score": Scores(
        {}, pods({"a1": 1}, affinity=affinity(away=[term()])), None
    ),
    "preferred terms of others score": Scores(
        {},
        pods({"a1": 1}, affinity=affinity(rather_near=[(5, term())], rather_away=[(2, term(HOST))])),
        ([3, 5, 0], [60, 100, 0]),
    ),
    "ignorePreferredTermsOfExistingPods leaves out those of others": Scores(
        {}, pods({"a1": 1}, affinity=affinity([term()], rather_near=[(5, term())])), None, args=IGNORING
    ),
    "ignorePreferredTermsOfExistingPods does not concern a Pod with preferred terms": Scores(
        affinity(rather_near=[(1, term(HOST))]),
        pods({"a1": 1}, affinity=affinity(rather_near=[(5, term())])),
        ([6, 5, 0], [100, 83, 0]),
        args=IGNORING,
    ),
    "a Node without the label is in no domain": Scores(
        affinity(rather_near=[(5, term())]),
        pods({"a1": 1, "-1": 1}),
        ([5, 0], [100, 0]),
        [node("a1"), node("-1")],
    ),
    "terminating Pods count": Scores(
        affinity(rather_near=[(5, term())]), pods({"a1": 1}, terminating=True), ([5, 5, 0], [100, 100, 0])
    ),
    "namespaces of the Pod's terms by label": Scores(
        affinity(rather_near=[(5, term(namespaceSelector=TEAM_X))]),
        pods({"a1": 1}, namespace="x"),
        ([5, 5, 0], [100, 100, 0]),
        namespaces=[namespace("x", team="x")],
    ),
    "a namespace that is not known is not selected": Scores(
        affinity(rather_near=[(5, term(namespaceSelector=NO_TEAM))]), pods({"a1": 1}, namespace="x"), None
    ),
    "namespaces of the terms of others by label": Scores(
        {},
        pods({"a1": 1}, affinity=affinity(rather_near=[(5, term(namespaceSelector=TEAM_X))]), namespace="other"),
        ([5, 5, 0], [100, 100, 0]),
        namespaces=[namespace("ml", team="x")],
    ),
    "for the terms of others a namespace that is not known has no labels": Scores(
        {},
        pods({"a1": 1}, affinity=affinity(rather_near=[(5, term(namespaceSelector=NO_TEAM))]), namespace="other"),
        ([5, 5, 0], [100, 100, 0]),
    ),
}


@pytest.mark.parametrize("case", SCORE.values(), ids=SCORE)
def test_score(case: Scores) -> None:
    given = world(InterPodAffinity, case.nodes, case.pods, case.args, namespaces=lister(*case.namespaces))
    assert scored(given, pod(affinity=case.affinity)) == case.want


QUEUE, NO = QueueingHint.QUEUE, QueueingHint.SKIP
NEAR = pod(affinity=affinity([term(), term(HOST, {"matchLabels": {"tier": "front"}})]))
AWAY = pod(affinity=affinity(away=[term(), term(HOST, {"matchLabels": {"tier": "front"}})]))
BOTH = {"app": "web", "tier": "front"}
ASSIGNED: dict[str, tuple[PodInfo, PodInfo | None, PodInfo | None, QueueingHint]] = {
    "one that matches all terms of affinity came": (NEAR, None, pod("x", on="a1", labels=BOTH), QUEUE),
    "one that matches some of them came": (NEAR, None, pod("x", on="a1"), NO),
    "one that matches but has no Node came": (NEAR, None, pod("x", labels=BOTH), NO),
    "one that matches and is nominated came": (NEAR, None, pod("x", labels=BOTH, nominated="a1"), QUEUE),
    "one that matches anti-affinity came": (AWAY, None, pod("x", on="a1"), NO),
    "one that matches affinity left": (NEAR, pod("x", on="a1", labels=BOTH), None, NO),
    "one that matches a term of anti-affinity left": (AWAY, pod("x", on="a1"), None, QUEUE),
    "one that matches no term left": (AWAY, pod("x", on="a1", labels={}), None, NO),
    "one whose anti-affinity kept the Pod away left": (
        pod(),
        pod("x", on="a1", labels={}, affinity=affinity(away=[term()])),
        None,
        QUEUE,
    ),
    "one begins to match all terms of affinity": (
        NEAR,
        pod("x", on="a1"),
        pod("x", on="a1", labels=BOTH),
        QUEUE,
    ),
    "one ceases to match affinity": (NEAR, pod("x", on="a1", labels=BOTH), pod("x", on="a1"), NO),
    "one ceases to match anti-affinity": (AWAY, pod("x", on="a1"), pod("x", on="a1", labels={}), QUEUE),
    "one matches anti-affinity by another term": (
        AWAY,
        pod("x", on="a1"),
        pod("x", on="a1", labels={"tier": "front"}),
        NO,
    ),
    "namespaces that are selected by label are not looked up": (
        pod(affinity=affinity([term(namespaceSelector=TEAM_X)])),
        None,
        pod("x", on="a1"),
        NO,
    ),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), ASSIGNED.values(), ids=ASSIGNED)
def test_hint_of_a_pod_on_a_node(
    waiting: PodInfo, old: PodInfo | None, new: PodInfo | None, want: QueueingHint
) -> None:
    assert hint(EventResource.ASSIGNED_POD, waiting, old, new) is want


def test_hint_of_the_pod_itself() -> None:
    assert hint(EventResource.TARGET_POD, pod(), pod(), pod(labels={})) is QUEUE


NEAR_ZONE, AWAY_ZONE = pod(affinity=affinity([term()])), pod(affinity=affinity(away=[term()]))
NO_ZONE = {ZONE: None}
NODE_HINTS: dict[str, tuple[PodInfo, Object | None, Object, QueueingHint]] = {
    "affinity: one in a domain came": (NEAR_ZONE, None, node("a1"), QUEUE),
    "affinity: one in no domain came": (NEAR_ZONE, None, node("-1"), NO),
    "affinity: one came into a domain": (NEAR_ZONE, node("a1", labels=NO_ZONE), node("a1"), QUEUE),
    "affinity: one left its domain": (NEAR_ZONE, node("a1"), node("a1", labels=NO_ZONE), NO),
    "affinity: one changed its domain": (NEAR_ZONE, node("a1"), node("a1", labels={ZONE: "b"}), QUEUE),
    "affinity: another label changed": (NEAR_ZONE, node("a1"), node("a1", labels={"other": "b"}), NO),
    "anti-affinity: one in a domain came": (AWAY_ZONE, None, node("a1"), QUEUE),
    "anti-affinity: one in no domain came": (AWAY_ZONE, None, node("-1"), QUEUE),
    "anti-affinity: one came into a domain": (AWAY_ZONE, node("a1", labels=NO_ZONE), node("a1"), NO),
    "anti-affinity: one left its domain": (AWAY_ZONE, node("a1"), node("a1", labels=NO_ZONE), QUEUE),
    "anti-affinity: one changed its domain": (AWAY_ZONE, node("a1"), node("a1", labels={ZONE: "b"}), QUEUE),
    "without terms of its own no Node helps": (pod(), None, node("a1"), NO),
}


@pytest.mark.parametrize(("waiting", "old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_of_a_node(waiting: PodInfo, old: Object | None, new: Object, want: QueueingHint) -> None:
    assert hint(EventResource.NODE, waiting, old, new) is want


def test_events_to_register() -> None:
    plugin = InterPodAffinity({}, handle(Snapshot()))
    assert [each.event for each in plugin.events_to_register()] == [
        ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL),
        ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
    ]


def hint(resource: EventResource, waiting: PodInfo, old: object, new: object) -> QueueingHint:
    plugin = InterPodAffinity({}, handle(Snapshot()))
    registered = {each.event.resource: each.hint for each in plugin.events_to_register()}
    asked = registered[resource]
    assert asked is not None
    return asked(waiting, old, new)
