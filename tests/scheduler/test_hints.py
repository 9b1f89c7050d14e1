"""Random events for Pods that wait: no queueing hint differs from kube-scheduler's.

TOLLBAR_SCHEDULER_HINTS sets the number of clusters, TOLLBAR_SCHEDULER_SEED the number of the first one.
"""

import json
import os
from collections import Counter

import pytest
from scheduler.hinting import Case, Said, case, ours, theirs

from tollbar.devplane.real.oracle import Oracle

COUNT = int(os.environ.get("TOLLBAR_SCHEDULER_HINTS", "200"))
SEED = int(os.environ.get("TOLLBAR_SCHEDULER_SEED", "0"))
SHOWN = 3


@pytest.mark.timeout(180 + COUNT // 5)
def test_every_hint_is_that_of_kube_scheduler(oracle: Oracle) -> None:
    cases = [found for number in range(SEED, SEED + COUNT) if (found := case(number)) is not None]
    different = {
        text: text
        for each, answer in zip(cases, theirs(oracle, cases), strict=True)
        for text in _differences(each, answer)
    }
    if different:
        shown = "\n".join(sorted(different, key=len)[:SHOWN])
        pytest.fail(f"{len(different)} hints differ, of which the smallest:\n{shown}", pytrace=False)


def test_every_hint_is_asked_and_says_both() -> None:
    said = Counter(
        each for number in range(60) if (found := case(number)) is not None for one in ours(found) for each in one
    )
    rare = {each for each in said if said[each] < 5}
    always = {plugin for plugin, _ in said if {(plugin, "Queue"), (plugin, "QueueSkip")} - said.keys()}
    assert (rare, always) == (set(), {"DefaultPreemption", "NodeName", "SchedulingGates"})


def _differences(case: Case, theirs: list[list[Said]]) -> list[str]:
    return [
        f"{happening.resource.name} {happening.action.name}: ours {mine}, theirs {answer}\n    "
        + json.dumps([case.pod, happening.old, happening.new])
        for happening, mine, answer in zip(case.happenings, ours(case), theirs, strict=True)
        if mine != answer
    ]
