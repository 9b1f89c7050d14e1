"""InterPodAffinity: Pods that want to be near other Pods, or away from them, in the same topology domain.

Required terms remove Nodes (Filter), preferred terms rank them (Score).  Both ways count: the terms of the Pod to be
scheduled about Pods on Nodes, and the terms of those about it.  matchLabelKeys and mismatchLabelKeys (KEP-3633) have
become part of labelSelector when the API server stored the Pod.

Source: pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple, TypeAlias, cast

import numpy as np

from tollbar.model import selectors
from tollbar.model.objects import Key, Object, key_of, labels_of
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.groups import Group, TermKind, TermPods
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import AffinityTerm, PodInfo
from tollbar.scheduler.cache.selector import PodSelector
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.table import Bools, IdColumn, Ints
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    queue_if,
)
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import MAX_SCORE, Arguments, Mask, Places
from tollbar.scheduler.framework.status import SKIP, Status, unresolvable, unschedulable

AFFINITY: Final = unresolvable("node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = unschedulable("node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY: Final = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")

_ANSWERS: Final = np.array([None, AFFINITY, ANTI_AFFINITY, EXISTING_ANTI_AFFINITY], object)
"""What `filter` says of a Node, in the order in which it checks the terms."""

_FILTER: Final = "PreFilterInterPodAffinity"
_SCORE: Final = "PreScoreInterPodAffinity"
_DEFAULT_HARD_WEIGHT: Final = 1
_SCORED: Final = (TermKind.REQUIRED_AFFINITY, TermKind.PREFERRED_AFFINITY, TermKind.PREFERRED_ANTI_AFFINITY)
"""The terms of Pods on Nodes that count in the score."""
MAX_ONE_BY_ONE: Final = 32
"""Pods that have a term are added one Node after the other if they are on no more than so many: there may be many such
terms, each of which is about this Pod."""


class _Term(NamedTuple):
    """A term of the Pod that is to be scheduled: the Pods that it is about, with the names of their namespaces."""

    topology_key: str
    pods: PodSelector
    weight: int
    """Of preferred terms alone."""


Terms: TypeAlias = tuple[_Term, ...]


@dataclass(slots=True)
class _DomainCounts:
    """A number for each domain of one topology key.

    `sums` is by number of the domain in `column`, with one place more, always 0, for Nodes without the label.
    """

    key: str
    column: IdColumn[str]
    sums: Ints

    def place(self, node: NodeInfo) -> int | None:
        """Where the number of the Node's domain is; None if the Node lacks the label."""
        value = node.labels.get(self.key)
        return None if value is None else self.column.find(value)


class _TopologyCounts:
    """How many Pods each domain of each topology key counts, or in the score the sum of their weights."""

    def __init__(self, nodes: Snapshot) -> None:
        self.is_touched = False
        """Whether anything was added, be it that the numbers have come to 0 again."""
        self._nodes = nodes
        self._domains: dict[str, _DomainCounts] = {}

    def add_pods(self, key: str, counted: Group | TermPods, weight: int = 1) -> None:
        """Add the Pods of a group, or those that have a term."""
        domains = self._of(key)
        added = self._nodes.groups.in_domains(counted, domains.column)
        domains.sums += added if weight == 1 else weight * added
        self.is_touched = self.is_touched or bool(added.any())

    def add_term(self, term: TermPods, weight: int = 1) -> None:
        """Add the Pods that have this term."""
        if len(term.rows) > MAX_ONE_BY_ONE:
            self.add_pods(term.term.topology_key, term, weight)
            return
        domains = self._of(term.term.topology_key)
        for row, count in term.rows.items():
            place = domains.column.ids[row]
            if place >= 0:
                domains.sums[place] += weight * count
                self.is_touched = True

    def add_pod(self, key: str, node: NodeInfo, count: int) -> None:
        """Add to the domain of the Node, if it is in one."""
        domains = self._of(key)
        place = domains.place(node)
        if place is not None:
            domains.sums[place] += count
            self.is_touched = True

    def has(self, key: str, node: NodeInfo) -> bool:
        """Whether the number of the Node's domain is above 0."""
        domains = self._of(key)
        place = domains.place(node)
        return place is not None and bool(domains.sums[place] > 0)

    def has_any(self, node: NodeInfo) -> bool:
        """The same of one of all topology keys."""
        return any(self.has(key, node) for key in self._domains)

    def total_by_row(self) -> Ints:
        """The numbers of all domains that a Node is in."""
        total: Ints = np.zeros(self._nodes.table.capacity, np.int64)
        for each in self.domains:
            total += each.sums[each.column.ids]
        return total

    @property
    def domains(self) -> Collection[_DomainCounts]:
        """By topology key."""
        return self._domains.values()

    @property
    def is_zero(self) -> bool:
        """Whether all numbers are 0."""
        return not any(each.sums.any() for each in self._domains.values())

    def clone(self) -> "_TopologyCounts":
        copied = _TopologyCounts(self._nodes)
        copied.is_touched = self.is_touched
        copied._domains = {key: replace(each, sums=each.sums.copy()) for key, each in self._domains.items()}
        return copied

    def _of(self, key: str) -> _DomainCounts:
        found = self._domains.get(key)
        if found is None:
            column = self._nodes.table.label(key)
            found = self._domains[key] = _DomainCounts(key, column, np.zeros(column.size + 1, np.int64))
        return found


