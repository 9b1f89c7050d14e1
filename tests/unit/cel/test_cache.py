"""The cache of compiled programs."""

import gc
import tracemalloc

import pytest

from tollbar.cel import COMPILE, DEVICE_ENV, CelError, Program, engine
from tollbar.cel.cache import ProgramCache, size

ENGINE = engine()
LONG = "1 == 1 || " * 100 + "true"


class Counting:
    """Compiles, and remembers what."""

    def __init__(self) -> None:
        self.compiled: list[str] = []

    def __call__(self, source: str) -> Program | CelError:
        self.compiled.append(source)
        try:
            return ENGINE.compile(source, DEVICE_ENV)
        except CelError as error:
            return error


ASKED: dict[str, tuple[int, list[str], list[str]]] = {
    "one source, again and again": (size("1 == 1"), ["1 == 1"] * 3, ["1 == 1"]),
    "an error": (size("1 == "), ["1 == ", "1 == "], ["1 == "]),
    "two, where both fit": (2 * size("1 == 1"), ["1 == 1", "1 == 2"] * 2, ["1 == 1", "1 == 2"]),
    "two, where only the last fits": (2 * size("1 == 1") - 1, ["1 == 1", "1 == 2"] * 2, ["1 == 1", "1 == 2"] * 2),
    "the least recently used is dropped": (
        2 * size("1 == 1"),
        ["1 == 1", "1 == 2", "1 == 1", "1 == 3", "1 == 1", "1 == 2"],
        ["1 == 1", "1 == 2", "1 == 3", "1 == 2"],
    ),
    "a long one takes the place of many": (
        size(LONG),
        ["1 == 1", "1 == 2", LONG, "1 == 1", "1 == 2", LONG],
        ["1 == 1", "1 == 2", LONG] * 2,
    ),
    "one that never fits": (size("1 == 1"), ["1 == 1", LONG, LONG], ["1 == 1", LONG, LONG]),
    "patterns take more than their text": (
        100_000,
        ["1 == 1", "'a'.matches('b')", "1 == 1"],
        ["1 == 1", "'a'.matches('b')", "1 == 1"],
    ),
}


@pytest.mark.parametrize(("memory", "asked", "compiled"), ASKED.values(), ids=ASKED)
def test_only_what_was_dropped_is_compiled_again(memory: int, asked: list[str], compiled: list[str]) -> None:
    compile_ = Counting()
    cache = ProgramCache(compile_, memory)
    answers = [cache.get(source) for source in asked]
    errors = [isinstance(answer, CelError) for answer in answers]
    assert (compile_.compiled, errors) == (compiled, [source == "1 == " for source in asked])


def test_a_cached_error_holds_no_traceback() -> None:
    found = ProgramCache(Counting()).get("1 == 2 || zz")
    assert (found, getattr(found, "__traceback__", "no error")) == (
        CelError("undefined variable 'zz'", 1, 11, COMPILE),
        None,
    )


SIZES = {
    "a chain of comparisons": "||".join(["1==2"] * 490),
    "empty lists": "||".join(["[]==[]"] * 300),
    "negations": "||".join(["!true"] * 900),
    "conditionals": "||".join(["(1<2?1:2)<3"] * 180),
    "macros": "||".join(["[1].all(i,i<i)"] * 190),
    "maps": "||".join(["{1:1}=={1:1}"] * 240),
    "selections": " || ".join(["device.driver == 'a'"] * 60),
    "a type error at the end": "||".join(["1==2"] * 490) + "||z",
}


@pytest.mark.parametrize("source", SIZES.values(), ids=SIZES)
def test_no_program_takes_more_than_its_size(source: str) -> None:
    cache = ProgramCache(Counting())
    cache.get("true")
    tracemalloc.start()
    try:
        cache.get(source)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0 < taken <= size(source)
