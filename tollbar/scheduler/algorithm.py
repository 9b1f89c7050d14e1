"""One attempt to find a Node for a Pod: filter the Nodes, score those that fit, take the best.

It works on a snapshot and can be paused between Nodes.  Source: schedulePod in pkg/scheduler/schedule_one.go; where
kube-scheduler filters with several threads, this is what it does with one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from random import Random
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import NodesAt, Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NO_NODES, Diagnosis, FitError, NodeStatuses
from tollbar.scheduler.framework.filtering import PreFiltered
from tollbar.scheduler.framework.interface import Filter, Known, Mask, Places
from tollbar.scheduler.framework.points import Point
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.scoring import NodeScores
from tollbar.scheduler.framework.status import Code, Status, by_identity, failed, unresolvable

_FEASIBLE_MIN: Final = 100
"""So many Nodes that fit are always looked for."""
_PERCENTAGE_MIN: Final = 5
PIECE: Final = 16
"""So many Nodes are looked at between two pauses: a Filter that takes long pauses by itself."""
_NO_PLACES: Final[Places] = np.zeros(0, np.intp)
_Checked: TypeAlias = Steps[Status | None]
"""What the check of a Node returns.  Annotations of nested functions are evaluated whenever these are made, so the type
has a name."""
_Check: TypeAlias = Callable[[int], _Checked]
"""What Filter says of the Node at a place among the candidates."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """The Node for a Pod; `scores` are None if no choice had to be made."""

    node_name: str
    feasible_nodes: int
    scores: NodeScores | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an attempt: a Node, that no Node fits, or why none could be looked for; it may be an Error.

    The next attempt begins with the Node at `next_start`.
    """

    result: Scheduled | FitError | Status
    next_start: int


@dataclass(frozen=True, slots=True)
class _Found:
    """The Nodes that fit, as places among the candidates; `processed` candidates were looked at."""

    candidates: Sequence[NodeInfo]
    places: Places
    processed: int
    failure: Status | None = None