@dataclass(slots=True)
class _FilterState:
    pod: PodInfo
    namespace_labels: Mapping[str, str]
    affinity: Terms
    anti_affinity: Terms
    affinity_counts: _TopologyCounts
    """How many Pods match all terms of `affinity`, once for each of them."""
    anti_affinity_counts: _TopologyCounts
    """How many Pods match a term of `anti_affinity`."""
    existing_anti_affinity_counts: _TopologyCounts
    """How many required anti-affinity terms of Pods on Nodes match this Pod."""

    def clone(self) -> "_FilterState":
        return replace(
            self,
            affinity_counts=self.affinity_counts.clone(),
            anti_affinity_counts=self.anti_affinity_counts.clone(),
            existing_anti_affinity_counts=self.existing_anti_affinity_counts.clone(),
        )

    def count(self, nodes: Snapshot) -> Steps[None]:
        """Count the Pods of all Nodes.  A selector that is asked for the first time may look at every shape of Pods."""
        if self.affinity:
            matching = nodes.groups.group(*(term.pods for term in self.affinity))
            for term in self.affinity:
                self.affinity_counts.add_pods(term.topology_key, matching)
                yield
        for term in self.anti_affinity:
            self.anti_affinity_counts.add_pods(term.topology_key, nodes.groups.group(term.pods))
            yield
        for each in nodes.groups.terms(TermKind.REQUIRED_ANTI_AFFINITY, self.pod, self.namespace_labels):
            self.existing_anti_affinity_counts.add_term(each)

    def add(self, other: PodInfo, node: NodeInfo, count: int) -> None:
        """Count a Pod that came to the Node (1) or left it (-1)."""
        if self._matches_affinity(other):
            for term in self.affinity:
                self.affinity_counts.add_pod(term.topology_key, node, count)
        for term in self.anti_affinity:
            if term.pods.matches(other.shape):
                self.anti_affinity_counts.add_pod(term.topology_key, node, count)
        for theirs in other.shape.anti_affinity:
            if theirs.matches(self.pod, self.namespace_labels):
                self.existing_anti_affinity_counts.add_pod(theirs.topology_key, node, count)

    @property
    def is_first(self) -> bool:
        """Whether it is the first Pod of a group that wants to be together: it alone matches its terms."""
        return self._matches_affinity(self.pod) and self.affinity_counts.is_zero

    def free(self) -> dict[IdColumn[str], Bools]:
        """In which domains no Pod keeps this one away, by number of the domain, with the last place for none."""
        found: dict[IdColumn[str], Bools] = {}
        for each in chain(self.anti_affinity_counts.domains, self.existing_anti_affinity_counts.domains):
            is_free = each.sums <= 0
            found[each.column] = found[each.column] & is_free if each.column in found else is_free
        return found

    def _matches_affinity(self, other: PodInfo) -> bool:
        """Whether all terms of `affinity` are about this Pod; false without terms."""
        return bool(self.affinity) and all(term.pods.matches(other.shape) for term in self.affinity)


@dataclass(slots=True)
class _ScoreState:
    rows: Mapping[str, int]
    raw: Ints
    """By row."""


