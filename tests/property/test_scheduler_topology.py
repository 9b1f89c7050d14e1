"""PodTopologySpread and InterPodAffinity in random clusters: the same as one Pod after the other counted by hand."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from clusters.drawing import pick
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.topologies import (
    HOST,
    ZONE,
    TopologyPlugin,
    World,
    filtered,
    info,
    lister,
    namespace,
    node,
    pod,
    scored,
    world,
)
from plugins.toys import done

from tollbar.model import nodeaffinity, selectors, tolerations
from tollbar.model.objects import Object, labels_of
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import AffinityTerm, PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import Arguments
from tollbar.scheduler.framework.status import SKIP, Status
from tollbar.scheduler.plugins import node_masks
from tollbar.scheduler.plugins.inter_pod_affinity import (
    AFFINITY,
    ANTI_AFFINITY,
    EXISTING_ANTI_AFFINITY,
    InterPodAffinity,
)
from tollbar.scheduler.plugins.pod_topology_spread import NO_LABEL, SKEWED, PodTopologySpread
from tollbar.scheduler.plugins.spread_constraints import SYSTEM_DEFAULTS

Answers: TypeAlias = dict[str, Status | None]

KEYS = (ZONE, HOST, "rack")
SELECTORS: tuple[Object | None, ...] = (
    {"matchLabels": {"app": "web"}},
    {},
    None,
    {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
    {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["back"]}]},
)
NAMESPACES = (namespace("ml", team="a"), namespace("x", team="b"), namespace("y"))
"""A fourth one, `z`, is not known."""
TAINTS = (
    {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
    {"key": "old", "effect": "PreferNoSchedule"},
    {"key": "gone", "effect": "NoExecute"},
)
LISTED: Arguments = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "nodeTaintsPolicy": "Honor"},
        {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "ScheduleAnyway"},
    ],
}
SERVICE = {"metadata": {"name": "web", "namespace": "ml"}, "spec": {"selector": {"app": "web"}}}


SOME = settings(max_examples=settings.default.max_examples * 3 // 2)


class Cluster(NamedTuple):
    nodes: list[Object]
    pods: list[PodInfo]
    new: PodInfo


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Object:
    labels = {
        ZONE: pick(draw, ("a", "b", "c", "a", "", None)),
        HOST: pick(draw, (name, name, name, "shared", None)),
        "rack": pick(draw, ("1", "2", "30", "1", None)),
    }
    taints = [each for each in TAINTS if not draw(st.integers(0, 3))]
    return node(name, taints=taints, labels=labels)


@st.composite
def pod_labels(draw: st.DrawFn) -> dict[str, str]:
    given = {"app": pick(draw, ("web", "web", "db", None)), "tier": pick(draw, ("front", "back", None))}
    return {key: value for key, value in given.items() if value is not None}


@st.composite
def node_requirements(draw: st.DrawFn) -> Object:
    operator = pick(draw, ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    values = {"In": ["a", "1"], "NotIn": ["b", "2"], "Gt": ["1"], "Lt": ["30"]}.get(operator, [])
    return {"key": pick(draw, KEYS), "operator": operator, "values": values}


@st.composite
def where_to_go(draw: st.DrawFn) -> Object:
    """`nodeSelector`, required node affinity, tolerations."""
    found: Object = {}
    if not draw(st.integers(0, 3)):
        found["nodeSelector"] = {ZONE: pick(draw, ("a", "", "d"))}
    if not draw(st.integers(0, 3)):
        names = {"key": "metadata.name", "operator": pick(draw, ("In", "NotIn")), "values": [pick(draw, ("n0", "n9"))]}
        terms = [
            {"matchExpressions": draw(st.lists(node_requirements(), max_size=2))},
            {"matchFields": [names], "matchExpressions": draw(st.lists(node_requirements(), max_size=1))},
        ]
        required = {"nodeSelectorTerms": terms[draw(st.integers(0, 1)) :]}
        found["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    if draw(st.booleans()):
        found["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    return found


@st.composite
def constraints(draw: st.DrawFn) -> Object:
    found: Object = {
        "topologyKey": pick(draw, KEYS),
        "maxSkew": draw(st.integers(1, 3)),
        "whenUnsatisfiable": pick(draw, ("DoNotSchedule", "ScheduleAnyway")),
    }
    selector = pick(draw, SELECTORS)
    if selector is not None:
        found["labelSelector"] = selector
        if not draw(st.integers(0, 3)):
            found["matchLabelKeys"] = ["tier", "none"]
    if found["whenUnsatisfiable"] == "DoNotSchedule" and draw(st.booleans()):
        found["minDomains"] = draw(st.integers(1, 4))
    for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if draw(st.booleans()):
            found[policy] = pick(draw, ("Honor", "Ignore"))
    return found


@st.composite
def terms(draw: st.DrawFn) -> Object:
    found: Object = {"topologyKey": pick(draw, KEYS)}
    selector = pick(draw, SELECTORS)
    if selector is not None:
        found["labelSelector"] = selector
    if not draw(st.integers(0, 2)):
        found["namespaces"] = pick(draw, (["ml"], ["x", "z"]))
    if not draw(st.integers(0, 2)):
        not_a = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}
        found["namespaceSelector"] = pick(draw, ({}, {"matchLabels": {"team": "a"}}, not_a))
    return found


@st.composite
def affinities(draw: st.DrawFn) -> Object:
    """Pod affinity and anti-affinity."""
    found: Object = {}
    for name in ("podAffinity", "podAntiAffinity"):
        if draw(st.booleans()):
            required = draw(st.lists(terms(), max_size=2))
            preferred = [{"weight": draw(st.integers(1, 100)), "podAffinityTerm": each} for each in draw(FEW_TERMS)]
            found[name] = {
                "requiredDuringSchedulingIgnoredDuringExecution": required,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred,
            }
    return found


FEW_TERMS = st.lists(terms(), max_size=2)


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    names = [f"n{number}" for number in range(draw(st.integers(2, 7)))]
    existing = [
        pod(
            f"p{number}",
            on=pick(draw, names),
            labels=draw(pod_labels()),
            namespace=pick(draw, ("ml", "ml", "ml", "x", "y", "z")),
            terminating=not draw(st.integers(0, 5)),
            affinity=draw(affinities()) if draw(st.booleans()) else {},
        )
        for number in range(draw(st.integers(2, 10)))
    ]
    body = draw(where_to_go())
    body["affinity"] = {**body.get("affinity", {}), **draw(affinities())}
    if draw(st.integers(0, 3)):
        body["topologySpreadConstraints"] = draw(st.lists(constraints(), min_size=1, max_size=3))
    new = pod(labels=draw(pod_labels()), namespace=pick(draw, ("ml", "ml", "z")), **body)
    return Cluster([draw(nodes(name)) for name in names], existing, new)


def made(
    plugin: Callable[..., TopologyPlugin], cluster: Cluster, args: Arguments, pods: Iterable[PodInfo] | None = None
) -> World:
    known = lister(*NAMESPACES)
    there = cluster.pods if pods is None else pods
    return world(plugin, cluster.nodes, there, args, namespaces=known, services=lister(SERVICE))


SPREAD_ARGS = st.sampled_from([LISTED, {"defaultingType": "System"}])
AFFINITY_ARGS = st.builds(
    lambda weight, ignores: {"hardPodAffinityWeight": weight, "ignorePreferredTermsOfExistingPods": ignores},
    st.sampled_from([0, 1, 50]),
    st.booleans(),
)


@SOME
@given(clusters(), SPREAD_ARGS)
def test_spread_filters_as_counted_by_hand(cluster: Cluster, args: Arguments) -> None:
    given = made(PodTopologySpread, cluster, args)
    assert filtered(given, cluster.new) == spread_by_hand(given.snapshot, cluster.new, args)


@SOME
@given(clusters(), SPREAD_ARGS)
def test_spread_scores_as_counted_by_hand(cluster: Cluster, args: Arguments) -> None:
    given = made(PodTopologySpread, cluster, args)
    feasible = [each.name for each in given.snapshot if given.snapshot.nodes.index(each) != 1]
    want = spread_scores_by_hand(given.snapshot, cluster.new, args, feasible)
    assert scored(given, cluster.new, feasible) == want


@SOME
@given(clusters(), AFFINITY_ARGS)
def test_affinity_filters_as_counted_by_hand(cluster: Cluster, args: Arguments) -> None:
    given = made(InterPodAffinity, cluster, args)
    assert filtered(given, cluster.new) == affinity_by_hand(given.snapshot, cluster.new)


@SOME
@given(clusters(), AFFINITY_ARGS)
def test_affinity_scores_as_counted_by_hand(cluster: Cluster, args: Arguments) -> None:
    given = made(InterPodAffinity, cluster, args)
    assert scored(given, cluster.new) == affinity_scores_by_hand(given.snapshot, cluster.new, args)


@SOME
@given(clusters(), st.sampled_from([PodTopologySpread, InterPodAffinity]), st.sampled_from([LISTED, {}]))
def test_all_nodes_at_once_are_the_nodes_one_by_one(
    cluster: Cluster, plugin: type[PodTopologySpread | InterPodAffinity], args: Arguments
) -> None:
    given = made(plugin, cluster, args)
    whole, state = given.plugin, CycleState()
    assert isinstance(whole, plugin)
    if done(whole.pre_filter(state, cluster.new, given.snapshot)) != SKIP:
        mask = whole.filter_nodes(state, cluster.new, given.snapshot)
        one_by_one = [whole.filter(state, cluster.new, each) for each in given.snapshot]
        assert mask.tolist() == [each is None for each in one_by_one]
        assert whole.filter_reasons(state, cluster.new, given.snapshot) == one_by_one
    if done(whole.pre_score(state, cluster.new, given.snapshot.nodes)) != SKIP:
        places = np.arange(len(given.snapshot) - 1, -1, -1, dtype=np.intp)
        scores = whole.score_nodes(state, cluster.new, given.snapshot, places)
        assert scores.tolist() == [whole.score(state, cluster.new, given.snapshot.nodes[at]) for at in places]


@SOME
@given(clusters(), st.sampled_from([PodTopologySpread, InterPodAffinity]), st.data())
def test_pods_that_a_trial_removes_are_as_if_they_had_not_been_there(
    cluster: Cluster, plugin: type[PodTopologySpread | InterPodAffinity], data: st.DataObject
) -> None:
    """Of one Node, as preemption does.

    Pods that PreFilter of PodTopologySpread does not count although a trial does are left in peace.
    """
    chosen = f"n{data.draw(st.integers(0, len(cluster.nodes) - 1))}"
    victims = [each for each in cluster.pods if each.node_name == chosen and not each.is_terminating]
    if any(c.get("labelSelector") == {} for c in cluster.new.spec.get("topologySpreadConstraints") or ()):
        victims = []
    given = made(plugin, cluster, {})
    whole, state = given.plugin, CycleState()
    assert isinstance(whole, plugin)
    if done(whole.pre_filter(state, cluster.new, given.snapshot)) == SKIP:
        return
    before, trial, changed = answers(given, state, cluster.new), state.clone(), info(given, chosen).copy()
    for victim in victims:
        changed.remove_pod(victim.uid)
        whole.remove_pod(trial, cluster.new, victim, changed)
    left = [each for each in cluster.pods if each not in victims]
    want = filtered(made(plugin, cluster, {}, left), cluster.new)
    assert answers(given, trial, cluster.new) == (dict.fromkeys(before) if isinstance(want, Status) else want)
    assert answers(given, state, cluster.new) == before
    for victim in reversed(victims):
        changed.add_pod(victim)
        whole.add_pod(trial, cluster.new, victim, changed)
    assert answers(given, trial, cluster.new) == before


@SOME
@given(clusters())
def test_node_masks_are_the_nodes_one_by_one(cluster: Cluster) -> None:
    snapshot, body = Snapshot.of(cluster.nodes), {"spec": cluster.new.spec}
    tolerated = cluster.new.spec.get("tolerations") or ()
    allowed = node_masks.allowed(cluster.new, snapshot.table)[snapshot.table.order]
    free = node_masks.tolerated(cluster.new, snapshot.table)[snapshot.table.order]
    assert allowed.tolist() == [nodeaffinity.allows(body, each) for each in cluster.nodes]
    assert free.tolist() == [
        tolerations.untolerated(each["spec"]["taints"], tolerated) is None for each in cluster.nodes
    ]


def answers(given: World, state: CycleState, one: PodInfo) -> dict[str, Any]:
    return {each.name: given.plugin.filter(state, one, each) for each in given.snapshot}


# As kube-scheduler counts, in the plainest words.


def constraints_of(one: PodInfo, args: Arguments, action: str) -> list[Object]:
    """With matchLabelKeys as labels that have to be equal, and with the selector of the default constraints."""
    given = one.spec.get("topologySpreadConstraints") or []
    defaults: Any = args.get("defaultConstraints", SYSTEM_DEFAULTS)
    by_service = {"labelSelector": {"matchLabels": {"app": "web"}}}
    if not given and one.key.namespace == "ml" and one.labels.get("app") == "web":
        given = [{**each, **by_service} for each in defaults]
    return [each for each in given if each["whenUnsatisfiable"] == action]


def selects(constraint: Object, one: PodInfo, other: PodInfo) -> bool:
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in one.labels]
    same = all(other.labels.get(key) == one.labels[key] for key in keys)
    return same and selectors.matches(constraint.get("labelSelector"), other.labels)


def is_empty(constraint: Object, one: PodInfo) -> bool:
    keys = [key for key in constraint.get("matchLabelKeys") or () if key in one.labels]
    return constraint.get("labelSelector") == {} and not keys


def counted(constraint: Object, one: PodInfo, at: NodeInfo) -> int:
    if is_empty(constraint, one):
        return 0
    there = [each for each in at.pods.values() if each.key.namespace == one.key.namespace and not each.is_terminating]
    return sum(selects(constraint, one, each) for each in there)


def included(constraint: Object, one: PodInfo, at: NodeInfo) -> bool:
    allowed = nodeaffinity.allows({"spec": one.spec}, at.node or {})
    free = tolerations.untolerated(at.taints, one.spec.get("tolerations") or ()) is None
    return (allowed or constraint.get("nodeAffinityPolicy") == "Ignore") and (
        free or constraint.get("nodeTaintsPolicy") != "Honor"
    )


def has_keys(at: NodeInfo, given: Iterable[Object]) -> bool:
    return all(each["topologyKey"] in at.labels for each in given)


def spread_by_hand(nodes: Snapshot, one: PodInfo, args: Arguments) -> Answers | Status:
    hard = constraints_of(one, args, "DoNotSchedule")
    if not hard:
        return SKIP
    counts: list[Counter[str]] = [Counter() for _ in hard]
    for at in nodes:
        for constraint, count in zip(hard, counts, strict=True):
            if has_keys(at, hard) and included(constraint, one, at):
                count[at.labels[constraint["topologyKey"]]] += counted(constraint, one, at)

    def answer(at: NodeInfo) -> Status | None:
        for constraint, count in zip(hard, counts, strict=True):
            if constraint["topologyKey"] not in at.labels:
                return NO_LABEL
            least = min(count.values()) if len(count) >= constraint.get("minDomains", 1) else 0
            existing = count.get(at.labels[constraint["topologyKey"]], 0)
            if existing + selects(constraint, one, one) - least > constraint["maxSkew"]:
                return SKEWED
        return None

    return {at.name: answer(at) for at in nodes}


def spread_scores_by_hand(
    nodes: Snapshot, one: PodInfo, args: Arguments, feasible: Iterable[str]
) -> tuple[list[int], list[int]] | None:
    soft = constraints_of(one, args, "ScheduleAnyway")
    if not soft:
        return None
    all_keys = bool(one.spec.get("topologySpreadConstraints")) or args == LISTED
    candidates = [at for at in nodes if at.name in feasible]
    taking_part = [at for at in candidates if not all_keys or has_keys(at, soft)]
    scores = dict.fromkeys([at.name for at in candidates], 0.0)
    for constraint in soft:
        key = constraint["topologyKey"]
        counts = {at.labels.get(key, ""): 0 for at in taking_part}
        for at in nodes:
            value = at.labels.get(key, "")
            if value in counts and (not all_keys or has_keys(at, soft)) and included(constraint, one, at):
                counts[value] += counted(constraint, one, at)
        weight = math.log((len(taking_part) if key == HOST else len(counts)) + 2)
        for at in taking_part:
            if key in at.labels:
                count = counted(constraint, one, at) if key == HOST else counts[at.labels[key]]
                scores[at.name] += count * weight + constraint["maxSkew"] - 1
    raw = {name: math.floor(score + 0.5) for name, score in scores.items()}
    compared = [raw[at.name] for at in taking_part]
    least, most = min(compared, default=0), max(compared, default=0)
    normalised = dict.fromkeys(raw, 0)
    for at in taking_part:
        normalised[at.name] = 100 * (most + least - raw[at.name]) // most if most else 100
    return list(raw.values()), list(normalised.values())


Named: TypeAlias = Callable[[AffinityTerm, PodInfo], bool]


def own_term_matches(term: AffinityTerm, other: PodInfo) -> bool:
    """A term of the Pod that is to be scheduled selects namespaces that are known, or all of them."""
    known = {each["metadata"]["name"]: labels_of(each) for each in NAMESPACES}
    by_label = term.namespace_selector is not None and (
        term.namespace_selector == {}
        or (other.key.namespace in known and selectors.matches(term.namespace_selector, known[other.key.namespace]))
    )
    in_namespace = other.key.namespace in term.namespaces or by_label
    return in_namespace and selectors.matches(term.selector, other.labels)


def labels_of_namespace(one: PodInfo) -> Mapping[str, str]:
    return next((labels_of(each) for each in NAMESPACES if each["metadata"]["name"] == one.key.namespace), {})


def affinity_by_hand(nodes: Snapshot, one: PodInfo) -> Answers | Status:
    near: Counter[tuple[str, str]] = Counter()
    away: Counter[tuple[str, str]] = Counter()
    unwelcome: Counter[tuple[str, str]] = Counter()
    shape = one.shape
    for at in nodes:
        for other in at.pods.values():
            if all(own_term_matches(term, other) for term in shape.affinity):
                near.update(domains(at, shape.affinity))
            away.update(domains(at, [term for term in shape.anti_affinity if own_term_matches(term, other)]))
            theirs = [term for term in other.shape.anti_affinity if term.matches(one, labels_of_namespace(one))]
            unwelcome.update(domains(at, theirs))
    if not shape.affinity and not shape.anti_affinity and not unwelcome:
        return SKIP
    is_first = not near and all(own_term_matches(term, one) for term in shape.affinity)

    def answer(at: NodeInfo) -> Status | None:
        wanted = domains(at, shape.affinity)
        if len(wanted) < len(shape.affinity) or not (is_first or all(near[each] for each in wanted)):
            return AFFINITY
        if any(away[each] for each in domains(at, shape.anti_affinity)):
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if any(unwelcome[each] for each in at.labels.items()) else None

    return {at.name: answer(at) for at in nodes}


def domains(at: NodeInfo, given: Iterable[AffinityTerm]) -> list[tuple[str, str]]:
    return [(term.topology_key, at.labels[term.topology_key]) for term in given if term.topology_key in at.labels]


def affinity_scores_by_hand(
    nodes: Snapshot, one: PodInfo, args: Mapping[str, Any]
) -> tuple[list[int], list[int]] | None:
    own = [(term, term.weight) for term in one.shape.preferred_affinity]
    own += [(term, -term.weight) for term in one.shape.preferred_anti_affinity]
    if args["ignorePreferredTermsOfExistingPods"] and not own:
        return None
    sums: Counter[tuple[str, str]] = Counter()
    for at in nodes:
        for other in at.pods.values():
            wanted = [(term, weight) for term, weight in own if own_term_matches(term, other)]
            theirs = [(term, term.weight) for term in other.shape.preferred_affinity]
            theirs += [(term, -term.weight) for term in other.shape.preferred_anti_affinity]
            if args["hardPodAffinityWeight"]:
                theirs += [(term, args["hardPodAffinityWeight"]) for term in other.shape.affinity]
            wanted += [(term, weight) for term, weight in theirs if term.matches(one, labels_of_namespace(one))]
            for term, weight in wanted:
                for domain in domains(at, [term]):
                    sums[domain] += weight
    if not sums:
        return None
    raw = [sum(sums[each] for each in at.labels.items()) for at in nodes]
    least, most = min(raw), max(raw)
    return raw, [int(100 * ((score - least) / (most - least))) if most > least else 0 for score in raw]
