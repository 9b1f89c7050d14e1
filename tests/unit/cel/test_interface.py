"""The interface: engines by name, errors as values, programs shared by threads, no effects on the process."""

import copy
import logging
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tollbar.cel import COMPILE, RULE_ENV, RUNTIME, CelEngine, CelError, engine

POD = {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}}


def test_engines_by_name() -> None:
    names = [None, "compiled", "closures", "cel-python"]
    found = [type(engine(name) if name else engine()).__name__ for name in names]
    assert found == ["CompilingEngine", "CompilingEngine", "ClosuresEngine", "CelPythonEngine"]


def test_an_engine_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="there is no CEL engine named cel-go"):
        engine("cel-go")


def test_errors_are_values() -> None:
    error = CelError("no such key: x", 1, 2, RUNTIME)
    other = CelError("no such key: x", 1, 2, COMPILE)
    assert (str(error), error == pickle.loads(pickle.dumps(error)), len({error, copy.copy(error), other})) == (  # noqa: S301
        "1:2: no such key: x",
        True,
        2,
    )


def test_errors_of_evaluation_hold_no_traceback(cel: CelEngine) -> None:
    error: Any = cel.compile("pod.spec.nodeName == 'x'", RULE_ENV).evaluate({"pod": POD})
    assert (error.__traceback__, error.__context__, error.__cause__) == (None, None, None)


def test_prepared_inputs_are_shared_by_programs(cel: CelEngine) -> None:
    inputs = cel.prepare({"pod": POD, "claims": []})
    sources = ['pod.metadata.name == "web"', "claims.size() == 0", "pod.spec.containers.all(c, has(c.name))"]
    assert [cel.compile(source, RULE_ENV).evaluate(inputs) for source in sources] == [True, True, True]


class Record(dict[str, Any]):
    """A subclass of dict."""


def test_a_subclass_of_dict_is_a_map(cel: CelEngine) -> None:
    program = cel.compile("pod.metadata.name == 'web' && pod['metadata'].name != 'x' || has(pod.spec)", RULE_ENV)
    assert program.evaluate({"pod": Record(metadata=Record(name="web"))}) is True


def test_inputs_are_not_changed(cel: CelEngine) -> None:
    before = copy.deepcopy(POD)
    cel.compile("pod.spec.containers.map(c, c.name + 'x').exists(n, n == 'ax') && pod == pod", RULE_ENV).evaluate(
        {"pod": POD}
    )
    assert before == POD


def test_programs_and_engine_are_shared_by_threads(cel: CelEngine) -> None:
    program = cel.compile("pod.spec.containers.exists(c, pod.spec.containers.all(d, c.name >= d.name))", RULE_ENV)

    def work(number: int) -> tuple[Any, Any]:
        names = [{"name": str(index)} for index in range(number % 7)]
        compiled = cel.compile(f"pod.spec.containers.size() == {number % 7}", RULE_ENV)
        inputs = {"pod": {"spec": {"containers": names}}}
        return program.evaluate(inputs), compiled.evaluate(inputs)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(work, range(200))) == [(number % 7 > 0, True) for number in range(200)]


def test_many_evaluations_of_one_program_by_many_threads(cel: CelEngine) -> None:
    source = (
        "cel.bind(n, pod.spec.containers.map(c, c.name),"
        " n.all(i, v, v.matches('^c[0-9]+$') && int(v.substring(1)) == i))"
        " && (pod.spec.nodeName == '' || pod.spec.containers.exists(c, c.image == '' || c.name == 'c0'))"
    )
    program = cel.compile(source, RULE_ENV)

    def work(number: int) -> list[Any]:
        inputs = [
            {"pod": {"spec": {"containers": [{"name": f"c{index + (size == 3)}"} for index in range(size)]}}}
            for size in (1, 2, 3, 1 + number % 2)
        ]
        return [program.evaluate(each) for each in inputs for _ in range(25)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(work, range(40)))
    assert found == [[True] * 50 + [False] * 25 + [True] * 25] * 40


def test_the_recursion_limit_stays(cel: CelEngine) -> None:
    before = sys.getrecursionlimit()
    cel.compile("pod.metadata.name == 'x'", RULE_ENV).evaluate({"pod": POD})
    assert sys.getrecursionlimit() == before


def test_nothing_is_written_or_logged(
    cel: CelEngine, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        program = cel.compile("pod.metadata.name.matches(pod.metadata.name + '(') || true", RULE_ENV)
        program.evaluate({"pod": POD})
    assert (capfd.readouterr(), caplog.records) == (("", ""), [])


def test_the_interface_loads_no_library() -> None:
    code = "import sys, tollbar.cel; print(sorted({'celpy', 'lark', 're2'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