class InterPodAffinity:
    """Arguments: `hardPodAffinityWeight`, what a required affinity term of a Pod on a Node adds to the score, and
    `ignorePreferredTermsOfExistingPods`, which concerns Pods without preferred terms of their own.
    """

    name = "InterPodAffinity"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._handle = handle
        self._hard_weight = cast("int", args.get("hardPodAffinityWeight", _DEFAULT_HARD_WEIGHT))
        self._ignores_existing = bool(args.get("ignorePreferredTermsOfExistingPods"))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        nodes = Action.ADD | Action.UPDATE_NODE_LABEL
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), _after_assigned_pod),
            ClusterEventWithHint(ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_LABEL), _after_target_pod),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes), _after_node),
        ]

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | Steps[Status | None]:
        has_own = pod.shape.affinity or pod.shape.anti_affinity
        if not has_own and not nodes.groups.has_terms(TermKind.REQUIRED_ANTI_AFFINITY):
            return SKIP
        return self._count(state, pod, nodes)

    def _count(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Steps[Status | None]:
        affinity = yield from self._terms(pod, TermKind.REQUIRED_AFFINITY)
        anti_affinity = yield from self._terms(pod, TermKind.REQUIRED_ANTI_AFFINITY)
        counts = (_TopologyCounts(nodes) for _ in range(3))
        found = _FilterState(pod, self._namespace_labels(pod), affinity, anti_affinity, *counts)
        yield from found.count(nodes)
        if not affinity and not anti_affinity and not found.existing_anti_affinity_counts.is_touched:
            return SKIP
        state.write(_FILTER, found)
        return None

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        state.get(_FILTER, _FilterState).add(added, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        state.get(_FILTER, _FilterState).add(removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        found = state.get(_FILTER, _FilterState)
        keys = [term.topology_key for term in found.affinity]
        if not all(key in node.labels for key in keys):
            return AFFINITY
        if not all(found.affinity_counts.has(key, node) for key in keys) and not found.is_first:
            return AFFINITY
        if any(found.anti_affinity_counts.has(term.topology_key, node) for term in found.anti_affinity):
            return ANTI_AFFINITY
        return EXISTING_ANTI_AFFINITY if found.existing_anti_affinity_counts.has_any(node) else None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        found = state.get(_FILTER, _FilterState)
        mask: Mask = np.ones(len(nodes), np.bool_)
        is_first, order = found.is_first, nodes.table.order
        for each in found.affinity_counts.domains:
            numbers = each.column.ordered(order)
            mask &= numbers >= 0 if is_first else (each.sums > 0)[numbers]
        for column, is_free in found.free().items():
            mask &= is_free[column.ordered(order)]
        return mask

    def filter_reasons(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> list[Status | None]:
        found = state.get(_FILTER, _FilterState)
        said, order = np.zeros(len(nodes), np.intp), nodes.table.order
        for each in found.existing_anti_affinity_counts.domains:
            said[each.sums[each.column.ordered(order)] > 0] = 3
        for each in found.anti_affinity_counts.domains:
            said[each.sums[each.column.ordered(order)] > 0] = 2
        is_first = found.is_first
        for each in found.affinity_counts.domains:
            numbers = each.column.ordered(order)
            said[numbers < 0 if is_first else each.sums[numbers] <= 0] = 1
        return list(_ANSWERS[said])

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | Steps[Status | None]:
        has_own = pod.shape.preferred_affinity or pod.shape.preferred_anti_affinity
        if not has_own and (self._ignores_existing or not self._handle.snapshot.groups.has_terms(*_SCORED)):
            return SKIP
        return self._weigh(state, pod)

    def _weigh(self, state: CycleState, pod: PodInfo) -> Steps[Status | None]:
        """Score all Nodes: the weights of the terms that hold in their domains."""
        snapshot = self._handle.snapshot
        sums, groups = _TopologyCounts(snapshot), snapshot.groups
        for kind, sign in ((TermKind.PREFERRED_AFFINITY, 1), (TermKind.PREFERRED_ANTI_AFFINITY, -1)):
            for term in (yield from self._terms(pod, kind)):
                sums.add_pods(term.topology_key, groups.group(term.pods), sign * term.weight)
                yield
        namespace_labels = self._namespace_labels(pod)
        if self._hard_weight:
            for each in groups.terms(TermKind.REQUIRED_AFFINITY, pod, namespace_labels):
                sums.add_term(each, self._hard_weight)
        for each in groups.terms(TermKind.PREFERRED_AFFINITY, pod, namespace_labels):
            sums.add_term(each, each.term.weight)
        for each in groups.terms(TermKind.PREFERRED_ANTI_AFFINITY, pod, namespace_labels):
            sums.add_term(each, -each.term.weight)
        if not sums.is_touched:
            return SKIP
        state.write(_SCORE, _ScoreState(snapshot.table.rows, sums.total_by_row()))
        return None

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        found = state.get(_SCORE, _ScoreState)
        return int(found.raw[found.rows[node.name]])

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Ints:
        return state.get(_SCORE, _ScoreState).raw[nodes.table.order[places]]

    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Ints
    ) -> Status | None:
        """From 0 for the lowest to MAX_SCORE for the highest; 0 for all if they are equal."""
        above = scores - scores.min()
        span = above.max() or 1
        scores[:] = (MAX_SCORE * (above / span)).astype(np.int64)
        return None

    def _terms(self, pod: PodInfo, kind: TermKind) -> Steps[Terms]:
        """The Pod's terms of this kind.  They are kept with the spec, unless they depend on labels of namespaces.

        An empty namespaceSelector selects every namespace, also one that is not known.
        """
        memo, key = pod.shape.unlabelled.memo, (self.name, kind)
        kept: Terms | None = memo.get(key)
        if kept is not None:
            return kept
        found: list[_Term] = []
        depends_on_labels = False
        for term in kind.of(pod.shape):
            pods = PodSelector.of(term)
            if term.namespace_selector is not None and pods.namespaces is not None:
                pods = replace(pods, namespaces=pods.namespaces | self._selected(term.namespace_selector))
                depends_on_labels = True
                yield
            found.append(_Term(term.topology_key, pods, term.weight))
        if not depends_on_labels:
            memo[key] = tuple(found)
        return tuple(found)

    def _selected(self, selector: Object) -> frozenset[str]:
        namespaces = self._handle.listers.namespaces.values()
        return frozenset(key_of(each).name for each in namespaces if selectors.matches(selector, labels_of(each)))

    def _namespace_labels(self, pod: PodInfo) -> Mapping[str, str]:
        """The labels of the Pod's namespace; none if it is not known."""
        return labels_of(self._handle.listers.namespaces.get(Key("", pod.key.namespace)) or {})


def _after_assigned_pod(pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
    """One that the Pod wants to be near came, or one that keeps it away left."""
    if any(each and not each.has_place for each in (old, new)):
        return QueueingHint.SKIP
    affinity, anti_affinity = pod.shape.affinity, pod.shape.anti_affinity
    if old is None or new is None:
        if new is not None:
            return queue_if(_matches_all(affinity, new))
        return queue_if(
            old is not None and (_matches_any(anti_affinity, old) or _matches_any(old.shape.anti_affinity, pod))
        )
    return queue_if(
        (not _matches_all(affinity, old) and _matches_all(affinity, new))
        or (_matches_any(anti_affinity, old) and not _matches_any(anti_affinity, new))
    )


def _after_target_pod(pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:  # noqa: ARG001
    """Its labels have changed, and with them which anti-affinity of others is about it."""
    return QueueingHint.QUEUE


def _after_node(pod: PodInfo, old: Object | None, new: Object) -> QueueingHint:
    """A Node came into a domain of the Pod's affinity, out of one of its anti-affinity, or into another one."""
    after, affinity, anti_affinity = labels_of(new), pod.shape.affinity, pod.shape.anti_affinity
    if old is None:
        return queue_if(bool(anti_affinity) or any(term.topology_key in after for term in affinity))
    before = labels_of(old)
    keys = {term.topology_key for term in (*affinity, *anti_affinity)}
    return queue_if(
        any(key in before and key in after and before[key] != after[key] for key in keys)
        or any(term.topology_key not in before and term.topology_key in after for term in affinity)
        or any(term.topology_key in before and term.topology_key not in after for term in anti_affinity)
    )


def _matches(term: AffinityTerm, pod: PodInfo) -> bool:
    """Whether a term is about this Pod, by the names of namespaces or with an empty namespaceSelector alone."""
    return term.matches(pod, {})


def _matches_all(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    """Whether all of these terms are about the Pod; false without terms."""
    return bool(terms) and all(_matches(term, pod) for term in terms)


def _matches_any(terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
    return any(_matches(term, pod) for term in terms)
