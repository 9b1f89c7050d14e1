"""A profile at work: what each extension point makes of the answers of its plugins."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from toyplugins import (
    POD,
    FilterToy,
    MaskToy,
    Named,
    PreFilterToy,
    ScoreNodesToy,
    ScoreToy,
    SlowFilterToy,
    answer,
    done,
    framework,
    handle,
    pod_info,
    snapshot,
)

from tollbar.scheduler.algorithm import schedule_pod
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.interface import Nominate, PreFilterResult, PreFlight, Scores, Wait
from tollbar.scheduler.framework.runtime import Framework, NodeScores, PreFiltered
from tollbar.scheduler.framework.status import SKIP, Code, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.framework.waiting import Waits

BOOM = ValueError("boom")
PENDING = Status(Code.PENDING, ("wait for it",))
NODES = snapshot("a", "b", "c")


def error(reason: str, plugin: str = "") -> Status:
    return Status(Code.ERROR, (reason,), plugin)


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


def without_cause(status: Status | None) -> Status | None:
    """The same, without the exception that it came from."""
    return None if status is None else Status(status.code, status.reasons, status.plugin)


PRE_FILTERS: dict[str, tuple[list[Any], PreFiltered, set[str]]] = {
    "success of all": ([None, None], PreFiltered(), set()),
    "Skip is remembered": ([SKIP, None, SKIP], PreFiltered(), {"p0", "p2"}),
    "node sets are intersected": (
        [only("a", "b"), None, only("b", "c")],
        PreFiltered(None, frozenset({"b"}), frozenset({"p0", "p2"})),
        set(),
    ),
    "two sets without a common Node": (
        [only("a"), only("b"), failed("not asked")],
        PreFiltered(
            unresolvable("node(s) didn't satisfy plugin(s) [p0 p1] simultaneously"),
            frozenset(),
            frozenset({"p0", "p1"}),
        ),
        set(),
    ),
    "one empty set": (
        [SKIP, only()],
        PreFiltered(unresolvable("node(s) didn't satisfy plugin p1"), frozenset(), frozenset({"p1"})),
        {"p0"},
    ),
    "after Unschedulable the others still run": (
        [unschedulable("no"), only("a"), SKIP],
        PreFiltered(unschedulable("no").of("p0"), frozenset({"a"}), frozenset({"p1"})),
        {"p2"},
    ),
    "of two Unschedulable the last counts": (
        [unschedulable("no"), unschedulable("never")],
        PreFiltered(unschedulable("never").of("p1")),
        set(),
    ),
    "UnschedulableAndUnresolvable ends it": (
        [unschedulable("no"), unresolvable("never"), failed("not asked")],
        PreFiltered(unresolvable("never").of("p1")),
        set(),
    ),
    "an Error ends it": (
        [failed("broken")],
        PreFiltered(error('running PreFilter plugin "p0": broken', "p0")),
        set(),
    ),
    "Pending is no answer of PreFilter": (
        [PENDING],
        PreFiltered(error('running PreFilter plugin "p0": wait for it', "p0")),
        set(),
    ),
    "a plugin that raises": (
        [BOOM],
        PreFiltered(error('running PreFilter plugin "p0": ValueError: boom', "p0")),
        set(),
    ),
    "a list of Nodes is no set": (
        [PreFilterResult(["a"])],  # type: ignore[arg-type]
        PreFiltered(
            error('running PreFilter plugin "p0": it returned PreFilterResult where a Status or None is expected', "p0")
        ),
        set(),
    ),
    "a plugin that returns nonsense": (
        [{"a"}],
        PreFiltered(error('running PreFilter plugin "p0": it returned set where a Status or None is expected', "p0")),
        set(),
    ),
}


@pytest.mark.parametrize(("given", "expected", "skipped"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_pre_filter(given: list[Any], expected: PreFiltered, skipped: set[str]) -> None:
    state = CycleState()
    own = framework(*(PreFilterToy(f"p{index}", each) for index, each in enumerate(given)))

    found = done(own.pre_filter(state, POD, NODES))

    assert (without_cause(found.status), found.node_names, found.plugins, state.skip_filter) == (
        expected.status,
        expected.node_names,
        expected.plugins,
        skipped,
    )


FILTERS: dict[str, tuple[Any, Status | None]] = {
    "success": (None, None),
    "success, said aloud": (Status(Code.SUCCESS), None),
    "Unschedulable": (unschedulable("no"), unschedulable("no").of("f")),
    "Pending": (PENDING, PENDING.of("f")),
    "an Error": (failed("broken"), error('running "f" filter plugin: broken', "f")),
    "Skip is no answer of Filter": (SKIP, error('running "f" filter plugin: unexpected status Skip', "f")),
    "it raises": (BOOM, error('running "f" filter plugin: ValueError: boom', "f")),
    "a Status without a code": (
        Status("Unschedulable", ("no",)),  # type: ignore[arg-type]
        error('running "f" filter plugin: it returned str where the code of a Status is expected', "f"),
    ),
    "a Status whose reasons are one text": (
        Status(Code.UNSCHEDULABLE, "no"),  # type: ignore[arg-type]
        error(
            'running "f" filter plugin: it returned str where a tuple of texts as the reasons of a Status is expected',
            "f",
        ),
    ),
    "it returns nonsense": (
        False,
        error('running "f" filter plugin: it returned bool where a Status or None is expected', "f"),
    ),
}


@pytest.mark.parametrize("kind", [FilterToy, SlowFilterToy])
@pytest.mark.parametrize(("given", "expected"), FILTERS.values(), ids=FILTERS)
def test_filter(kind: type[FilterToy], given: Any, expected: Status | None) -> None:
    own = framework(FilterToy("first"), kind("f", {"a": given}), FilterToy("last", {"b": failed("not asked")}))

    assert without_cause(done(own.filter(CycleState(), POD, NODES.nodes[0]))) == expected


def test_filter_does_not_ask_plugins_that_are_skipped_and_no_others_than_it_is_told() -> None:
    state = CycleState()
    state.skip_filter = frozenset({"skipped"})
    no = {"a": unschedulable("no")}
    own = framework(FilterToy("skipped", no), FilterToy("asked", no), last := FilterToy("last", no))

    found = [done(own.filter(state, POD, NODES.nodes[0], *plugins)) for plugins in ((), ([last],))]

    assert found == [unschedulable("no").of(name) for name in ("asked", "last")]


def test_calls_of_filter_are_counted_together() -> None:
    found = Measured()
    own = framework(FilterToy("asked"), FilterToy("rejecting", {"a": unschedulable("no")}), metrics=found)
    for node in NODES:
        done(own.filter(CycleState(), POD, node))
    before = list(found.noted)
    for _ in range(2):
        own.filtered()

    assert (before, found.noted) == ([], ["Filter of asked 3 times", "Filter of rejecting 3 times"])


class Crowd(Named):
    """Rejects a Node with this many Pods or more, by what PreFilter counted; wants one at least if `needs_company`."""

    def __init__(self, name: str, limit: int, *, needs_company: bool = False) -> None:
        super().__init__(name)
        self.limit = limit
        self.needs_company = needs_company

    def pre_filter(self, state: CycleState, pod: Any, nodes: Any) -> None:
        state.write(self.name, Count())

    def add_pod(self, state: CycleState, pod: Any, added: Any, node: Any) -> Status | None:
        state.get(self.name, Count).pods += 1
        return failed("too many") if added.key.name == "wrong" else None

    def remove_pod(self, state: CycleState, pod: Any, removed: Any, node: Any) -> Status | None:
        state.get(self.name, Count).pods -= 1
        return unschedulable("no") if removed.key.name == "wrong" else None

    def filter(self, state: CycleState, pod: Any, node: Any) -> Status | None:
        count = state.get(self.name, Count).pods
        if count != len(node.pods):
            return failed("the Node and the state differ")
        if count >= self.limit:
            return unschedulable(f"{count} are there")
        return unschedulable("lonely") if self.needs_company and not count else None


class Count:
    def __init__(self, pods: int = 0) -> None:
        self.pods = pods

    def clone(self) -> "Count":
        return Count(self.pods)


NOMINATED: dict[str, tuple[Crowd, list[Any], Status | None]] = {
    "nobody is nominated": (Crowd("c", 1), [], None),
    "a Pod of equal priority counts as if it were there": (
        Crowd("c", 1),
        [pod_info("other", priority=5)],
        unschedulable("1 are there").of("c"),
    ),
    "one of lower priority does not count": (Crowd("c", 1), [pod_info("other", priority=4)], None),
    "the Pod itself does not count": (Crowd("c", 1), [pod_info(priority=5)], None),
    "nor may the Node need it": (
        Crowd("c", 2, needs_company=True),
        [pod_info("other", priority=9)],
        unschedulable("lonely").of("c"),
    ),
    "an Error of AddPod": (
        Crowd("c", 9),
        [pod_info("wrong", priority=9)],
        error('running AddPod on PreFilter plugin "c": too many'),
    ),
}


@pytest.mark.parametrize(("plugin", "nominated", "expected"), NOMINATED.values(), ids=NOMINATED)
def test_filter_with_nominated_pods(plugin: Crowd, nominated: list[Any], expected: Status | None) -> None:
    own, state, pod = framework(plugin, nominated={"a": nominated}), CycleState(), pod_info(priority=5)
    done(own.pre_filter(state, pod, NODES))

    found = done(own.filter_with_nominated_pods(state, pod, NODES.nodes[0]))

    assert (without_cause(found), state.get("c", Count).pods, len(NODES.nodes[0].pods)) == (expected, 0, 0)


def test_remove_pod_says_which_plugin_failed() -> None:
    own, state = framework(Crowd("c", 1)), CycleState()
    done(own.pre_filter(state, POD, NODES))

    assert own.remove_pod(state, POD, pod_info("wrong"), NODES.nodes[0]) == error(
        'running RemovePod on PreFilter plugin "c": no'
    )


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


class PostFilterToy(PreFilterToy):
    def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
        return answer(self.given)


class SlowPostFilterToy(PostFilterToy):
    def post_filter(self, state: Any, pod: Any, statuses: Any) -> Any:
        yield
        return answer(self.given)


POST_FILTERS: dict[str, tuple[list[Any], tuple[Nominate | None, Status]]] = {
    "success ends it": (
        [(None, unschedulable("no")), (Nominate("a"), None), (None, failed("not asked"))],
        (Nominate("a"), Status(Code.SUCCESS)),
    ),
    "success with a message": (
        [(Nominate("a"), Status(Code.SUCCESS, ("room was made",)))],
        (Nominate("a"), Status(Code.SUCCESS, ("room was made",))),
    ),
    "all refuse": (
        [(Nominate(""), unschedulable("no")), (None, PENDING)],
        (Nominate(""), Status(Code.UNSCHEDULABLE, ("no", "wait for it"), "p0")),
    ),
    "UnschedulableAndUnresolvable ends it": (
        [(None, unresolvable("never")), (None, failed("not asked"))],
        (None, unresolvable("never").of("p0")),
    ),
    "an Error ends it": ([(Nominate("a"), failed("broken"))], (None, error("broken", "p0"))),
    "it raises": ([BOOM], (None, error("ValueError: boom", "p0"))),
    "it returns nonsense": (
        ["a"],
        (None, error("it returned str where a nomination and a Status is expected", "p0")),
    ),
    "no plugin": ([], (None, Status(Code.UNSCHEDULABLE))),
}


@pytest.mark.parametrize("kind", [PostFilterToy, SlowPostFilterToy])
@pytest.mark.parametrize(("given", "expected"), POST_FILTERS.values(), ids=POST_FILTERS)
def test_post_filter(kind: type[PostFilterToy], given: list[Any], expected: Any) -> None:
    own = framework(*(kind(f"p{index}", each) for index, each in enumerate(given)))

    nomination, status = done(own.post_filter(CycleState(), POD, NodeStatuses()))

    assert (nomination, without_cause(status)) == expected


class PreScoreToy(PreFilterToy):
    def pre_score(self, state: Any, pod: Any, nodes: Any) -> Any:
        return answer(self.given)


PRE_SCORES: dict[str, tuple[list[Any], Status | None, set[str]]] = {
    "Skip is remembered": ([None, SKIP], None, {"p1"}),
    "anything else ends it": (
        [SKIP, unschedulable("no"), SKIP],
        error('running PreScore plugin "p1": no'),
        {"p0"},
    ),
    "it raises": ([BOOM], error('running PreScore plugin "p0": ValueError: boom'), set()),
}


@pytest.mark.parametrize(("given", "expected", "skipped"), PRE_SCORES.values(), ids=PRE_SCORES)
def test_pre_score(given: list[Any], expected: Status | None, skipped: set[str]) -> None:
    own, state = framework(*(PreScoreToy(f"p{index}", each) for index, each in enumerate(given))), CycleState()

    assert (without_cause(done(own.pre_score(state, POD, NODES.nodes))), state.skip_score) == (expected, skipped)


class Halves(ScoreToy):
    """Normalises by halves; `wrong` is what it says instead."""

    def __init__(self, name: str, given: Any, wrong: Any = None) -> None:
        super().__init__(name, given)
        self.wrong = wrong

    def normalize_score(self, state: Any, pod: Any, nodes: Sequence[Any], scores: Scores) -> Any:
        scores //= 2
        return answer(self.wrong)


class Mistakes(ScoreToy):
    """Takes the scores for a list."""

    def normalize_score(self, state: Any, pod: Any, nodes: Sequence[Any], scores: Any) -> None:
        scores.sort(reverse=True)


SCORES: dict[str, tuple[list[ScoreToy], Any]] = {
    "weighted sums": (
        [ScoreToy("one", {"a": 10, "b": 20}), ScoreToy("three", {"b": 5, "c": 100})],
        {"one": [10, 20, 0], "three": [0, 5, 100], "totals": [10, 35, 300]},
    ),
    "normalised scores count": (
        [Halves("one", {"a": 200, "b": 7})],
        {"one": [100, 3, 0], "totals": [100, 3, 0]},
    ),
    "no plugin": ([], {"totals": [0, 0, 0]}),
    "too high": (
        [ScoreToy("one", {"b": 101})],
        (
            'applying score defaultWeights on Score plugins: plugin "one" returns an invalid score 101, it should in'
            " the range of [0, 100] after normalizing"
        ),
    ),
    "too low": (
        [Halves("one", {"b": -1})],
        (
            'applying score defaultWeights on Score plugins: plugin "one" returns an invalid score -1, it should in the'
            " range of [0, 100] after normalizing"
        ),
    ),
    "an Error": (
        [ScoreToy("one", {"b": failed("broken")})],
        'running Score plugins: plugin "one" failed with: broken',
    ),
    "it raises": ([ScoreToy("one", {"b": BOOM})], 'running Score plugins: plugin "one" failed with: ValueError: boom'),
    "it returns nonsense": (
        [ScoreToy("one", {"b": 0.5})],
        'running Score plugins: plugin "one" failed with: it returned float where a whole number is expected',
    ),
    "it returns success": (
        [ScoreToy("one", {"b": Status(Code.SUCCESS)})],
        'running Score plugins: plugin "one" failed with: it returned Status where a whole number is expected',
    ),
    "it returns True": (
        [ScoreToy("one", {"b": True})],
        'running Score plugins: plugin "one" failed with: it returned bool where a whole number is expected',
    ),
    "normalising raises": (
        [Mistakes("one", {"b": 1})],
        (
            'running Normalize on Score plugins: plugin "one" failed with: TypeError:'
            " sort() got an unexpected keyword argument 'reverse'"
        ),
    ),
    "normalising fails": (
        [Halves("one", {"b": 1}, failed("broken"))],
        'running Normalize on Score plugins: plugin "one" failed with: broken',
    ),
}


@pytest.mark.behaviour(17, case="weighted sums")
@pytest.mark.parametrize(("plugins", "expected"), SCORES.values(), ids=SCORES)
def test_score(plugins: list[ScoreToy], expected: Any) -> None:
    weights = {"one": 1, "three": 3}
    own = framework(*plugins, weights={each.name: weights[each.name] for each in plugins})

    found = own.score(CycleState(), POD, NODES.nodes)

    assert scores(found) == expected


def test_a_plugin_whose_pre_score_returned_skip_does_not_score() -> None:
    own, state = framework(ScoreToy("one", {"a": 5}), ScoreToy("two", {"a": 7})), CycleState()
    state.skip_score = frozenset({"one"})

    assert scores(own.score(state, POD, NODES.nodes)) == {"two": [7, 0, 0], "totals": [7, 0, 0]}


def scores(found: NodeScores | Status) -> Any:
    if isinstance(found, Status):
        return found.message
    own = {name: each.normalized.tolist() for name, each in found.by_plugin.items()}
    return own | {"totals": found.totals.tolist()}


class WrongScores(ScoreNodesToy):
    def score_nodes(self, state: Any, pod: Any, nodes: Any, rows: Any) -> Any:
        return [1, 2, 3]


def test_scores_that_are_no_array_are_an_error_of_their_plugin() -> None:
    found = framework(WrongScores("one")).score(CycleState(), POD, NODES.nodes, NODES, np.arange(3))

    assert scores(found) == (
        'running Score plugins: plugin "one" failed with: it returned list where an array of scores is expected'
    )


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
    "a rejection ends it": ([PENDING, None], PENDING.of("p0"), 1),
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

    assert own.permit(CycleState(), POD, "a") == unschedulable("no").of("p1")


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
    "a rejection ends it": ([unschedulable("no"), None], unschedulable("no").of("p0"), 1),
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


class Measured:
    """Notes what is measured, without the times."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    def point(self, point: Any, code: Code, seconds: float) -> None:
        self.noted.append(f"{point.value}: {code.value} after {seconds:g}")

    def plugin(self, point: Any, plugin: str, code: Code, seconds: float) -> None:
        self.noted.append(f"{point.value} of {plugin}: {code.value} after {seconds:g}")

    def evaluated(self, point: Any, plugin: str, times: int) -> None:
        self.noted.append(f"{point.value} of {plugin} {times} times")

    def permit_wait(self, code: Code, seconds: float) -> None:
        self.noted.append(f"waited: {code.value} after {seconds:g}")


def measured(*, every_plugin: bool) -> list[str]:
    ticks = iter(range(100))
    found = Measured()
    plugins = (PreFilterToy("p", SKIP), MaskToy("m"), PreFilterToy("q", failed("broken")))
    own = framework(*plugins, handle=handle(clock=lambda: float(next(ticks))), metrics=found)
    state = CycleState()
    state.record_metrics = every_plugin
    done(own.pre_filter(state, POD, NODES))
    own.filter_nodes(state, POD, NODES)
    return found.noted


def test_points_are_timed_and_evaluations_counted_but_for_those_that_skip() -> None:
    assert measured(every_plugin=False) == [
        "PreFilter of q 1 times",
        "PreFilter: Error after 1",
        "Filter of m 3 times",
    ]


def test_plugins_are_timed_in_cycles_that_record_it() -> None:
    assert measured(every_plugin=True) == [
        "PreFilter of p: Skip after 1",
        "PreFilter of q: Error after 1",
        "PreFilter of q 1 times",
        "PreFilter: Error after 5",
        "Filter of m: Success after 1",
        "Filter of m 3 times",
    ]
