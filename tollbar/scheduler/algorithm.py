"""One attempt to find a Node for a Pod: filter the Nodes, score those that fit, take the best.

It works on a snapshot and can be paused between Nodes.  Source: schedulePod in pkg/scheduler/schedule_one.go; where
kube-scheduler filters with several threads, this is what it does with one.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from random import Random
from typing import Final, TypeAlias

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
_NOWHERE: Final[Places] = np.zeros(0, np.intp)
_Checked: TypeAlias = Steps[Status | None]
"""What the check of a Node returns.  Annotations of nested functions are evaluated whenever these are made, so the type
has a name."""


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
    found = yield from _nominated(framework, state, pod, nodes, diagnosis)
    if found is None:
        found = yield from _find(framework, state, pod, nodes, start, pre_filtered, diagnosis)
        start = (start + found.processed) % len(nodes)
    framework.count_filter_calls()
    if found.failure is not None:
        return Outcome(found.failure, start)
    if not len(found.places):
        return Outcome(FitError(len(nodes), diagnosis), start)
    return Outcome((yield from _best(framework, state, pod, nodes, found, rng)), start)


def nodes_to_find(total: int, percentage: int) -> int:
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


def _nominated(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Snapshot, diagnosis: Diagnosis
) -> Steps[_Found | None]:
    """The Node that the Pod is nominated to, if it fits: room may have been made on it."""
    node = nodes.get(pod.nominated_node_name) if pod.nominated_node_name else None
    if node is None:
        return None
    found = yield from _one_by_one(framework, state, pod, [node], 0, 1, diagnosis)
    return found if len(found.places) else None


def _find(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: Snapshot,
    start: int,
    pre_filtered: PreFiltered,
    diagnosis: Diagnosis,
) -> Steps[_Found]:
    """Enough Nodes that fit, among those that PreFilter has left."""
    candidates: Sequence[NodeInfo] = nodes.nodes
    if pre_filtered.node_names is not None:
        candidates = [node for name in sorted(pre_filtered.node_names) if (node := nodes.get(name)) is not None]
        diagnosis.statuses.absent = unresolvable(
            f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(pre_filtered.plugins))}]"
        )
    wanted = nodes_to_find(len(candidates), framework.percentage_of_nodes_to_score)
    if not framework.plugins.score:
        wanted = min(wanted, 1)
    before = set(diagnosis.statuses.by_node)
    began = framework.clock()
    if pre_filtered.node_names is None:
        found = yield from _by_masks(framework, state, pod, nodes, start, wanted, diagnosis)
    else:
        found = yield from _one_by_one(framework, state, pod, candidates, start, wanted, diagnosis)
    code = Code.SUCCESS if found.failure is None else Code.ERROR
    framework.metrics.point(Point.FILTER, code, framework.clock() - began)
    is_all = pre_filtered.node_names is None and found.processed == len(candidates)
    if before and not is_all:
        before.difference_update(candidates[(start + i) % len(candidates)].name for i in range(found.processed))
        found = replace(found, processed=found.processed + len(before))
    return found


def _one_by_one(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    candidates: Sequence[NodeInfo],
    start: int,
    wanted: int,
    diagnosis: Diagnosis,
) -> Steps[_Found]:
    """Filter each Node by itself."""

    def check(place: int) -> _Checked:
        return framework.filter_with_nominated_pods(state, pod, candidates[place])

    passed, failure, at = yield from _walk(_from(start, len(candidates)), check, candidates, wanted, diagnosis)
    processed = len(candidates) if at is None else (at - start) % len(candidates)
    return _Found(candidates, np.array(passed, np.intp), processed, failure)


def _by_masks(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: Snapshot,
    start: int,
    wanted: int,
    diagnosis: Diagnosis,
) -> Steps[_Found]:
    """Let the plugins that can look at all Nodes at once do so, and ask the others about the Nodes that are left.

    Nodes of which the others know the answer already are not asked about.  Who rejected which Node is worked out only
    if none fits.  While some fit, an Error of a plugin goes unnoticed on a Node that another plugin's mask leaves out.
    """
    masks = framework.filter_nodes(state, pod, nodes)
    if isinstance(masks, Status):
        return _Found(nodes.nodes, _NOWHERE, 0, masks)
    if not masks:
        return (yield from _one_by_one(framework, state, pod, nodes.nodes, start, wanted, diagnosis))
    known = framework.filter_known(state, pod, nodes)
    nominated = framework.handle.nominator.nominated_nodes()
    others = _without(framework, state, masks)
    total = len(nodes)
    failure: Status | None = None
    at: int | None = None

    def check(place: int) -> _Checked:
        node = nodes.nodes[place]
        if node.name in nominated:
            return framework.filter_with_nominated_pods(state, pod, node)
        return framework.filter(state, pod, node, others)

    fits = reduce(np.logical_and, (*masks.values(), *(~each.rejected for each in known.values())))
    places = _places(fits, start, wanted + 1)
    sure = _sure(nodes, others, known, nominated) if len(places) and (others or nominated) else None
    if sure is not None and not sure[places[: wanted + 1]].all():
        doubtful = int(np.count_nonzero(fits & ~sure))
        places = _places(fits, start, wanted + 1 + doubtful)  # enough even if all of these are rejected
        places, failure, at = yield from _check_doubtful(places, sure, check, nodes.nodes, wanted, diagnosis)
    elif len(places) > wanted:
        places, at = places[:wanted], int(places[wanted])
    if not len(places) and failure is None and known:
        # Who is known to reject a Node has to say why, and devices may have been released since the cycle began.
        rejected = reduce(np.logical_or, (each.rejected for each in known.values()))
        again = _places(reduce(np.logical_and, (*masks.values(), rejected)), start)
        if (certain := _certain(framework, state, pod, nodes, others, nominated)) is not None:
            why, at_once = certain
            _reject_all(diagnosis, {nodes.nodes[place].name: why for place in again[at_once[again]].tolist()})
            again = again[~at_once[again]]
        passed, failure, at = yield from _walk(map(int, again), check, nodes.nodes, wanted, diagnosis)
        places = np.array(passed, np.intp)
    if not len(places) and failure is None:
        failure, at = yield from _explain(framework, state, pod, nodes, start, masks, diagnosis)
    return _Found(nodes.nodes, places, total if at is None else (at - start) % total, failure)


def _without(framework: Framework, state: CycleState, passed: Collection[str]) -> list[Filter]:
    """The plugins whose Filter is called, but for those that are known to let the Node pass."""
    return [each for each in framework.filters(state) if each.name not in passed]


def _sure(nodes: Snapshot, plugins: Iterable[Filter], known: Mapping[str, Known], nominated: Iterable[str]) -> Mask:
    """The Nodes that all of these plugins are known to let pass, and to which no Pods are nominated."""
    sure: Mask = np.ones(len(nodes), np.bool_)
    for each in plugins:
        sure &= each.name in known and known[each.name].fits
    _leave_out(sure, nodes, nominated)
    return sure


def _certain(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: Snapshot,
    plugins: Sequence[Filter],
    nominated: Iterable[str],
) -> tuple[Status, Mask] | None:
    """The Nodes that the first of these plugins is known to reject at this moment, and what it says of them."""
    known = framework.filter_known(state, pod, nodes).get(plugins[0].name) if plugins else None
    if known is None or known.why is None:
        return None
    rejected = known.rejected.copy()
    _leave_out(rejected, nodes, nominated)
    return known.why.of(plugins[0].name), rejected


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


def _walk(
    places: Iterable[int],
    check: Callable[[int], _Checked],
    candidates: Sequence[NodeInfo],
    wanted: int,
    diagnosis: Diagnosis,
) -> Steps[tuple[list[int], Status | None, int | None]]:
    """The places that pass, an Error, and where it ended early: at an Error, or where one more than wanted passes."""
    passed: list[int] = []
    for number, place in enumerate(places):
        status = yield from check(place)
        if number % PIECE == 0:
            yield
        if status is None:
            if len(passed) == wanted:
                return passed, None, place
            passed.append(place)
        elif status.is_rejected:
            _reject(diagnosis, candidates[place], status)
        else:
            return passed, status, place
    return passed, None, None


def _check_doubtful(
    places: Places,
    sure: Mask,
    check: Callable[[int], _Checked],
    candidates: Sequence[NodeInfo],
    wanted: int,
    diagnosis: Diagnosis,
) -> Steps[tuple[Places, Status | None, int | None]]:
    """As `_walk` answers, where only the places that are not `sure` to pass have to be checked."""
    rejected: list[int] = []
    for number, turn in enumerate((~sure[places]).nonzero()[0].tolist()):
        if turn - len(rejected) > wanted:
            break
        place = int(places[turn])
        status = yield from check(place)
        if number % PIECE == 0:
            yield
        if status is None:
            continue
        if not status.is_rejected:
            return np.delete(places[:turn], rejected), status, place
        _reject(diagnosis, candidates[place], status)
        rejected.append(turn)
    passed = np.delete(places, rejected) if rejected else places
    return passed[:wanted], None, int(passed[wanted]) if len(passed) > wanted else None


def _explain(
    framework: Framework,
    state: CycleState,
    pod: PodInfo,
    nodes: Snapshot,
    start: int,
    masks: Mapping[str, Mask],
    diagnosis: Diagnosis,
) -> Steps[tuple[Status | None, int | None]]:
    """Which plugin rejects which Node, where none fits; an Error, and the place of its Node."""
    kept = framework.rejections(state, pod, nodes)
    said, told = diagnosis.statuses.by_node, kept.told(framework.handle.nominator.node_of(pod.uid))
    told.update(said)
    if len(told) == len(nodes) and len(said) <= 1:  # that of the Node to which it is nominated itself
        counts = kept.counts(said)
        diagnosis.statuses = NodeStatuses(told, diagnosis.statuses.absent, counts)
        for each in counts:
            diagnosis.add_plugin(each)
        return None, None
    _reject_all(diagnosis, told)
    if len(diagnosis.statuses) == len(nodes):
        return None, None
    reasons = framework.filter_reasons(state, pod, nodes, masks, [told.get(node.name) for node in nodes])
    if isinstance(reasons, Status):
        return reasons, None
    named = ((node.name, reason) for node, reason in zip(nodes, reasons, strict=True) if reason is not None)
    _reject_all(diagnosis, {name: reason for name, reason in named if name not in kept.nominated})
    same: dict[Status, Status] = {}
    left = [place for place in _from(start, len(nodes)) if nodes.nodes[place].name not in diagnosis.statuses.by_node]
    for number, place in enumerate(left):
        node = nodes.nodes[place]
        nominated = framework.nominated_pods(pod, node.name)
        if nominated:
            status = yield from framework.filter_with_nominated_pods(state, pod, node)
        else:
            passed = [plugin for plugin, mask in masks.items() if mask[place]]
            status = yield from framework.filter(state, pod, node, _without(framework, state, passed))
        if number % PIECE == 0:
            yield
        if status is None:
            return failed(f'filter_nodes of a plugin leaves out node "{node.name}", its filter does not'), place
        if not status.is_rejected:
            return status, place
        status = same.setdefault(status, status)
        _reject(diagnosis, node, status)
        if kept.keeps(node.name, nominated):
            kept.put(node.name, status)
    return None, None


def _reject(diagnosis: Diagnosis, node: NodeInfo, status: Status) -> None:
    diagnosis.statuses.by_node[node.name] = status
    diagnosis.add_plugin(status)


def _reject_all(diagnosis: Diagnosis, told: Mapping[str, Status]) -> None:
    """The same of many Nodes, by name, most of which have the same Status; what was said before stands."""
    diagnosis.statuses.by_node = {**told, **diagnosis.statuses.by_node}
    for status in by_identity(told.values()).values():
        diagnosis.add_plugin(status)


def _best(
    framework: Framework, state: CycleState, pod: PodInfo, nodes: Snapshot, found: _Found, rng: Random | None
) -> Steps[Scheduled | Status]:
    """The Node with the highest score, or the first without any Score plugin."""
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
