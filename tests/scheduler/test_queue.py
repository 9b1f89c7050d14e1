"""Random traces for the scheduling queue and for kube-scheduler's own: after every step each Pod is in the same place.

TOLLBAR_QUEUE_TRACES sets the number of traces, TOLLBAR_QUEUE_SEED the number of the first one.
"""

import os
from collections import Counter

import pytest
from scheduler.playing import difference, ours, theirs
from scheduler.traces import Trace, trace

from tollbar.devplane.real.oracle import Oracle

COUNT = int(os.environ.get("TOLLBAR_QUEUE_TRACES", "400"))
SEED = int(os.environ.get("TOLLBAR_QUEUE_SEED", "0"))
BATCH = 500
SHOWN = 3
PLACES = ("active", "backoff", "errorBackoff", "unschedulable", "gated", "inFlight")


@pytest.mark.timeout(180 + COUNT // 5)
def test_every_pod_is_where_kube_scheduler_has_it(oracle: Oracle, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="tollbar.scheduler.queue")
    found: list[Trace] = []
    for start in range(SEED, SEED + COUNT, BATCH):
        batch = [trace(seed) for seed in range(start, min(start + BATCH, SEED + COUNT))]
        found += [each for each, states in zip(batch, theirs(oracle, batch), strict=True) if difference(each, states)]
    if found:
        shown = [difference(each, theirs(oracle, [each])[0]) for each in found[:SHOWN]]
        pytest.fail(f"{len(found)} of {COUNT} traces differ, of which the first:\n" + "\n".join(shown), pytrace=False)


def test_a_seed_gives_the_same_trace_every_time() -> None:
    assert [trace(seed).request for seed in range(20)] == [trace(seed).request for seed in range(20)]


def test_every_operation_moves_pods_and_every_place_has_several(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="tollbar.scheduler.queue")
    moves: Counter[str] = Counter()
    crowded: Counter[str] = Counter()
    for each in map(trace, range(60)):
        before = None
        for step, state in zip(each.request["steps"], ours(each), strict=True):
            moves[step["op"]] += state != before
            crowded.update(place for place in PLACES if len(state[place]) > 1)
            before = state
    operations = {step["op"] for each in map(trace, range(60)) for step in each.request["steps"]}
    rare = {key: count for key, count in (moves | crowded).items() if count < 10}
    assert (rare, operations - moves.keys(), set(PLACES) - crowded.keys()) == ({}, set(), set())
