"""What Filter for all Nodes at once makes of the answers of its plugins."""

from typing import Any

import pytest
from plugins.toys import BOOM, POD, MaskToy, answer, done, error, framework, snapshot, without_cause

from tollbar.scheduler.algorithm import schedule_pod
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.status import Status, failed, unschedulable

NODES = snapshot("a", "b", "c")


class WrongMask(MaskToy):
    def __init__(self, name: str, mask: Any) -> None:
        super().__init__(name)
        self.mask = mask

    def filter_nodes(self, state: Any, pod: Any, nodes: Any) -> Any:
        return answer(self.mask)


@pytest.mark.parametrize(
    ("mask", "problem"),
    [
        ([True], "it returned list where a mask of the Nodes is expected"),
        (BOOM, "ValueError: boom"),
    ],
)
def test_a_mask_that_is_none_is_an_error_of_its_plugin(mask: Any, problem: str) -> None:
    found = framework(WrongMask("m", mask)).filter_nodes(CycleState(), POD, NODES)

    assert isinstance(found, Status)
    assert without_cause(found) == error(f'running "m" filter plugin: {problem}', "m")


class WrongReasons(MaskToy):
    def __init__(self, reasons: Any) -> None:
        super().__init__("m", {each.name: unschedulable("full") for each in NODES})
        self.reasons = reasons

    def filter_reasons(self, state: Any, pod: Any, nodes: Any) -> Any:
        return answer(self.reasons)


@pytest.mark.parametrize(
    ("reasons", "problem"),
    [
        ([], "it returned list where a list with an answer for each Node is expected"),
        (["full"] * 3, "it returned str where a Status or None is expected"),
        ([failed("broken")] * 3, "broken"),
        (BOOM, "ValueError: boom"),
    ],
)
def test_reasons_that_are_none_are_an_error_of_their_plugin(reasons: Any, problem: str) -> None:
    found = done(schedule_pod(framework(WrongReasons(reasons)), CycleState(), POD, NODES, 0)).result

    assert without_cause(found) == error(f'running "m" filter plugin: {problem}', "m")
