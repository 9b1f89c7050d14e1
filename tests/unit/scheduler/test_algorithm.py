"""One attempt to find a Node: which Nodes are looked at, which one is taken, and what is said when none fits."""

from collections.abc import Collection
from random import Random
from typing import Any

import numpy as np
import pytest
from plugins.tables import handle
from plugins.tables import pod as a_pod
from plugins.toys import (
    POD,
    FilterToy,
    MaskToy,
    PreFilterToy,
    ReasonsToy,
    ScoreToy,
    SlowFilterToy,
    done,
    framework,
    pod_info,
    snapshot,
)

from tollbar.scheduler.algorithm import PIECE, Outcome, Scheduled, num_feasible_nodes_to_find, schedule_pod
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.interface import Known, PreFilterResult
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.status import SKIP, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins.node_affinity import NodeAffinity

FULL, WRONG = unschedulable("full"), unresolvable("wrong")
ABC = snapshot("a", "b", "c")
NAMES = [f"n{index:03}" for index in range(300)]


@pytest.mark.parametrize(
    ("total", "percentage", "expected"),
    [
        (99, 0, 99),
        (99, 10, 99),
        (100, 0, 100),
        (250, 0, 120),
        (1000, 0, 420),
        (5000, 0, 500),
        (6000, 0, 300),
        (20_000, 0, 1000),
        (1000, 40, 400),
        (1000, 5, 100),
        (1000, 100, 1000),
    ],
)
def test_num_feasible_nodes_to_find(total: int, percentage: int, expected: int) -> None:
    assert num_feasible_nodes_to_find(total, percentage) == expected


def attempt(own: Framework, *, nodes: Any = ABC, start: int = 0, pod: Any = POD, rng: Random | None = None) -> Outcome:
    found: Outcome = done(schedule_pod(own, CycleState(), pod, nodes, start, rng))
    return found


def shown(found: Outcome) -> Any:
    match found.result:
        case Scheduled(name, feasible):
            return name, feasible, found.next_start
        case FitError(diagnosis=diagnosis):
            return str(found.result), diagnosis.unschedulable_plugins, found.next_start
        case Status(reasons=reasons):
            return reasons, found.next_start


def scores(**given: Any) -> ScoreToy:
    return ScoreToy("score", given)


