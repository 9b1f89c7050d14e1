"""Read sets and partial evaluation are sound, and programs can be shared by threads.

TOLLBAR_CEL_PAIRS sets the number of pairs.
"""

import copy
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NamedTuple

import pytest
from cel.comparing import with_kinds
from cel.generator import VARIABLES, Case, cases, inputs

from tollbar.cel import UNKNOWN, CelEngine, CelError, Env, Program, project

PAIRS: Final = int(os.environ.get("TOLLBAR_CEL_PAIRS", "4000"))
MUTATIONS: Final = 8
ENV: Final = Env(tuple(VARIABLES.items()), "dyn")
THREADS: Final = 8
PATHS: Final = (*VARIABLES, "object.a", "object.b", "object.labels", "object.a.name", "x.a", "x.labels")
"""Paths that may be unknown."""


class Compiled(NamedTuple):
    case: Case
    program: Program


def compiled(engine: CelEngine, seed: int, count: int) -> Iterator[Compiled]:
    for case in cases(seed, count):
        try:
            yield Compiled(case, engine.compile(case.expression, ENV))
        except CelError:
            continue


def answer(value: Any) -> Any:
    """Comparable: 1, 1.0 and true are three values; an error is its kind, place and message."""
    return value if isinstance(value, CelError) or value is UNKNOWN else with_kinds(value)


def mutated(rng: random.Random, given: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """The same with one thing changed in a variable of these, at any depth."""
    result = copy.deepcopy(dict(given))
    other = inputs(rng)
    name = rng.choice(names)
    where: Any = result
    key: Any = name
    while isinstance(where[key], dict | list) and where[key] and rng.random() < 0.7:
        where = where[key]
        key = rng.choice(list(where)) if isinstance(where, dict) else rng.randrange(len(where))
    if where is result:
        where[key] = other[name]
    elif isinstance(where, dict) and rng.random() < 0.3:
        del where[key]
    else:
        where[key] = rng.choice(list(other.values())) if VARIABLES[name] == "dyn" else type_alike(rng, where[key])
    return result


def mentioned(names: Iterable[str], expression: str) -> list[str]:
    """Those that the expression refers to, or else all of them."""
    names = list(names)
    return [name for name in names if re.search(rf"\b{name.partition('.')[0]}\b", expression)] or names


def type_alike(rng: random.Random, value: Any) -> Any:
    """Another value of the same type."""
    match value:
        case bool():
            return not value
        case int():
            return rng.choice((0, 1, 7, value + 1 if value < 2**62 else 0))
        case float():
            return rng.choice((0.5, 2.0, -1.0))
        case str():
            return rng.choice(("", "a", "other"))
        case list():
            return value[1:]
        case _:
            return value


@pytest.mark.timeout(180 + PAIRS // 100)
@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_equal_projections_give_equal_answers(
    engines: dict[str, CelEngine], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(1)
    pairs = unread = 0
    wrong = []
    for case, program in compiled(engines[name], 11, PAIRS // MUTATIONS):
        want = answer(program.evaluate(case.inputs))
        seen = with_kinds(project(case.inputs, program.reads, ENV))
        names = mentioned(VARIABLES, case.expression)
        for _ in range(MUTATIONS):
            pairs += 1
            other = mutated(rng, case.inputs, names)
            if with_kinds(project(other, program.reads, ENV)) != seen:
                continue
            unread += with_kinds(other) != with_kinds(dict(case.inputs))
            if answer(program.evaluate(other)) != want:
                wrong.append((case.expression, sorted(program.reads), case.inputs, other))
    with capsys.disabled():
        print(f"\n{pairs} pairs of inputs, {unread} differ where nothing is read ({name})")  # noqa: T201
    assert (wrong[:5], unread > pairs // 10) == ([], True)


@pytest.mark.timeout(180 + PAIRS // 50)
@pytest.mark.parametrize("name", ["compiled", "closures"])
def test_a_decision_holds_whatever_the_unknown_turns_out_to_be(
    engines: dict[str, CelEngine], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(2)
    asked = decided = 0
    wrong = []
    for case, program in compiled(engines[name], 12, PAIRS // MUTATIONS):
        paths = mentioned(PATHS, case.expression)
        unknown = frozenset(rng.sample(paths, min(len(paths), rng.choice((1, 2, 4)))))
        found = answer(program.evaluate_partial(case.inputs, unknown))
        for _ in range(MUTATIONS):
            asked += 1
            decided += found is not UNKNOWN
            other = filled(rng, case.inputs, unknown)
            if found is not UNKNOWN and answer(program.evaluate(other)) != found:
                wrong.append((case.expression, sorted(unknown), found, other))
    with capsys.disabled():
        print(f"\n{asked} completions, {decided} of what was decided before ({name})")  # noqa: T201
    assert (wrong[:5], decided > asked // 10) == ([], True)


def filled(rng: random.Random, given: Mapping[str, Any], unknown: frozenset[str]) -> dict[str, Any]:
    """The inputs with other values at the unknown paths."""
    result = copy.deepcopy(dict(given))
    other = inputs(rng)
    for path in sorted(unknown):
        where: Any = result
        *way, last = path.split(".")
        for step in way:
            where = where.get(step) if isinstance(where, dict) else None
        if isinstance(where, dict):
            where[last] = other[last] if where is result else other["x"]
    return result


def test_threads_do_not_disturb_one_another(engines: dict[str, CelEngine]) -> None:
    wrong = []
    for engine in engines.values():
        programs = list(compiled(engine, 13, 200))
        want = [answer(program.evaluate(case.inputs)) for case, program in programs]

        def evaluate(thread: int, programs: list[Compiled] = programs, want: list[Any] = want) -> list[str]:
            rng = random.Random(thread)
            chosen = [rng.randrange(len(programs)) for _ in range(max(PAIRS // 10, 200))]
            return [
                programs[index].case.expression
                for index in chosen
                if answer(programs[index].program.evaluate(programs[index].case.inputs)) != want[index]
            ]

        with ThreadPoolExecutor(THREADS) as pool:
            wrong += [expression for found in pool.map(evaluate, range(THREADS)) for expression in found]
    assert wrong == []
