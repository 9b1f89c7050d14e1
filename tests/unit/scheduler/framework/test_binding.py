"""What the points from Reserve to PostBind make of the answers of their plugins."""

from typing import Any

import pytest
from plugins.toys import BOOM, PENDING, POD, Named, answer, error, framework, without_cause

from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.interface import PreFlight, Wait
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import SKIP, Status, failed, unschedulable
from tollbar.scheduler.framework.waiting import Waits


class Point(Named):
    """Notes what it is called for, and answers as it is told."""

    def __init__(self, name: str, called: list[str], **given: Any) -> None:
        super().__init__(name)
        self.called = called
        self.given = given

    def _answer(self, point: str) -> Any:
        self.called.append(f"{point} {self.name}")
        return answer(self.given.get(point))

    def reserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("reserve")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("unreserve")

    def permit(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("permit")

    def pre_bind_pre_flight(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("flight")

    async def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("prebind")

    async def bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("bind")

    async def post_bind(self, state: Any, pod: Any, node_name: str) -> Any:
        return self._answer("postbind")


def points(point: str, given: list[Any]) -> tuple[Framework, list[str]]:
    called: list[str] = []
    plugins = [Point(f"p{index}", called, **{point: each}) for index, each in enumerate(given)]
    return framework(*plugins), called


REJECTIONS: dict[str, tuple[list[Any], Status | None, int]] = {
    "success of all": ([None, None], None, 2),
    "a rejection ends it": ([PENDING, None], PENDING.with_plugin("p0"), 1),
    "an Error ends it": ([None, failed("broken"), None], error('running {point} plugin "p1": broken'), 2),
    "it raises": ([BOOM], error('running {point} plugin "p0": ValueError: boom'), 1),
    "it returns nonsense": (
        [3],
        error('running {point} plugin "p0": it returned int where a Status or None is expected'),
        1,
    ),
}


def named(expected: Status | None, point: str, plugin: str = "") -> Status | None:
    if expected is None or expected.is_rejected:
        return expected
    return error(expected.message.format(point=point), plugin)


@pytest.mark.parametrize(("given", "expected", "asked"), REJECTIONS.values(), ids=REJECTIONS)
def test_reserve(given: list[Any], expected: Status | None, asked: int) -> None:
    own, called = points("reserve", given)

    found = own.reserve(CycleState(), POD, "a")

    assert (without_cause(found), len(called)) == (named(expected, "Reserve"), asked)


def test_unreserve_calls_all_plugins_in_reverse_order_whatever_becomes_of_them() -> None:
    own, called = points("unreserve", [None, BOOM, None])

    failures = own.unreserve(CycleState(), POD, "a")

    assert ([each.message for each in failures], called) == (
        ['running Unreserve plugin "p1": ValueError: boom'],
        ["unreserve p2", "unreserve p1", "unreserve p0"],
    )


@pytest.mark.parametrize(("given", "expected", "asked"), REJECTIONS.values(), ids=REJECTIONS)
def test_permit(given: list[Any], expected: Status | None, asked: int) -> None:
    own, called = points("permit", given)

    found = own.permit(CycleState(), POD, "a")

    assert not isinstance(found, Waits)
    failing = f"p{asked - 1}"
    assert (without_cause(found), len(called)) == (named(expected, "Permit", failing), asked)


def test_permit_that_waits_does_so_for_a_quarter_of_an_hour_at_most() -> None:
    own, _ = points("permit", [Wait(10), None, Wait(3600)])

    assert own.permit(CycleState(), POD, "a") == Waits({"p0": 10, "p2": 900})


def test_permit_that_waits_for_nonsense_is_an_error() -> None:
    own, _ = points("permit", [Wait("10s")])  # type: ignore[arg-type]

    assert own.permit(CycleState(), POD, "a") == error(
        'running Permit plugin "p0": it returned Wait where a Status or None is expected', "p0"
    )


def test_permit_that_waits_is_overruled_by_a_later_rejection() -> None:
    own, _ = points("permit", [Wait(10), unschedulable("no")])

    assert own.permit(CycleState(), POD, "a") == unschedulable("no").with_plugin("p1")


FLIGHTS: dict[str, tuple[list[Any], Status | None, list[list[str]]]] = {
    "all have work, one after the other": ([None, PreFlight()], None, [["p0"], ["p1"]]),
    "nobody has work": ([SKIP, SKIP], SKIP, []),
    "no plugin": ([], SKIP, []),
    "those who skip are left out": ([SKIP, None], None, [["p1"]]),
    "neighbours that allow it run together": (
        [PreFlight(allow_parallel=True), PreFlight(allow_parallel=True), None, PreFlight(allow_parallel=True)],
        None,
        [["p0", "p1"], ["p2"], ["p3"]],
    ),
    "one that does not, and has no work, still stands between": (
        [PreFlight(allow_parallel=True), SKIP, PreFlight(allow_parallel=True)],
        None,
        [["p0"], ["p2"]],
    ),
    "an Error": ([failed("broken")], error('running PreBindPreFlight "p0": broken'), []),
    "a rejection is not allowed": (
        [unschedulable("no")],
        error(
            'PreBindPreFlight p0 returned "Unschedulable", which is unsupported. It is supposed to return Success,'
            " Skip, or Error status"
        ),
        [],
    ),
}


@pytest.mark.parametrize(("given", "expected", "groups"), FLIGHTS.values(), ids=FLIGHTS)
def test_pre_bind_pre_flight(given: list[Any], expected: Status | None, groups: list[list[str]]) -> None:
    (own, _), state = points("flight", given), CycleState()

    found = own.pre_bind_pre_flight(state, POD, "a")

    planned = [] if expected else [[each.name for each in group] for group in own._pre_bind_groups(state)]
    assert (found, planned) == (expected, groups)


@pytest.mark.parametrize(("given", "expected", "asked"), REJECTIONS.values(), ids=REJECTIONS)
async def test_pre_bind(given: list[Any], expected: Status | None, asked: int) -> None:
    own, called = points("prebind", given)

    found = await own.pre_bind(CycleState(), POD, "a")

    assert (without_cause(found), len(called), own.in_binding.pre_binding) == (named(expected, "PreBind"), asked, {})


BINDS: dict[str, tuple[list[Any], Status | None, int]] = {
    "the first that does not skip binds": ([SKIP, None, None], None, 2),
    "all skip": ([SKIP, SKIP], SKIP, 2),
    "no plugin": ([], SKIP, 0),
    "a rejection ends it": ([unschedulable("no"), None], unschedulable("no").with_plugin("p0"), 1),
    "an Error ends it": ([failed("broken"), None], error('running Bind plugin "p0": broken'), 1),
    "it raises": ([BOOM], error('running Bind plugin "p0": ValueError: boom'), 1),
}


@pytest.mark.parametrize(("given", "expected", "asked"), BINDS.values(), ids=BINDS)
async def test_bind(given: list[Any], expected: Status | None, asked: int) -> None:
    own, called = points("bind", given)

    assert (without_cause(await own.bind(CycleState(), POD, "a")), len(called)) == (expected, asked)


async def test_post_bind_tells_all_plugins() -> None:
    own, called = points("postbind", [BOOM, None])

    failures = await own.post_bind(CycleState(), POD, "a")

    assert ([each.message for each in failures], called) == (
        ['running PostBind plugin "p0": ValueError: boom'],
        ["postbind p0", "postbind p1"],
    )
