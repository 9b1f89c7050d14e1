"""What takes long is charged for: by the element, the character and the failure, before it is done.

A search for slow inputs runs for TOLLBAR_CEL_SECONDS of CPU, from TOLLBAR_CEL_SEED, and asserts that the engines agree
on all that it finds and stay within their limits.  Since it is guided by time, the same seed does not find the same
again: what fails or takes too long is printed when it is found, as a row of FOUND, and written to a file, so that it is
there however the search ends; how much was tried is printed every minute.

Times are asserted of a long search alone, which is what it is for, and only of what is slow whenever it is measured:
what else a machine does can only add to the CPU time of an evaluation.
"""

import os
import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import pytest
from cel.adversaries import ADVERSARIES, ENV
from cel.costs import measure
from cel.slow_search import COMPILING, ELEMENTS, EVALUATING, Slow, confirmed, measured, search

from tollbar.cel import BUDGET, CelEngine, CelError, CostBudget, engine
from tollbar.cel.core.limits import MAX_STEPS

SECONDS: Final = float(os.environ.get("TOLLBAR_CEL_SECONDS", "3"))
SEED: Final = int(os.environ.get("TOLLBAR_CEL_SEED", "1"))
KEPT: Final = Path(__file__).parents[2] / "build" / "slow-inputs.txt"
"""What searches have found, each with what is wrong with it."""
JUDGED: Final = 600.0
"""Seconds of CPU from which on what a search finds has to end in time."""
ROUNDS: Final = 10
PAUSE: Final = 30.0
"""What is slow is measured again in so many rounds, with so many seconds between them."""
COSTLY: Final = 1_000_000_000
"""Steps that no row below needs."""

STEPS: Final[dict[str, int]] = {
    "a format of many large doubles": 650_902,
    "a format of a list of large doubles": 651_166,
    "a large double with many places": 650_024,
    "texts of doubles": 650_033,
    "isSorted of many kinds": 650_044,
    "min of many kinds": 650_075,
    "nested equality, then an error": 386_839,
    "equality of many maps, then an error": 650_005,
    "40 nested exists whose body fails": 650_282,
    "the truth of elements": 650_003,
    "20 nested all": 650_006,
    "20 nested all whose body fails": 650_392,
    "failures that exists absorbs": 650_006,
    "a large expression in a loop": 651_982,
}
"""Adversaries, and the steps after which they end."""


@pytest.mark.parametrize(("sentence", "steps"), STEPS.items(), ids=STEPS)
@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_an_adversary_ends_after_these_steps(
    engines: dict[str, CelEngine], name: str, sentence: str, steps: int
) -> None:
    adversary = ADVERSARIES[sentence]
    found = measure(engines[name].compile(adversary.expression, ENV), {"x": adversary.x()})
    assert (type(found.answer), found.steps) == (CelError, steps)


