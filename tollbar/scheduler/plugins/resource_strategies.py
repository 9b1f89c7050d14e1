"""The scoring strategies of NodeResourcesFit: from the shares of its resources to the score of a Node.

Each has two forms that agree: `score` for one Node, `scores` for several.

Source: least_allocated.go, most_allocated.go and requested_to_capacity_ratio.go in
pkg/scheduler/framework/plugins/noderesources.
"""

from collections.abc import Iterable, Sequence
from math import floor
from typing import Any, Protocol

import numpy as np

from tollbar.scheduler.cache.table import Ints
from tollbar.scheduler.config.arguments import MAX_CUSTOM_SCORE
from tollbar.scheduler.framework.interface import MAX_SCORE
from tollbar.scheduler.plugins.resource_shares import Share, Shares


class Strategy(Protocol):
    def score(self, shares: Iterable[Share]) -> int: ...

    def scores(self, shares: Iterable[Shares], count: int) -> Ints:
        """`count` is the number of Nodes."""
        ...


def strategy(given: Any) -> Strategy:
    """From a ScoringStrategy of the configuration."""
    match given["type"]:
        case "LeastAllocated":
            return LeastAllocated()
        case "MostAllocated":
            return MostAllocated()
    return RequestedToCapacityRatio(
        [(each["utilization"], each["score"]) for each in given["requestedToCapacityRatio"]["shape"]]
    )


class LeastAllocated:
    """The mean of what stays free, in percent."""

    def score(self, shares: Iterable[Share]) -> int:
        return _mean(
            (max(each.allocatable - each.requested, 0) * MAX_SCORE // each.allocatable, each.weight) for each in shares
        )

    def scores(self, shares: Iterable[Shares], count: int) -> Ints:
        total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for each in shares:
            free = np.maximum(each.allocatable - each.requested, 0) * MAX_SCORE // each.allocatable
            total += np.where(each.present, free * each.weight, 0)
            weights += each.present * each.weight
        return total // np.maximum(weights, 1)


class MostAllocated:
    """The mean of what is taken, in percent."""

    def score(self, shares: Iterable[Share]) -> int:
        return _mean((utilization(each), each.weight) for each in shares)

    def scores(self, shares: Iterable[Shares], count: int) -> Ints:
        total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for each in shares:
            total += np.where(each.present, utilizations(each) * each.weight, 0)
            weights += each.present * each.weight
        return total // np.maximum(weights, 1)


class RequestedToCapacityRatio:
    """The mean of what a shape gives for the percentage that is taken; resources that it gives nothing do not count.

    `shape` has (percentage, score up to 10), in ascending order.
    """

    def __init__(self, shape: Sequence[tuple[int, int]]) -> None:
        points = [(percentage, score * MAX_SCORE // MAX_CUSTOM_SCORE) for percentage, score in shape]
        self._by_percentage = [interpolate(points, percentage) for percentage in range(101)]
        self._column: Ints = np.array(self._by_percentage, np.int64)

    def score(self, shares: Iterable[Share]) -> int:
        total = weights = 0
        for each in shares:
            score = self._by_percentage[utilization(each)]
            if score > 0:
                total += score * each.weight
                weights += each.weight
        return floor(total / weights + 0.5) if weights else 0

    def scores(self, shares: Iterable[Shares], count: int) -> Ints:
        total, weights = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for each in shares:
            score = np.where(each.present, self._column[utilizations(each)], 0)
            total += score * each.weight
            weights += (score > 0) * each.weight
        return np.floor(total / np.maximum(weights, 1) + 0.5).astype(np.int64)


def interpolate(points: Sequence[tuple[int, int]], percentage: int) -> int:
    """The value at a percentage of straight lines through (percentage, value), cut off towards zero.

    Source: BuildBrokenLinearFunction in pkg/scheduler/framework/plugins/helper.
    """
    for place, (right, high) in enumerate(points):
        if percentage <= right:
            if place == 0:
                return high
            left, low = points[place - 1]
            rise = (high - low) * (percentage - left)
            return low + (abs(rise) // (right - left)) * (1 if rise >= 0 else -1)
    return points[-1][1]


def utilization(share: Share) -> int:
    """How much of the resource is taken, in percent: Pods without requests can add up to more than there is."""
    return min(share.requested, share.allocatable) * MAX_SCORE // share.allocatable


def utilizations(shares: Shares) -> Ints:
    """The same of several Nodes; 0 to 100 also for those that have nothing of the resource."""
    return np.minimum(shares.requested, shares.allocatable) * MAX_SCORE // shares.allocatable


def _mean(scores: Iterable[tuple[int, int]]) -> int:
    """Of (score, weight)."""
    total = weights = 0
    for score, weight in scores:
        total += score * weight
        weights += weight
    return total // weights if weights else 0
