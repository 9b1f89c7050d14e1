"""NodeResourcesBalancedAllocation: Nodes score higher if the Pod makes the use of their resources more even."""

from collections.abc import Iterable, Sequence
from math import sqrt
from typing import Any

import numpy as np

from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.table import Bools, Floats, Ints
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import MAX_SCORE, Arguments, DependsOn, Places, Scores
from tollbar.scheduler.framework.status import SKIP, Status
from tollbar.scheduler.plugins.resource_shares import ResourceShares


class NodeResourcesBalancedAllocation:
    """`resources` are those that should be even; their weights do not matter."""

    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        given: Any = args
        self._shares = ResourceShares(given["resources"], handle.dra, non_zero=False)

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        return self._shares.depends_on(pod)

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        """Skip for a Pod that requests none of them: it would always go to the same Nodes."""
        return None if any(pod.requests.resources.get(each.name) for each in self._shares.resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """About 75 if the Pod changes little, towards 100 if it makes the Node more even, towards 50 if less."""
        found = list(self._shares.of_node(pod.requests.resources, node))
        after = evenness([_part(share.requested, share.allocatable) for share in found])
        before = evenness([_part(share.allocated, share.allocatable) for share in found])
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        table = nodes.table
        found = list(self._shares.of_rows(pod.requests.resources, table, table.order[places]))
        after = evennesses([(_parts(each.requested, each.allocatable), each.present) for each in found], len(places))
        before = evennesses([(_parts(each.allocated, each.allocatable), each.present) for each in found], len(places))
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + after - before) // 2


def evenness(fractions: Sequence[float]) -> int:
    """100 less the standard deviation in percent, from 50 to 100."""
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs((fractions[0] - fractions[1]) / 2)
    elif len(fractions) > 2:
        mean = _sum(fractions) / len(fractions)
        deviation = sqrt(_sum((each - mean) * (each - mean) for each in fractions) / len(fractions))
    return int((1 - deviation) * MAX_SCORE)


def evennesses(fractions: Sequence[tuple[Floats, Bools]], count: int) -> Ints:
    """The same of several Nodes, of those fractions that they have."""
    if len(fractions) == 2:
        (one, has_one), (other, has_other) = fractions
        deviation = np.where(has_one & has_other, np.abs((one - other) / 2), 0.0)
    else:
        deviation = _deviations(fractions, count)
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)


def _deviations(fractions: Sequence[tuple[Floats, Bools]], count: int) -> Floats:
    number, total = np.zeros(count, np.int64), np.zeros(count)
    first, last = np.zeros(count), np.zeros(count)
    for values, present in fractions:
        first = np.where(present & (number == 0), values, first)
        last = np.where(present, values, last)
        total += np.where(present, values, 0.0)
        number += present
    divisor = np.maximum(number, 1)
    mean, squares = total / divisor, np.zeros(count)
    for values, present in fractions:
        squares += np.where(present, (values - mean) * (values - mean), 0.0)
    of_two = np.where(number == 2, np.abs((first - last) / 2), 0.0)
    return np.where(number > 2, np.sqrt(squares / divisor), of_two)


def _part(taken: int, whole: int) -> float:
    return min(float(taken) / float(whole), 1.0)


def _parts(taken: Ints, whole: Ints) -> Floats:
    return np.minimum(taken.astype(np.float64) / whole.astype(np.float64), 1.0)


def _sum(values: Iterable[float]) -> float:
    """From left to right, as Go does: the built-in `sum` of some Python versions is more exact."""
    total = 0.0
    for value in values:
        total += value
    return total