GROWING: Final[dict[str, tuple[str, Callable[[int], Any]]]] = {
    "a loop": ("x.all(i, i >= 0)", lambda size: list(range(size))),
    "a loop in a loop": ("x.all(i, lists.range(50).all(j, i != -j))", lambda size: list(range(1, size))),
    "failures that are absorbed": ("x.exists(i, i.nope)", lambda size: [{}] * size),
    "equality": ("x == dyn(x)", lambda size: list(range(size))),
    "equality of lists in lists": ("x == dyn(x)", lambda size: [[[1.5]]] * size),
    "equality of maps": ("x == dyn(x)", lambda size: {str(index): index for index in range(size)}),
    "equality of timestamps": ("x.all(i, timestamp(i) == timestamp(i))", lambda size: list(range(size))),
    "in": ("-1 in x", lambda size: list(range(size))),
    "isSorted of many kinds": ("x.isSorted()", lambda size: [1, "a"] * size),
    "max of many kinds": ("x.max() != 7", lambda size: [1, "a"] * size),
    "sort": ("x.sort().size() > 0", lambda size: list(range(size))),
    "distinct of doubles": ("x.distinct().size() > 0", lambda size: [1.5] * size),
    "format of doubles": ("'%s'.format([x]).size() > 0", lambda size: [1.5] * size),
    "texts of doubles": ("x.all(d, string(d) != '')", lambda size: [1.5] * size),
    "quoted text": ("'%s'.format([[x]]).size() > 0", lambda size: "\n" * size),
    "matches": ("x.matches('(ab|b)*c')", lambda size: "a" * 50 * size),
    "findAll": ("x.findAll('a').size() > 0", lambda size: "a" * (size // 5)),
    "a string that is built": ("x.map(s, s + s).size() > 0", lambda size: ["a" * 100] * size),
    "maps that are built": ("x.map(i, {i: i}).size() > 0", lambda size: list(range(size))),
    "optionals": ("x.all(i, i.?a.orValue(true))", lambda size: [{}] * size),
    "quantities": ("x.all(i, isQuantity(i))", lambda size: ["1Gi"] * size),
    "addresses": ("x.all(i, isIP(i))", lambda size: ["2001:db8::1"] * size),
    "queries": ("url('/?' + x).getQuery().size() > 0", lambda size: "a=1&" * size),
}


@pytest.mark.parametrize(("source", "x"), GROWING.values(), ids=GROWING)
def test_twice_the_work_costs_twice_as_much(
    engines: dict[str, CelEngine], source: str, x: Callable[[int], Any]
) -> None:
    with patch("tollbar.cel.core.limits.MAX_STEPS", COSTLY):
        few, many = (
            {engine: measure(engines[engine].compile(source, ENV), {"x": x(size)}).steps for engine in engines}
            for size in (400, 800)
        )
    assert [many[engine] >= 1.8 * few[engine] for engine in engines] == [True] * len(engines), (few, many)


@pytest.mark.parametrize("sentence", ["20 nested all", "20 nested all whose body fails"])
def test_a_deep_evaluation_asks_the_system_for_memory_a_few_times(sentence: str) -> None:
    """Wherever it begins in the stack: a loop at the end of a piece of CPython's stack would ask in every round."""
    adversary = ADVERSARIES[sentence]
    program = engine("compiled").compile(adversary.expression, ENV)

    def faults(calls: int) -> int:
        if calls:
            return faults(calls - 1)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        program.evaluate({"x": adversary.x()})
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert max(map(faults, range(0, 120, 4))) < 1_000


FOUND: Final[dict[str, Slow]] = {
    "escaping what is not ASCII": Slow(
        "strings.quote(strings.quote(i)).lowerAscii().lowerAscii()", (ELEMENTS.index("é\n" * 500),), 100
    ),
    "counting in a loop": Slow("type(x.exists_one(i, i))", (ELEMENTS.index(True),), 9_000),
    "sorting by long keys, which costs ten evaluations and is not done": Slow(
        "x.sortBy(i, i)", (ELEMENTS.index("é\n" * 500),), 9_000
    ),
    "a search for what is longer than the text": Slow(
        "'v1.2'.lastIndexOf(i, 1)", (ELEMENTS.index("a" * 5_000),), 9_000
    ),
    "quoting long texts of which nothing is escaped": Slow(
        "'%s'.format([x])", (ELEMENTS.index("/?" + "a=%41&" * 200),), 1_000
    ),
    "the sums of many lists": Slow("lists.range(100).sum()", (ELEMENTS.index(0),), 1_000),
}
"""Inputs that a search has found, and that looked wrong then."""


@pytest.mark.parametrize("slow", FOUND.values(), ids=FOUND)
def test_what_a_search_has_found_stays_mended(engines: dict[str, CelEngine], slow: Slow) -> None:
    found = measured(engines["compiled"], slow)
    assert found is not None
    assert wrong_with(engines, found) == ""


@pytest.mark.timeout(900 + 4 * SECONDS)
def test_what_a_search_for_slow_inputs_finds_ends_within_the_limits(
    engines: dict[str, CelEngine], capsys: pytest.CaptureFixture[str]
) -> None:
    def tell(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)  # noqa: T201

    engine = engines["compiled"]
    tell(f"\nsearching from seed {SEED} for {SECONDS:g} s of CPU; what is slow or wrong is kept in {KEPT}")
    wrong, slow = told(search(engine, SEED, SECONDS), partial(wrong_with, engines), tell, KEPT)
    if SECONDS < JUDGED:
        slow = []
    for _ in range(ROUNDS):
        slow = [each for each in (confirmed(engine, each) for each in slow) if each.share > 1]
        if slow:
            tell(f"{len(slow)} are slow again, with a load of {os.getloadavg()[0]:.1f}")
            time.sleep(PAUSE)
    for each in slow:
        tell(f"{each}: it is always slow ({each.cost})")
    assert (wrong, slow) == ([], [])


class Ended(BaseException):
    """As a search ends that is interrupted, or that runs into the time limit of its test."""


def test_what_is_slow_or_wrong_is_told_and_kept_when_it_is_found(tmp_path: Path) -> None:
    kept = tmp_path / "build" / "found.txt"
    lines: list[str] = []
    quick, wrong = Slow("i", (0,), 2), Slow("i + 1", (0,), 2)
    slow = Slow("i + 2", (0,), 2, seconds=0.0101, steps=7)
    long = Slow("i + 3", (0,), 2, compiling=0.101)

    def found() -> Iterator[Slow]:
        yield from (quick, wrong, slow, long)
        raise Ended

    with pytest.raises(Ended):
        told(found(), lambda each: "it differs" if each is wrong else "", lines.append, kept)
    assert lines == [
        "Slow(body='i + 1', picks=(0,), length=2): it differs (0.0 ms, 0 steps, compiled in 0.0 ms)",
        "Slow(body='i + 2', picks=(0,), length=2): it is slow (10.1 ms, 7 steps, compiled in 0.0 ms)",
        "Slow(body='i + 3', picks=(0,), length=2): it is slow (0.0 ms, 0 steps, compiled in 101.0 ms)",
    ]
    assert kept.read_text().splitlines() == lines


def test_how_far_a_search_has_come_is_told(tmp_path: Path) -> None:
    wrong, slow = Slow("i + 1", (0,), 2), Slow("i + 2", (0,), 2, seconds=0.0101, steps=7)
    lines: list[str] = []
    found = told([wrong, slow], lambda each: "it differs" if each is wrong else "", lines.append, tmp_path / "found", 0)
    assert found == ([(wrong, "it differs")], [slow])
    assert [re.sub(r"^\d+ s", "0 s", line) for line in lines if "inputs" in line] == [
        "0 s of CPU: 1 inputs, 1 of them wrong, 0 slow",
        "0 s of CPU: 2 inputs, 1 of them wrong, 1 slow",
        "0 s of CPU: 2 inputs, 1 of them wrong, 1 slow",
    ]


def test_a_time_that_is_not_seen_again_counts_for_nothing(engines: dict[str, CelEngine]) -> None:
    once = Slow("i", (0,), 2, seconds=0.5, compiling=0.5)
    for_ever = replace(once, seconds=0.02, compiling=0.2)
    with patch("cel.slow_search.measured", side_effect=[replace(once, compiling=0.01), replace(once, seconds=0.001)]):
        assert confirmed(engines["compiled"], once) == replace(once, seconds=0.001, compiling=0.01)
    with patch("cel.slow_search.measured", return_value=for_ever):
        assert confirmed(engines["compiled"], once) == for_ever


def told(
    found: Iterable[Slow],
    wrong_with: Callable[[Slow], str],
    tell: Callable[[str], None],
    kept: Path,
    every: float = 60.0,
) -> tuple[list[tuple[Slow, str]], list[Slow]]:
    """What is wrong among these, with the reason, and what is slow.

    Each is told and kept when it is found; every so many seconds of CPU, and in the end, how much has been tried.
    """
    wrong: list[tuple[Slow, str]] = []
    slow: list[Slow] = []
    count = 0
    slowest = longest = Slow("", (), 0)
    begun = last = time.process_time()

    def summed_up() -> str:
        return f"{last - begun:.0f} s of CPU: {count} inputs, {len(wrong)} of them wrong, {len(slow)} slow"

    for each in found:
        count += 1
        slowest = max(slowest, each, key=lambda one: one.seconds)
        longest = max(longest, each, key=lambda one: one.compiling)
        problem = wrong_with(each)
        if problem:
            wrong.append((each, problem))
        if each.share > 1:
            slow.append(each)
        if problem or each.share > 1:
            line = f"{each}: {problem or 'it is slow'} ({each.cost})"
            kept.parent.mkdir(exist_ok=True)
            with kept.open("a") as file:
                file.write(f"{line}\n")
            tell(line)
        if time.process_time() - last >= every:
            last = time.process_time()
            tell(summed_up())
    last = time.process_time()
    tell(summed_up())
    tell(f"slow takes more than {EVALUATING * 1000:g} ms, or {COMPILING * 1000:g} ms to compile")
    tell(f"the slowest: {slowest} ({slowest.cost})")
    tell(f"the longest to compile: {longest} ({longest.cost})")
    return wrong, slow


def wrong_with(engines: dict[str, CelEngine], found: Slow) -> str:
    """What is wrong with the answer of the compiled engine and its cost; empty if nothing is."""
    budget = CostBudget(0)
    other = engines["closures"].compile(found.expression, ENV).evaluate({"x": found.x}, budget)
    if (found.answer, found.steps) != (other, -budget.steps):
        return f"{found.answer} after {found.steps} steps, but with closures {other} after {-budget.steps}"
    ended = isinstance(found.answer, CelError) and found.answer.kind == BUDGET
    # What exceeds the limit is charged whole, however much it is, and then not done.
    return "" if ended or found.steps <= MAX_STEPS else f"{found.answer} after {found.steps} steps"
