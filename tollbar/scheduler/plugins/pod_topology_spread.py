"""PodTopologySpread: Pods that a selector selects are spread evenly over topology domains.

A domain is the set of Nodes with the same value of a label, such as a zone.  Constraints that say `DoNotSchedule`
remove Nodes (Filter), those that say `ScheduleAnyway` rank them (Score).

Source: pkg/scheduler/framework/plugins/podtopologyspread.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from tollbar.model.objects import Object, labels_of, spec
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import NodesAt, Snapshot
from tollbar.scheduler.cache.table import Bools, Floats, IdColumn, Ints, Table
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
from tollbar.scheduler.framework.status import NOT_CONCERNED, SKIP, Status, unresolvable, unschedulable
from tollbar.scheduler.plugins import spread_constraints
from tollbar.scheduler.plugins.spread_constraints import HARD, HOSTNAME, SOFT, Constraint, has_keys
from tollbar.scheduler.plugins.spread_domains import ConstraintDomains, SpreadDomainsBySpec

SKEWED: Final = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL: Final = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
_ANSWERS: Final = np.array([None, SKEWED, NO_LABEL], object)

_FILTER: Final = "PreFilterPodTopologySpread"
_SCORE: Final = "PreScorePodTopologySpread"


@dataclass(slots=True)
class _MatchCounts:
    """How many matching Pods each domain of one constraint has.

    `counts` is by number of the domain in `column`, with one place more, always 0, for no domain; `existing` are the
    numbers of domains that have a Node which counts.
    """

    constraint: Constraint
    column: IdColumn[str]
    counts: Ints
    existing: NDArray[np.intp]
    matches_itself: bool
    """Whether the Pod that is to be scheduled is one of those that count."""
    _fits: Bools | None = None

    @classmethod
    def of(cls, domains: ConstraintDomains, pod: PodInfo, nodes: Snapshot) -> "_MatchCounts":
        matches_itself = domains.constraint.selector.matches(pod.labels)
        return cls(domains.constraint, domains.column, domains.sums(pod, nodes), domains.existing, matches_itself)

    @property
    def fits(self) -> Bools:
        """Where one Pod more keeps the skew: existing + itself - minimum is at most maxSkew, by domain; nowhere else.

        The minimum is 0 while there are fewer domains than minDomains.
        """
        if self._fits is None:
            has_enough = len(self.existing) >= self.constraint.min_domains
            minimum = int(self.counts[self.existing].min()) if has_enough else 0
            self._fits = self.counts + (self.matches_itself - minimum) <= self.constraint.max_skew
            self._fits[-1] = False
        return self._fits

    def number(self, value: str) -> int:
        """The number of the domain with this value of the label; -1, for no domain, if no Node has it."""
        found = self.column.find(value)
        return -1 if found is None else found

    def add(self, value: str, count: int) -> None:
        self.counts = self.counts.copy()  # the snapshot keeps those that it was made of
        self.counts[self.number(value)] += count
        self._fits = None

    def clone(self) -> "_MatchCounts":
        return replace(self)


@dataclass(slots=True)
class _FilterState:
    counts: list[_MatchCounts] | None
    """By constraint; None where no Node has the labels of all constraints, so that nothing counts."""

    def clone(self) -> "_FilterState":
        return _FilterState(None if self.counts is None else [each.clone() for each in self.counts])


@dataclass(slots=True)
class _ScoreState:
    rows: dict[str, int]
    raw: Ints
    """By row, of the Nodes that fit."""
    ignored: frozenset[str]
    """Names of Nodes that lack a label of a constraint."""


class PodTopologySpread:
    """Arguments: `defaultingType` System or List, and `defaultConstraints` for List."""

    name = "PodTopologySpread"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._handle = handle
        self._domains = SpreadDomainsBySpec()
        self._has_system_defaults = args.get("defaultingType", "System") == "System"
        given = cast("Sequence[Object]", args.get("defaultConstraints") or ())
        defaults = spread_constraints.SYSTEM_DEFAULTS if self._has_system_defaults else given
        self._defaults = {
            action: [each for each in defaults if each["whenUnsatisfiable"] == action] for action in (HARD, SOFT)
        }

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        itself = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), self._after_assigned_pod),
            ClusterEventWithHint(ClusterEvent(EventResource.TARGET_POD, itself), self._after_target_pod),
            ClusterEventWithHint(ClusterEvent(EventResource.NODE, nodes), self._after_node),
        ]

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | Steps[None]:
        constraints = self._constraints(pod, HARD)
        return self._count(state, pod, constraints, nodes) if constraints else self._skip(pod)

    def _count(
        self, state: CycleState, pod: PodInfo, constraints: tuple[Constraint, ...], nodes: Snapshot
    ) -> Steps[None]:
        domains = yield from self._domains.of(pod, HARD, constraints, nodes)
        counts = [_MatchCounts.of(each, pod, nodes) for each in domains.by_constraint]
        state.write(_FILTER, _FilterState(counts or None))

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> Status | None:
        _change(state, pod, added, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> Status | None:
        _change(state, pod, removed, node, -1)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        found = state.get(_FILTER, _FilterState)
        if found.counts is None:
            return NO_LABEL
        for counts in found.counts:
            value = node.labels.get(counts.constraint.topology_key)
            if value is None:
                return NO_LABEL
            if not counts.fits[counts.number(value)]:
                return SKEWED
        return None

    def filter_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Mask:
        found = state.get(_FILTER, _FilterState)
        mask: Mask = np.full(len(nodes), found.counts is not None)
        for counts in found.counts or ():
            mask &= counts.fits[counts.column.ordered(nodes.table.order)]
        return mask

    def filter_reasons(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> list[Status | None]:
        found = state.get(_FILTER, _FilterState)
        if found.counts is None:
            return [NO_LABEL] * len(nodes)
        said = np.zeros(len(nodes), np.intp)
        for counts in reversed(found.counts):  # the first one that does not hold has the last word
            numbers = counts.column.ordered(nodes.table.order)
            said[~counts.fits[numbers]] = 1
            said[numbers < 0] = 2
        return list(_ANSWERS[said])

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | Steps[None]:
        constraints = self._constraints(pod, SOFT)
        return self._weigh(state, pod, constraints, nodes) if constraints else self._skip(pod)

    def _weigh(
        self, state: CycleState, pod: PodInfo, constraints: tuple[Constraint, ...], feasible: Sequence[NodeInfo]
    ) -> Steps[None]:
        """Score the Nodes: the number of matching Pods in their domains, weighted; the fewer, the better."""
        nodes, table = self._handle.snapshot, self._handle.snapshot.table
        # With the system's defaults a Node without a zone still takes part in the spreading over hosts.
        needs_all_keys = bool(pod.spec.get("topologySpreadConstraints")) or not self._has_system_defaults
        domains = yield from self._domains.of(pod, SOFT, constraints, nodes, all_keys=needs_all_keys)
        rows = _rows(feasible, table)
        is_placed = domains.placed[rows]
        scored = rows[is_placed]
        scores = np.zeros(len(scored))
        if len(scored):
            for each in domains.by_constraint:  # their order decides how the sums are rounded
                is_host = each.constraint.topology_key == HOSTNAME
                scores += (_over_hosts if is_host else _over_domains)(each, pod, nodes, scored)
        raw: Ints = np.zeros(table.capacity, np.int64)
        raw[scored] = _rounded(scores)
        ignored = frozenset(feasible[place].name for place in np.flatnonzero(~is_placed).tolist())
        state.write(_SCORE, _ScoreState(table.rows, raw, ignored))

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        found = state.get(_SCORE, _ScoreState)
        return int(found.raw[found.rows[node.name]])

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Ints:
        return state.get(_SCORE, _ScoreState).raw[nodes.table.order[places]]

    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Ints
    ) -> Status | None:
        """Turn them round, so that the fewest Pods score highest; ignored Nodes score 0."""
        ignored = state.get(_SCORE, _ScoreState).ignored
        compared = scores
        if ignored:
            left_out = np.array([node.name in ignored for node in nodes], np.bool_)
            compared = scores[~left_out]
        most = compared.max(initial=0)
        scores[:] = MAX_SCORE * (most + compared.min() - scores) // most if most else MAX_SCORE
        if ignored:
            scores[left_out] = 0
        return None

    def _skip(self, pod: PodInfo) -> Status:
        """What is said of a Pod without constraints for this point; default ones come and go with what selects it."""
        return NOT_CONCERNED if pod.spec.get("topologySpreadConstraints") else SKIP

    def _constraints(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        if pod.spec.get("topologySpreadConstraints"):
            return spread_constraints.of_pod(pod, action)
        return spread_constraints.of_defaults(self._defaults[action], pod, self._handle.listers)

    def _after_assigned_pod(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> QueueingHint:
        """One that matches came, went, or began or ceased to match."""
        if not all(_is_involved(each, pod) for each in (old, new) if each is not None):
            return QueueingHint.SKIP
        constraints = self._constraints(pod, HARD)
        if old is not None and new is not None:
            return _after_labels(old, new, constraints)
        changed = new or old
        return queue_if(changed is not None and any(each.selector.matches(changed.labels) for each in constraints))

    def _after_target_pod(self, pod: PodInfo, old: PodInfo, new: PodInfo) -> QueueingHint:
        """It got tolerations that a nodeTaintsPolicy asks about, or matches its own constraints differently."""
        constraints = self._constraints(pod, HARD)
        before, after = (each.spec.get("tolerations") or [] for each in (old, new))
        if before != after and any(each.honors_taints for each in constraints):
            return QueueingHint.QUEUE
        return _after_labels(old, new, constraints)

    def _after_node(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """A Node came into, left, or moved between domains, or one in a domain got other taints."""
        constraints = self._constraints(pod, HARD)
        was = old is not None and has_keys(labels_of(old), constraints)
        is_now = new is not None and has_keys(labels_of(new), constraints)
        if old is None or new is None:
            return queue_if(was or is_now)
        if was != is_now:
            return QueueingHint.QUEUE
        keys = [each.topology_key for each in constraints]
        moved = any(labels_of(old).get(key, "") != labels_of(new).get(key, "") for key in keys)
        retainted = (spec(old).get("taints") or []) != (spec(new).get("taints") or [])
        return queue_if(is_now and (moved or retainted))


def _rows(nodes: Sequence[NodeInfo], table: Table) -> NDArray[np.intp]:
    """The rows of these Nodes."""
    if isinstance(nodes, NodesAt):
        return table.order[nodes.places]
    return np.fromiter(map(table.rows.__getitem__, map(attrgetter("name"), nodes)), np.intp, len(nodes))


def _over_hosts(domains: ConstraintDomains, pod: PodInfo, nodes: Snapshot, scored: NDArray[np.intp]) -> Floats:
    """What a constraint adds to the score of the Nodes in the rows `scored`, where each Node is a domain.

    Each counts its own Pods, whatever the inclusion policies say.
    """
    on_node = domains.constraint.group(pod, nodes).counts[scored]
    return _weighted(domains.constraint, domains.column.ids[scored], on_node, len(scored))


def _over_domains(domains: ConstraintDomains, pod: PodInfo, nodes: Snapshot, scored: NDArray[np.intp]) -> Floats:
    """The same where a domain has several Nodes: the Pods on those of them that are eligible count."""
    column, sums = domains.column, domains.sums(pod, nodes)
    ids = column.ids[scored]
    seen = np.zeros(column.size + 1, np.bool_)
    seen[ids] = True
    empty = column.find("")
    if empty is not None:
        # Nodes without the label are in one domain with those whose label is empty.
        sums = sums.copy()
        nowhere = domains.eligible.mask & (column.ids < 0)
        sums[empty] += domains.constraint.group(pod, nodes).counts[nowhere].sum()
        seen[empty] |= seen[-1]
        seen[-1] = False
    return _weighted(domains.constraint, ids, sums[ids], int(seen.sum()))


def _weighted(constraint: Constraint, ids: NDArray[np.intp], counts: NDArray[np.integer[Any]], domains: int) -> Floats:
    """A Pod counts the more, the more domains there are, and maxSkew makes small differences matter less."""
    return np.where(ids >= 0, counts * log(domains + 2) + (constraint.max_skew - 1), 0.0)


def _change(state: CycleState, pod: PodInfo, changed: PodInfo, node: NodeInfo, count: int) -> None:
    """Count a Pod that came to the Node (1) or left it (-1).  Terminating Pods count here, as in kube-scheduler."""
    counted = state.get(_FILTER, _FilterState).counts or ()
    if changed.key.namespace != pod.key.namespace or not has_keys(node.labels, [each.constraint for each in counted]):
        return
    for counts in counted:
        constraint = counts.constraint
        if constraint.selector.matches(changed.labels) and constraint.includes(pod, node):
            counts.add(node.labels[constraint.topology_key], count)


def _is_involved(changed: PodInfo, pod: PodInfo) -> bool:
    return changed.has_place and changed.key.namespace == pod.key.namespace


def _after_labels(old: PodInfo, new: PodInfo, constraints: Iterable[Constraint]) -> QueueingHint:
    return queue_if(any(each.selector.matches(old.labels) != each.selector.matches(new.labels) for each in constraints))


_LN2_HIGH: Final = 6.93147180369123816490e-01
_LN2_LOW: Final = 1.90821492927058770002e-10
_L1: Final = 6.666666666666735130e-01
_L2: Final = 3.999999999940941908e-01
_L3: Final = 2.857142874366239149e-01
_L4: Final = 2.222219843214978396e-01
_L5: Final = 1.818357216161805012e-01
_L6: Final = 1.531383769920937332e-01
_L7: Final = 1.479819860511658591e-01


def log(size: int) -> float:
    """The natural logarithm as Go computes it on amd64, which for some values is not C's by the last bit.

    Source: math.Log in Go, after FreeBSD's e_log.c; the constants are those of its polynomial.
    """
    fraction, exponent = math.frexp(size)
    if fraction < math.sqrt(2) / 2:
        fraction, exponent = fraction * 2, exponent - 1
    f = fraction - 1
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_L1 + s4 * (_L3 + s4 * (_L5 + s4 * _L7)))
    even = s4 * (_L2 + s4 * (_L4 + s4 * _L6))
    half = 0.5 * f * f
    return exponent * _LN2_HIGH - ((half - (s * (half + (odd + even)) + exponent * _LN2_LOW)) - f)


def _rounded(scores: Floats) -> Ints:
    """To the nearest, halves up, as math.Round in Go."""
    whole = np.floor(scores)
    return (whole + (scores - whole >= 0.5)).astype(np.int64)
