"""`tollbar eval`: requests and answers, line by line."""

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tollbar.cli import main

POD = {"metadata": {"name": "web", "labels": {"app": "x"}}, "spec": {"priority": 7}}


def evaluate(*requests: Any, engine: str = "compiled") -> Result:
    lines = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in requests)
    return CliRunner().invoke(main, ["eval", "--engine", engine], input=lines)


def answers(*requests: Any, engine: str = "compiled") -> list[Any]:
    return [json.loads(line) for line in evaluate(*requests, engine=engine).stdout.splitlines()]


def value(type_: str, value: Any) -> dict[str, Any]:
    return {"id": 1, "outcome": "value", "type": type_, "value": value, "message": ""}


ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a rule": ({"expression": 'pod.metadata.name == "web"', "inputs": {"pod": POD}}, value("bool", True)),
    "a part of a rule": ({"expression": "pod.metadata.labels", "inputs": {"pod": POD}}, value("map", {"app": "x"})),
    "an int": ({"expression": "pod.spec.priority + 1", "inputs": {"pod": POD}}, value("int", 8)),
    "an int that a double cannot hold": ({"expression": "9007199254740993"}, value("int", "9007199254740993")),
    "the largest that it can": ({"expression": "-9007199254740992"}, value("int", -9007199254740992)),
    "an unsigned int": ({"expression": "18446744073709551615u"}, value("uint", "18446744073709551615")),
    "a double": ({"expression": "1.0 / 4.0"}, value("double", 0.25)),
    "a whole double": ({"expression": "2.0"}, value("double", 2.0)),
    "no number": ({"expression": "0.0 / 0.0"}, value("double", "NaN")),
    "infinity": ({"expression": "-1.0 / 0.0"}, value("double", "-Infinity")),
    "null": ({"expression": "null"}, value("null_type", None)),
    "bytes": ({"expression": r'b"\xff"'}, value("bytes", "/w==")),
    "a list": ({"expression": '[dyn(1), dyn("a"), dyn(1u)]'}, value("list", [1, "a", 1])),
    "a map": ({"expression": "{1: [true]}"}, value("map", {"1": [True]})),
    "a timestamp": (
        {"expression": 'timestamp("2024-02-29T12:00:00.120+01:00")'},
        value("timestamp", "2024-02-29T11:00:00.12Z"),
    ),
    "a duration": ({"expression": 'duration("-1500ms")'}, value("duration", "-1.5s")),
    "a quantity": ({"expression": 'quantity("1Gi")'}, value("quantity", "1073741824")),
    "a fraction of a quantity": ({"expression": 'quantity("100m")'}, value("quantity", "0.1")),
    "a version": ({"expression": 'semver("1.2.3-rc.1+b")'}, value("semver", "1.2.3-rc.1+b")),
    "an address": ({"expression": 'ip("::1")'}, value("ip", "::1")),
    "a network": ({"expression": 'cidr("10.0.0.0/8")'}, value("cidr", "10.0.0.0/8")),
    "an optional": ({"expression": "optional.of(1)"}, value("optional", 1)),
    "no optional": ({"expression": "optional.none()"}, value("optional", None)),
    "a type": ({"expression": "type(1)"}, value("type", "int")),
    "variables of one's own": (
        {"expression": "x.map(i, i * 2)", "variables": {"x": "list<int>"}, "inputs": {"x": [1, 2]}},
        value("list", [2, 4]),
    ),
    "an input that is not declared": ({"expression": "x + y", "inputs": {"x": 1, "y": 2}}, value("int", 3)),
    "an input that is not declared beside one that is": (
        {"expression": "x + size(y)", "variables": {"x": "int"}, "inputs": {"x": 1, "y": "ab"}},
        value("int", 3),
    ),
    "a device selector": (
        {
            "expression": 'device.attributes["a.example.com"].model == "x"',
            "device": {"driver": "a.example.com", "attributes": {"model": {"string": "x"}}},
        },
        value("bool", True),
    ),
    "an error": (
        {"expression": "1 / 0"},
        {"id": 1, "outcome": "error", "type": "", "value": None, "message": "1:1: division by zero"},
    ),
    "what does not compile": (
        {"expression": "pods.size()"},
        {
            "id": 1,
            "outcome": "compile_error",
            "type": "",
            "value": None,
            "message": "1:1: undefined variable 'pods'; did you mean 'pod'?",
        },
    ),
}


@pytest.mark.parametrize(("request_", "want"), ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("engine", ["compiled", "closures"])
def test_an_answer(engine: str, request_: dict[str, Any], want: dict[str, Any]) -> None:
    assert answers({"id": 1, **request_}, engine=engine) == [want]


def test_answers_keep_the_order_and_the_ids_of_requests() -> None:
    found = answers({"id": "a", "expression": "1"}, "", {"expression": "2"}, {"id": [3], "expression": "3"})
    assert [(each["id"], each["value"]) for each in found] == [("a", 1), (None, 2), ([3], 3)]


_HALF = "not Unicode: half of a surrogate pair"
BAD: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "not JSON"),
    "no object": ([1], "the request must be an object"),
    "no expression": ({"id": 1}, "expression must be a string"),
    "inputs that are none": ({"expression": "1", "inputs": [1]}, "inputs must be an object"),
    "variables that are none": ({"expression": "1", "variables": "x"}, "variables must be an object"),
    "a misspelt field": ({"expression": "1", "input": {}}, 'unknown field "input" of the request'),
    "a misspelt field of a device": (
        {"expression": "1", "device": {"drivers": "a"}},
        'unknown field "drivers" of device',
    ),
    "half a character": ({"expression": "x", "inputs": {"x": "\ud800"}, "variables": {"x": "dyn"}}, _HALF),
    "half a character in the id": ({"expression": "1", "id": "\ud800"}, _HALF),
    "a deep input": (
        f'{{"expression": "x", "variables": {{"x": "dyn"}}, "inputs": {{"x": {"[" * 900}{"]" * 900}}}}}',
        "nested too deeply",
    ),
    "a device that is none": ({"expression": "1", "device": 1}, "device must be an object"),
    "a device with a wrong quantity": (
        {"expression": "true", "device": {"driver": "a", "capacity": {"m": {"value": "much"}}}},
        "device: not a quantity",
    ),
}


@pytest.mark.parametrize(("request_", "said"), BAD.values(), ids=BAD)
def test_a_line_that_is_no_request_has_an_answer_of_its_own(request_: Any, said: str) -> None:
    done = evaluate({"expression": "1"}, request_, {"id": 3, "expression": "3"})
    first, bad, last = map(json.loads, done.stdout.splitlines())
    want = {"id": None, "outcome": "bad_request", "type": "", "value": None, "message": f"line 2: {said}"}
    assert (done.exit_code, first["value"], bad, last["value"]) == (2, 1, want, 3)
