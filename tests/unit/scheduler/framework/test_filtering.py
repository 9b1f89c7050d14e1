"""What PreFilter, Filter and PostFilter make of the answers of their plugins."""

from typing import Any

import pytest
from plugins.toys import (
    BOOM,
    PENDING,
    POD,
    FilterToy,
    Measured,
    Named,
    PreFilterToy,
    SlowFilterToy,
    answer,
    done,
    error,
    framework,
    handle,
    pod_info,
    snapshot,
    without_cause,
)

from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.filtering import PreFiltered
from tollbar.scheduler.framework.interface import Nominate, PreFilterResult
from tollbar.scheduler.framework.status import SKIP, Code, Status, failed, unresolvable, unschedulable

NODES = snapshot("a", "b", "c")


def only(*names: str) -> PreFilterResult:
    return PreFilterResult(frozenset(names))


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
        PreFiltered(unschedulable("no").with_plugin("p0"), frozenset({"a"}), frozenset({"p1"})),
        {"p2"},
    ),
    "of two Unschedulable the last counts": (
        [unschedulable("no"), unschedulable("never")],
        PreFiltered(unschedulable("never").with_plugin("p1")),
        set(),
    ),
    "UnschedulableAndUnresolvable ends it": (
        [unschedulable("no"), unresolvable("never"), failed("not asked")],
        PreFiltered(unresolvable("never").with_plugin("p1")),
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
    "Unschedulable": (unschedulable("no"), unschedulable("no").with_plugin("f")),
    "Pending": (PENDING, PENDING.with_plugin("f")),
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

    assert found == [unschedulable("no").with_plugin(name) for name in ("asked", "last")]


def test_calls_of_filter_are_counted_together() -> None:
    found = Measured()
    plugins = FilterToy("asked"), FilterToy("rejecting", {"a": unschedulable("no")})
    own = framework(*plugins, handle=handle(metrics=found))
    for node in NODES:
        done(own.filter(CycleState(), POD, node))
    before = list(found.noted)
    for _ in range(2):
        own.count_filter_calls()

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
        unschedulable("1 are there").with_plugin("c"),
    ),
    "one of lower priority does not count": (Crowd("c", 1), [pod_info("other", priority=4)], None),
    "the Pod itself does not count": (Crowd("c", 1), [pod_info(priority=5)], None),
    "nor may the Node need it": (
        Crowd("c", 2, needs_company=True),
        [pod_info("other", priority=9)],
        unschedulable("lonely").with_plugin("c"),
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
        (None, unresolvable("never").with_plugin("p0")),
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