ATTEMPTS: dict[str, tuple[list[Any], dict[str, Any], Any]] = {
    "the best Node is taken": ([scores(a=1, b=9, c=5)], {}, ("b", 3, 0)),
    "of several best the first from the start": ([scores(a=9, b=1, c=9)], {"start": 1}, ("c", 3, 1)),
    "the only Node that fits is not scored": (
        [FilterToy("f", {"a": FULL, "b": WRONG}), scores(c=failed("not asked"))],
        {},
        ("c", 1, 0),
    ),
    "without Score plugins the first Node that fits is enough": (
        [FilterToy("f", {"b": FULL})],
        {"start": 1},
        ("c", 1, 0),
    ),
    "no Node at all": (
        [],
        {"nodes": snapshot(), "start": 5},
        (("no nodes available to schedule pods",), 5),
    ),
    "none fits": (
        [FilterToy("f", {"a": FULL, "b": WRONG}), FilterToy("g", {"b": FULL, "c": FULL})],
        {"start": 2},
        ("0/3 nodes are available: 1 wrong, 2 full.", {"f", "g"}, 2),
    ),
    "PreFilter says no": (
        [PreFilterToy("p", unschedulable("never")), FilterToy("f", {"a": failed("not asked")})],
        {"start": 1},
        ("0/3 nodes are available: never.", {"p"}, 1),
    ),
    "an Error of PreFilter": (
        [PreFilterToy("p", failed("broken"))],
        {"start": 1},
        (('running PreFilter plugin "p": broken',), 1),
    ),
    "only the Nodes that PreFilter has left": (
        [PreFilterToy("p", PreFilterResult(frozenset({"b", "c", "x"}))), scores(a=9, b=1, c=2)],
        {},
        ("c", 2, 2),
    ),
    "none of those fits": (
        [PreFilterToy("p", PreFilterResult(frozenset({"b"}))), FilterToy("f", {"b": FULL})],
        {},
        ("0/3 nodes are available: 1 full, 2 node(s) didn't satisfy plugin(s) [p].", {"p", "f"}, 1),
    ),
    "a skipped Filter is not asked": (
        [PreFilterToy("f", SKIP), FilterToy("f", {"a": FULL, "b": FULL, "c": FULL})],
        {},
        ("a", 1, 1),
    ),
    "an Error of Score ends it": (
        [scores(b=failed("broken"))],
        {},
        (('running Score plugins: plugin "score" failed with: broken',), 0),
    ),
    "a Pod that is nominated goes to its Node if it fits": (
        [FilterToy("f", {"a": failed("not asked")}), scores(a=9)],
        {"pod": pod_info(nominated="c"), "start": 1},
        ("c", 1, 1),
    ),
    "a Pod that is nominated to a Node that does not fit": (
        [FilterToy("f", {"c": FULL}), scores(b=9)],
        {"pod": pod_info(nominated="c")},
        ("b", 2, 0),
    ),
    "a Pod that is nominated to a Node that is gone": ([scores(b=9)], {"pod": pod_info(nominated="x")}, ("b", 3, 0)),
    "a Pod that is nominated to a Node whose Filter fails": (
        [FilterToy("f", {"c": failed("broken")})],
        {"pod": pod_info(nominated="c")},
        ("a", 1, 1),
    ),
    "enough Nodes are enough: the next attempt begins with the first that was not taken": (
        [FilterToy("f", dict.fromkeys(NAMES[120:130], FULL)), scores(n000=9, n125=100, n200=50)],
        {"nodes": snapshot(*NAMES), "start": 10},
        ("n010", 144, 164),
    ),
    "a Node that was looked at because of a nomination counts too": (
        [FilterToy("f", {"n299": FULL}), scores()],
        {"nodes": snapshot(*NAMES), "pod": pod_info(nominated="n299")},
        ("n000", 144, 145),
    ),
    "the search goes on at the beginning": (
        [scores(n299=9)],
        {"nodes": snapshot(*NAMES), "start": 250},
        ("n299", 144, 94),
    ),
    "a start that is beyond the last Node": ([FilterToy("f"), scores()], {"start": 7}, ("b", 3, 1)),
}


