"""The oracle's protocol: what tests and benchmarks rely on when they ask what Kubernetes makes of an expression."""

import subprocess
from typing import Any

import pytest
from planes import since

from tollbar.devplane.binaries import DEFAULT_VERSION, Binaries
from tollbar.devplane.real.oracle import Oracle, OracleError
from tollbar.model.objects import Object

pytestmark = since(DEFAULT_VERSION, "there is no oracle")

DEVICE = {"driver": "a.example.com", "attributes": {"lanes": {"ints": [1, 2]}}, "capacity": {"m": {"value": "1Gi"}}}

ANSWERS: dict[str, tuple[Object, Object]] = {
    "a value": ({"expression": "1 + 1"}, {"outcome": "value", "type": "int", "value": 2, "cost": 1}),
    "an int that a double cannot hold": (
        {"expression": "pod.n", "inputs": {"pod": {"n": 9007199254740993}}},
        {"outcome": "value", "type": "int", "value": "9007199254740993", "cost": 2},
    ),
    "kinds within a value": (
        {"expression": '[dyn(1), dyn(2.0), dyn({"a": b"x"})]', "typed": True},
        {
            "outcome": "value",
            "type": "list",
            "value": ["list", [["int", "1"], ["double", "2.0"], ["map", [[["string", "a"], ["bytes", "eA=="]]]]]],
        },
    ),
    "a declared type": (
        {"expression": "x + 1.0", "variables": {"x": "double"}, "inputs": {"x": 1.5}},
        {"outcome": "value", "type": "double", "value": 2.5, "cost": 2},
    ),
    "a selector": (
        {"expression": 'device.attributes["a.example.com"].lanes.includes(2)', "device": DEVICE},
        {"outcome": "value", "type": "bool", "value": True, "cost": 6},
    ),
    "an error": ({"expression": "1 / 0"}, {"outcome": "error", "message": "division by zero", "value": None}),
}


@pytest.fixture(scope="module")
def oracle(binaries: Binaries) -> Oracle:
    return Oracle.of(binaries)


@pytest.mark.parametrize(("request_", "want"), ANSWERS.values(), ids=ANSWERS)
def test_an_answer(oracle: Oracle, request_: Object, want: Object) -> None:
    (answer,) = oracle.ask([{"id": "n", **request_}])
    assert {key: answer.get(key) for key in want} | {"id": answer["id"]} == {"id": "n", **want}


def test_a_refusal_names_the_place(oracle: Oracle) -> None:
    (answer,) = oracle.ask([{"expression": "x + 1", "variables": {"x": "string"}}])
    assert (answer["outcome"], "1:3" in answer["message"]) == ("compile_error", True)


def test_answers_keep_the_order_of_requests(oracle: Oracle) -> None:
    answers = oracle.ask({"id": number, "expression": str(number)} for number in range(500))
    assert [(answer["id"], answer["value"]) for answer in answers] == [(number, number) for number in range(500)]


def test_times_are_measured_on_request(oracle: Oracle) -> None:
    rule, selector = oracle.ask(
        [{"expression": "1 + 1", "repeat": 10}, {"expression": "true", "device": DEVICE, "repeat": 10}]
    )
    measured: list[Any] = [rule["nanoseconds"], rule["nanosecondsWithoutCost"], selector["nanoseconds"]]
    assert [value > 0 for value in measured] == [True] * 3


def test_a_line_that_is_no_request_is_answered_too(oracle: Oracle) -> None:
    done = subprocess.run(oracle.command, input='{"expression": 1}\n{\n', capture_output=True, text=True, check=True)
    assert [line.count('"compile_error"') for line in done.stdout.splitlines()] == [1, 1]


def test_a_binary_without_an_oracle_is_an_error() -> None:
    with pytest.raises(OracleError, match="0 answers to 1 requests"):
        Oracle(("true",)).ask([{"expression": "1"}])