class _Passed(NamedTuple):
    """The places of Nodes that pass, no more than are wanted.

    `end` is the place at which the walk over the Nodes ended early: that of an Error, which is `failure`, or of one
    Node more that passes.  It is None where all of them were looked at.
    """

    places: Places
    failure: Status | None = None
    end: int | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no Node passes, and nothing went wrong."""
        return not len(self.places) and self.failure is None


def schedule_pod(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Snapshot, start: int, rng: Random | None = None
) -> Steps[Outcome]:
    """Find the best Node for a Pod, beginning at place `start` of the snapshot.

    Of several best Nodes `rng` chooses, without it the first is taken.
    """
    if not len(nodes):
        return Outcome(unresolvable(NO_NODES), start)
    pre_filtered = yield from framework.pre_filter(state, pod, nodes)
    diagnosis = Diagnosis(unschedulable_plugins=set(pre_filtered.plugins))
    if pre_filtered.status is not None:
        if not pre_filtered.status.is_rejected:
            return Outcome(pre_filtered.status, start)
        return Outcome(_rejected_by_pre_filter(nodes, diagnosis, pre_filtered.status), start)
    search = _Search(framework, state, pod, nodes, start, diagnosis)
    found = yield from search.evaluate_nominated_node()
    if found is None:
        found = yield from search.find_nodes_that_fit(pre_filtered)
        start = (start + found.processed) % len(nodes)
    framework.count_filter_calls()
    if found.failure is not None:
        return Outcome(found.failure, start)
    if not len(found.places):
        return Outcome(FitError(len(nodes), diagnosis), start)
    return Outcome((yield from _best(framework, state, pod, nodes, found, rng)), start)


def num_feasible_nodes_to_find(total: int, percentage: int) -> int:
    """How many Nodes that fit are enough, of so many; a percentage of 0 is 50, less in large clusters."""
    if total < _FEASIBLE_MIN:
        return total
    percentage = percentage or max(50 - total // 125, _PERCENTAGE_MIN)
    return max(total * percentage // 100, _FEASIBLE_MIN)


def _rejected_by_pre_filter(nodes: Snapshot, diagnosis: Diagnosis, status: Status) -> FitError:
    diagnosis.statuses.absent = status
    diagnosis.pre_filter_message = status.message
    diagnosis.add_plugin(status)
    return FitError(len(nodes), diagnosis)


@dataclass(eq=False, slots=True)
class _Search:
    """The search for Nodes that a Pod fits on, from the place `start` on; `diagnosis` gets why others are rejected."""

    framework: Framework
    state: CycleState
    pod: PodInfo
    nodes: Snapshot
    start: int
    diagnosis: Diagnosis

    def evaluate_nominated_node(self) -> Steps[_Found | None]:
        """The Node that the Pod is nominated to, if it fits: room may have been made on it."""
        node = self.nodes.get(self.pod.nominated_node_name) if self.pod.nominated_node_name else None
        if node is None:
            return None
        found = yield from self._one_by_one([node], 0, 1)
        return found if len(found.places) else None

    def find_nodes_that_fit(self, pre_filtered: PreFiltered) -> Steps[_Found]:
        """Enough Nodes that fit, among those that PreFilter has left."""
        framework, nodes, start = self.framework, self.nodes, self.start
        candidates: Sequence[NodeInfo] = nodes.nodes
        if pre_filtered.node_names is not None:
            candidates = [node for name in sorted(pre_filtered.node_names) if (node := nodes.get(name)) is not None]
            self.diagnosis.statuses.absent = unresolvable(
                f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(pre_filtered.plugins))}]"
            )
        wanted = num_feasible_nodes_to_find(len(candidates), framework.percentage_of_nodes_to_score)
        if not framework.plugins.score:
            wanted = min(wanted, 1)
        before = set(self.diagnosis.statuses.by_node)
        began = framework.clock()
        if pre_filtered.node_names is None:
            found = yield from self._by_masks(wanted)
        else:
            found = yield from self._one_by_one(candidates, start, wanted)
        code = Code.SUCCESS if found.failure is None else Code.ERROR
        framework.metrics.point(Point.FILTER, code, framework.clock() - began)
        is_all = pre_filtered.node_names is None and found.processed == len(candidates)
        if before and not is_all:
            # The Node that the Pod is nominated to counts as looked at wherever it is, as in kube-scheduler.
            before.difference_update(candidates[(start + i) % len(candidates)].name for i in range(found.processed))
            found = replace(found, processed=found.processed + len(before))
        return found

    def _one_by_one(self, candidates: Sequence[NodeInfo], start: int, wanted: int) -> Steps[_Found]:
        """Filter each of these Nodes by itself, beginning at the one at `start`."""

        def check(place: int) -> _Checked:
            return self.framework.filter_with_nominated_pods(self.state, self.pod, candidates[place])

        passed = yield from self._walk(_from(start, len(candidates)), check, candidates, wanted)
        processed = len(candidates) if passed.end is None else (passed.end - start) % len(candidates)
        return _Found(candidates, passed.places, processed, passed.failure)

    def _by_masks(self, wanted: int) -> Steps[_Found]:
        """Let the plugins that can look at all Nodes at once do so, and ask the others about the Nodes that are left.

        Nodes of which the others know the answer already are not asked about.  Who rejected which Node is worked out
        only if none fits.  While some fit, an Error of a plugin goes unnoticed on a Node that another plugin's mask
        leaves out.
        """
        nodes, framework = self.nodes, self.framework
        masks = framework.filter_nodes(self.state, self.pod, nodes)
        if isinstance(masks, Status):
            return _Found(nodes.nodes, _NO_PLACES, 0, masks)
        if not masks:
            return (yield from self._one_by_one(nodes.nodes, self.start, wanted))
        known = framework.filter_known(self.state, self.pod, nodes)
        others = self._filters_without(masks)
        passed = yield from self._passing(masks, known, others, wanted)
        if passed.is_empty and known:
            passed = yield from self._ask_rejecting(masks, known, others, wanted)
        if passed.is_empty:
            passed = yield from self._explain(masks)
        processed = len(nodes) if passed.end is None else (passed.end - self.start) % len(nodes)
        return _Found(nodes.nodes, passed.places, processed, passed.failure)

    def _passing(
        self, masks: Mapping[str, Mask], known: Mapping[str, Known], others: Sequence[Filter], wanted: int
    ) -> Steps[_Passed]:
        """The Nodes that pass all masks and that the other plugins let pass, which are asked where it is not known."""
        nominated = self.framework.handle.nominator.nominated_nodes()
        fits = reduce(np.logical_and, (*masks.values(), *(~each.rejected for each in known.values())))
        places = _places(fits, self.start, wanted + 1)
        if len(places) and (others or nominated):
            fitting = _known_to_fit(self.nodes, others, known, nominated)
            if not fitting[places[: wanted + 1]].all():
                unknown = int(np.count_nonzero(fits & ~fitting))
                places = _places(fits, self.start, wanted + 1 + unknown)  # enough even if all of these are rejected
                return (yield from self._check_unknown(places, fitting, self._check_by(others), wanted))
        return _Passed(places[:wanted], end=int(places[wanted]) if len(places) > wanted else None)

    def _ask_rejecting(
        self, masks: Mapping[str, Mask], known: Mapping[str, Known], others: Sequence[Filter], wanted: int
    ) -> Steps[_Passed]:
        """Ask about the Nodes that were known to be rejected: why, and whether devices were released meanwhile."""
        nodes = self.nodes.nodes
        rejected = reduce(np.logical_or, (each.rejected for each in known.values()))
        places = _places(reduce(np.logical_and, (*masks.values(), rejected)), self.start)
        if (still := self._known_to_reject(others)) is not None:
            why, is_rejected = still
            self._reject_all({nodes[place].name: why for place in places[is_rejected[places]].tolist()})
            places = places[~is_rejected[places]]
        return (yield from self._walk(map(int, places), self._check_by(others), nodes, wanted))

    def _check_by(self, plugins: Sequence[Filter]) -> _Check:
        """The check of a Node by these plugins; by all, if other Pods are nominated to it."""
        framework, nodes = self.framework, self.nodes.nodes
        nominated = framework.handle.nominator.nominated_nodes()

        def check(place: int) -> _Checked:
            node = nodes[place]
            if node.name in nominated:
                return framework.filter_with_nominated_pods(self.state, self.pod, node)
            return framework.filter(self.state, self.pod, node, plugins)

        return check

    def _filters_without(self, passed: Collection[str]) -> list[Filter]:
        """The plugins whose Filter is called, but for those that are known to let the Node pass."""
        return [each for each in self.framework.filters(self.state) if each.name not in passed]

    def _known_to_reject(self, plugins: Sequence[Filter]) -> tuple[Status, Mask] | None:
        """The Nodes that the first of these plugins is known to reject at this moment, and what it says of them."""
        known = self.framework.filter_known(self.state, self.pod, self.nodes).get(plugins[0].name) if plugins else None
        if known is None or known.why is None:
            return None
        rejected = known.rejected.copy()
        _leave_out(rejected, self.nodes, self.framework.handle.nominator.nominated_nodes())
        return known.why.with_plugin(plugins[0].name), rejected

    def _walk(
        self, places: Iterable[int], check: _Check, candidates: Sequence[NodeInfo], wanted: int
    ) -> Steps[_Passed]:
        """Check the Nodes at these places, until one passes more than are wanted."""
        passed: list[int] = []
        for number, place in enumerate(places):
            status = yield from check(place)
            if number % PIECE == 0:
                yield
            if status is None:
                if len(passed) == wanted:
                    return _Passed(np.array(passed, np.intp), end=place)
                passed.append(place)
            elif status.is_rejected:
                self._reject(candidates[place], status)
            else:
                return _Passed(np.array(passed, np.intp), status, place)
        return _Passed(np.array(passed, np.intp))

    def _check_unknown(self, places: Places, fitting: Mask, check: _Check, wanted: int) -> Steps[_Passed]:
        """As `_walk`, where the Nodes that are known to be `fitting` need no check."""
        rejected: list[int] = []
        for number, turn in enumerate((~fitting[places]).nonzero()[0].tolist()):
            if turn - len(rejected) > wanted:
                break
            place = int(places[turn])
            status = yield from check(place)
            if number % PIECE == 0:
                yield
            if status is None:
                continue
            if not status.is_rejected:
                return _Passed(np.delete(places[:turn], rejected), status, place)
            self._reject(self.nodes.nodes[place], status)
            rejected.append(turn)
        passed = np.delete(places, rejected) if rejected else places
        return _Passed(passed[:wanted], end=int(passed[wanted]) if len(passed) > wanted else None)

    def _explain(self, masks: Mapping[str, Mask]) -> Steps[_Passed]:
        """Find out which plugin rejects which Node, where none fits; it ends at an Error."""
        framework, state, pod, nodes, diagnosis = self.framework, self.state, self.pod, self.nodes, self.diagnosis
        kept = framework.rejections(state, pod, nodes)
        said, told = diagnosis.statuses.by_node, kept.known_for(framework.handle.nominator.node_of(pod.uid))
        told.update(said)
        if len(told) == len(nodes) and len(said) <= 1:  # that of the Node to which it is nominated itself
            counts = kept.counts(said)
            diagnosis.statuses = NodeStatuses(told, diagnosis.statuses.absent, counts)
            for each in counts:
                diagnosis.add_plugin(each)
            return _Passed(_NO_PLACES)
        self._reject_all(told)
        if len(diagnosis.statuses) == len(nodes):
            return _Passed(_NO_PLACES)
        reasons = framework.filter_reasons(state, pod, nodes, masks, [told.get(node.name) for node in nodes])
        if isinstance(reasons, Status):
            return _Passed(_NO_PLACES, reasons)
        named = ((node.name, reason) for node, reason in zip(nodes, reasons, strict=True) if reason is not None)
        self._reject_all({name: reason for name, reason in named if name not in kept.nominated})
        same: dict[Status, Status] = {}
        by_node = diagnosis.statuses.by_node
        left = [place for place in _from(self.start, len(nodes)) if nodes.nodes[place].name not in by_node]
        for number, place in enumerate(left):
            node = nodes.nodes[place]
            nominated = framework.nominated_pods(pod, node.name)
            if nominated:
                status = yield from framework.filter_with_nominated_pods(state, pod, node)
            else:
                passed = [plugin for plugin, mask in masks.items() if mask[place]]
                status = yield from framework.filter(state, pod, node, self._filters_without(passed))
            if number % PIECE == 0:
                yield
            if status is None:
                why = f'filter_nodes of a plugin leaves out node "{node.name}", its filter does not'
                return _Passed(_NO_PLACES, failed(why), place)
            if not status.is_rejected:
                return _Passed(_NO_PLACES, status, place)
            status = same.setdefault(status, status)
            self._reject(node, status)
            if kept.may_keep(node.name, nominated):
                kept.put(node.name, status)
        return _Passed(_NO_PLACES)

    def _reject(self, node: NodeInfo, status: Status) -> None:
        self.diagnosis.statuses.by_node[node.name] = status
        self.diagnosis.add_plugin(status)

    def _reject_all(self, told: Mapping[str, Status]) -> None:
        """The same of many Nodes, by name, most of which have the same Status; what was said before stands."""
        self.diagnosis.statuses.by_node = {**told, **self.diagnosis.statuses.by_node}
        for status in by_identity(told.values()).values():
            self.diagnosis.add_plugin(status)


def _known_to_fit(
    nodes: Snapshot, plugins: Iterable[Filter], known: Mapping[str, Known], nominated: Iterable[str]
) -> Mask:
    """The Nodes that all of these plugins are known to let pass, and to which no Pods are nominated."""
    fitting: Mask = np.ones(len(nodes), np.bool_)
    for each in plugins:
        fitting &= each.name in known and known[each.name].fits
    _leave_out(fitting, nodes, nominated)
    return fitting


def _leave_out(mask: Mask, nodes: Snapshot, names: Iterable[str]) -> None:
    for name in names:
        place = nodes.place(name)
        if place is not None:
            mask[place] = False


def _places(fits: Mask, start: int, enough: int | None = None) -> Places:
    """Where the mask is true, beginning at `start`: all places, or at least as many as are enough."""
    start %= len(fits)
    if enough is not None:
        (places,) = fits[start : start + 2 * enough].nonzero()
        if len(places) >= enough:
            return places + start
    (places,) = fits.nonzero()
    first = places.searchsorted(start)
    return np.concatenate((places[first:], places[:first]))


def _from(start: int, total: int) -> Iterator[int]:
    """All places, beginning at `start`."""
    return ((start + i) % total for i in range(total))


def _best(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Snapshot, found: _Found, rng: Random | None
) -> Steps[Scheduled | Status]:
    """The Node with the highest score, or the first without any Score plugin (prioritizeNodes and selectHost)."""
    places = found.places if found.candidates is nodes.nodes else None
    feasible: Sequence[NodeInfo] = (
        NodesAt(nodes, places) if places is not None else [found.candidates[place] for place in found.places]
    )
    if len(feasible) == 1 or not framework.plugins.score:
        return Scheduled(feasible[0].name, len(feasible))
    if (status := (yield from framework.pre_score(state, pod, feasible))) is not None:
        return status
    scores = framework.score(state, pod, feasible, nodes, places)
    if isinstance(scores, Status):
        return scores
    best = np.flatnonzero(scores.totals == scores.totals.max())
    chosen = int(rng.choice(best) if rng is not None else best[0])
    return Scheduled(feasible[chosen].name, len(feasible), scores)