@pytest.mark.parametrize("kind", [FilterToy, SlowFilterToy, MaskToy])
@pytest.mark.parametrize(("plugins", "given", "expected"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_schedule_pod(kind: type[FilterToy], plugins: list[Any], given: dict[str, Any], expected: Any) -> None:
    alike = [kind(each.name, each.given) if type(each) is FilterToy else each for each in plugins]

    assert shown(attempt(framework(*alike), **given)) == expected


@pytest.mark.parametrize("kind", [FilterToy, SlowFilterToy])
def test_an_error_of_filter_ends_it_and_the_next_attempt_begins_there(kind: type[FilterToy]) -> None:
    own = framework(kind("f", {"a": FULL, "b": failed("broken")}), MaskToy("mask"), scores())

    assert shown(attempt(own)) == (('running "f" filter plugin: broken',), 1)


@pytest.mark.behaviour(17)
@pytest.mark.parametrize(("weight", "expected"), [(1, "a"), (3, "b")])
def test_a_preference_can_lose_to_other_scores_but_not_to_a_filter(weight: int, expected: str) -> None:
    preference, other = ScoreToy("preference", {"b": 50, "c": 100}), ScoreToy("other", {"a": 100})
    own = framework(FilterToy("f", {"c": WRONG}), preference, other, weights={"preference": weight, "other": 1})

    assert shown(attempt(own))[0] == expected


@pytest.mark.behaviour(24)
def test_a_pod_of_a_daemon_set_costs_the_look_at_one_node() -> None:
    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n200"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [named]}}
    asked = FilterToy("asked")
    own = framework(NodeAffinity({}, handle()), asked)

    found = attempt(own, nodes=snapshot(*NAMES), pod=a_pod(affinity={"nodeAffinity": required}))

    assert (shown(found)[0], asked.asked) == ("n200", ["n200"])


def test_of_several_best_nodes_chance_chooses() -> None:
    own, rng = framework(scores(a=9, b=9, c=1)), Random(1)

    assert {shown(attempt(own, rng=rng))[0] for _ in range(20)} == {"a", "b"}


def test_scores_are_kept() -> None:
    found = attempt(framework(scores(a=1, b=9))).result

    assert isinstance(found, Scheduled)
    assert found.scores is not None
    assert ([each.name for each in found.scores.nodes], found.scores.totals.tolist()) == (["a", "b", "c"], [1, 9, 0])


def test_the_answer_of_pre_filter_is_that_of_all_nodes() -> None:
    found = attempt(framework(PreFilterToy("p", unschedulable("never")))).result

    assert isinstance(found, FitError)
    assert found.diagnosis.statuses.get("a") == unschedulable("never").with_plugin("p")


def test_the_search_can_be_paused_between_nodes() -> None:
    many = snapshot(*map(str, range(100)))
    steps = schedule_pod(framework(FilterToy("f"), scores()), CycleState(), POD, many, 0)

    assert len(list(steps)) == 100 // PIECE + 1


def test_plugins_without_masks_are_asked_about_the_nodes_that_masks_leave() -> None:
    plain = FilterToy("plain", {"b": FULL})

    found = attempt(framework(plain, MaskToy("mask", {"a": WRONG}), scores()))

    assert (shown(found), plain.asked) == (("c", 1, 0), ["b", "c"])


class Knowing(FilterToy):
    """Knows of these Nodes what it would say; of a rejected one it may think better of it by then.

    The Nodes of `frees` are rejected only until it is asked about something.
    """

    def __init__(
        self, fits: Collection[str] = "", rejected: str = "", given: Any = None, why: Any = None, frees: str = ""
    ) -> None:
        super().__init__("knowing", given)
        self.fits = fits
        self.rejected = rejected
        self.why = why
        self.frees = frees

    def filter_known(self, state: Any, pod: Any, nodes: Any) -> Any:
        if self.fits == "boom":
            raise ValueError
        rejected = self.rejected if self.asked else self.rejected + self.frees
        masks = (np.array([each.name in names for each in nodes], np.bool_) for names in (self.fits, rejected))
        return Known(*masks, self.why)


KNOWN: dict[str, tuple[Knowing, dict[str, Any], Any, list[str]]] = {
    "nothing is known": (Knowing(given={"b": FULL}), {}, ("c", 2, 0), ["a", "b", "c"]),
    "everything is known": (Knowing("ac", "b"), {}, ("c", 2, 0), []),
    "the others are asked about": (Knowing("a", given={"b": FULL}), {}, ("c", 2, 0), ["b", "c"]),
    "a Node that is promised to another Pod is asked about": (
        Knowing("abc"),
        {"nominated": {"c": [pod_info("promised", priority=1)]}},
        ("c", 3, 0),
        ["c", "c"],
    ),
    "rejected ones say why if none fits": (
        Knowing("", "ab", dict.fromkeys("abc", FULL)),
        {},
        ("0/3 nodes are available: 3 full.", {"knowing"}, 0),
        ["c", "a", "b"],
    ),
    "one that was rejected fits by now": (
        Knowing("", "bc", {"a": FULL, "c": FULL}),
        {},
        ("b", 1, 0),
        ["a", "b", "c"],
    ),
    "what it says of rejected ones is known": (
        Knowing("", "ab", {"c": WRONG}, FULL),
        {},
        ("0/3 nodes are available: 1 wrong, 2 full.", {"knowing"}, 0),
        ["c"],
    ),
    "what it says of all Nodes is known": (
        Knowing("", "abc", why=FULL),
        {},
        ("0/3 nodes are available: 3 full.", {"knowing"}, 0),
        [],
    ),
    "of one that was rejected it is not known any more": (
        Knowing("", "b", {"c": WRONG}, FULL, frees="a"),
        {},
        ("a", 1, 0),
        ["c", "a"],
    ),
    "what it says of a Node that is promised to another Pod is not known": (
        Knowing("", "abc", {"b": WRONG}, FULL),
        {"nominated": {"b": [pod_info("promised", priority=1)]}},
        ("0/3 nodes are available: 1 wrong, 2 full.", {"knowing"}, 0),
        ["b"],
    ),
    "it raises": (Knowing("boom"), {}, ("c", 3, 0), ["a", "b", "c"]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_plugins_are_not_asked_about_nodes_of_which_they_know_the_answer(name: str) -> None:
    plugin, more, expected, asked = KNOWN[name]
    plugin.asked.clear()

    found = attempt(framework(MaskToy("mask"), plugin, scores(c=5), **more))

    assert (shown(found), plugin.asked) == (expected, asked)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_answered_of_all_nodes_or_known_makes_no_difference_to_which_are_found(seed: int) -> None:
    rng = Random(seed)
    masked, rejected = ({name: FULL for name in NAMES if rng.random() < 0.3} for _ in range(2))
    known = [name for name in NAMES if name not in rejected and rng.random() < rng.choice((0.2, 0.9))]
    given = {"nodes": snapshot(*NAMES), "start": rng.randrange(len(NAMES))}
    ranked = scores(**{name: rng.randrange(100) for name in NAMES})

    at_once, one_by_one = (
        attempt(framework(*plugins, ranked, percentage_of_nodes_to_score=1), **given)
        for plugins in (
            (MaskToy("a", masked), Knowing(known, given=rejected)),
            (FilterToy("a", masked), FilterToy("b", rejected)),
        )
    )

    assert shown(at_once) == shown(one_by_one)


def test_a_plugin_before_the_one_that_knows_is_asked_first() -> None:
    first, plugin = FilterToy("first", {"a": WRONG}), Knowing("", "abc", dict.fromkeys("abc", FULL), FULL)

    found = attempt(framework(MaskToy("mask"), first, plugin))

    assert (shown(found), plugin.asked) == (
        ("0/3 nodes are available: 1 wrong, 2 full.", {"first", "knowing"}, 0),
        ["b", "c"],
    )


def test_if_no_node_fits_each_node_is_asked_about_once_more_by_who_rejects_it() -> None:
    one, two = MaskToy("one", {"a": WRONG}), MaskToy("two", {"a": FULL, "b": FULL, "c": FULL})

    found = attempt(framework(one, two))

    assert (shown(found), one.asked, two.asked) == (
        ("0/3 nodes are available: 1 wrong, 2 full.", {"one", "two"}, 0),
        ["a"],
        ["b", "c"],
    )


REASONS: dict[str, tuple[list[FilterToy], dict[str, Any], list[list[str]]]] = {
    "it gives its reasons": ([ReasonsToy("a", dict.fromkeys("abc", FULL))], {}, [[]]),
    "the first one that rejects a Node says why": (
        [ReasonsToy("a", {"a": FULL}), MaskToy("b", dict.fromkeys("abc", FULL)), ReasonsToy("c", {"c": WRONG})],
        {},
        [[], ["b", "c"], []],
    ),
    "one before it has no mask": (
        [FilterToy("a", {"a": FULL}), ReasonsToy("b", dict.fromkeys("abc", FULL))],
        {},
        [["a", "b", "c"], ["b", "c"]],
    ),
    "of a Node that is promised to another Pod it is asked": (
        [ReasonsToy("a", dict.fromkeys("abc", FULL))],
        {"nominated": {"b": [pod_info("promised", priority=1)]}},
        [["b"]],
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_where_no_node_fits_plugins_that_give_reasons_for_all_nodes_are_not_asked_one_by_one(name: str) -> None:
    plugins, more, asked = REASONS[name]
    found = attempt(framework(*plugins, **more))

    assert str(found.result) == "0/3 nodes are available: 3 full."
    assert [each.asked for each in plugins] == asked


class Liar(MaskToy):
    """Its `filter` knows nothing of what its mask says."""

    def filter(self, *args: Any) -> Any:
        return None


def test_a_mask_that_contradicts_filter_is_an_error() -> None:
    found = attempt(framework(Liar("liar", {"a": FULL, "b": FULL, "c": FULL})))

    assert shown(found) == (('filter_nodes of a plugin leaves out node "a", its filter does not',), 0)
