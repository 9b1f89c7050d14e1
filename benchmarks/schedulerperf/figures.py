"""What upstream computes from a run: throughput samples, and latencies from histograms.

Pure.  Source: throughputCollector and metricsCollector of scheduler_perf/util.go.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

INTERVAL: Final = 1.0
"""Seconds between two samples."""


def throughput(begin: float, end: float, times: Sequence[float]) -> list[float]:
    """Pods per second in each second of a phase, from the times (sorted, in seconds) at which Pods were scheduled.

    The first second with a Pod in it is left out, since it is not a whole one.  A second without any is counted
    together with those that follow, up to the next one with a Pod: each of them has their common rate.
    """
    samples: list[float] = []
    counted = counted_at = 0.0
    skipped = 0
    started = False
    for tick in range(1, int((end - begin) / INTERVAL) + 1):
        now = begin + tick * INTERVAL
        scheduled = bisect_right(times, now)
        if not scheduled:
            continue
        if not started:
            started, counted, counted_at = True, scheduled, now
        elif scheduled == counted:
            skipped += 1
        else:
            rate = (scheduled - counted) / (now - counted_at)
            samples += [rate] * (skipped + 1)
            skipped, counted, counted_at = 0, scheduled, now
    return samples


@dataclass(frozen=True, slots=True)
class Histogram:
    """Counts of observations by their upper bound, each with those of the smaller bounds, and the sum of all."""

    buckets: Mapping[float, float]
    sum: float

    @property
    def count(self) -> float:
        return self.buckets.get(math.inf, 0.0)

    @property
    def mean(self) -> float:
        return self.sum / self.count if self.count else math.nan

    def quantile(self, share: float) -> float:
        """Interpolated within its bucket, as Prometheus does; the last finite bound for what is above it."""
        if not self.count:
            return math.nan
        rank = share * self.count
        below, lower = 0.0, 0.0
        for bound in sorted(self.buckets):
            count = self.buckets[bound]
            if count >= rank:
                if math.isinf(bound):
                    return lower
                return lower + (bound - lower) * ((rank - below) / (count - below) if count > below else 1.0)
            below, lower = count, bound
        return lower


def histogram(text: str, name: str) -> Histogram:
    """A histogram of the Prometheus text format, its label sets added up; empty if there is none of that name."""
    buckets: dict[float, float] = {}
    total = 0.0
    for family in text_string_to_metric_families(text):
        if family.name != name:
            continue
        for sample in family.samples:
            if sample.name == f"{name}_bucket":
                bound = float(sample.labels["le"])
                buckets[bound] = buckets.get(bound, 0.0) + sample.value
            elif sample.name == f"{name}_sum":
                total += sample.value
    return Histogram(buckets, total)


@dataclass(frozen=True, slots=True)
class Series:
    """Readings of something that only grows, at rising times (seconds)."""

    times: Sequence[float]
    values: Sequence[float]

    def at(self, moment: float) -> float:
        """The value at a moment, interpolated; outside of the readings, the nearest one."""
        index = bisect_left(self.times, moment)
        if index == 0:
            return self.values[0]
        if index == len(self.times):
            return self.values[-1]
        before, after = self.times[index - 1], self.times[index]
        share = (moment - before) / (after - before)
        return self.values[index - 1] + share * (self.values[index] - self.values[index - 1])

    def between(self, begin: float, end: float) -> float:
        return self.at(end) - self.at(begin)
