"""Inputs of device selectors: missing attributes, refused values, and the places of errors.

The answers of selectors are in tests/cel/selectors.py, beside those of Kubernetes.
"""

from typing import Any

import pytest

from tollbar.cel import DEVICE_ENV, CelEngine, CelError, devices

DRIVER = "gpu.example.com"
ATTRIBUTES = {"model": {"string": "a100"}, "driverVersion": {"version": "12.4.0-rc.1"}}

ERRORS: dict[str, tuple[str, CelError]] = {
    "a version is no text": (
        'device.attributes["gpu.example.com"].driverVersion == "12.4.0-rc.1"',
        CelError("no such overload: ==(semver, string)", 1, 1, "RUNTIME"),
    ),
    "an unknown name": (
        'device.attributes["gpu.example.com"].nope == 1',
        CelError("no such key: nope", 1, 38, "RUNTIME"),
    ),
    "an unknown name in an unknown domain": (
        'sign(device.capacity["nope.example.com"].mem) == 1',
        CelError("no such key: mem", 1, 42, "RUNTIME"),
    ),
    "a result that is not bool": (
        'device.attributes["gpu.example.com"].model',
        CelError("must evaluate to bool but is string", 1, 38, "RUNTIME"),
    ),
}


@pytest.mark.parametrize(("source", "want"), ERRORS.values(), ids=ERRORS)
def test_an_error_points_to_the_attribute(cel: CelEngine, source: str, want: CelError) -> None:
    assert cel.compile(source, DEVICE_ENV).evaluate(devices.prepare(DRIVER, ATTRIBUTES, {})) == want


@pytest.mark.parametrize("shared", [False, True])
def test_a_device_does_not_allow_multiple_allocations_by_default(cel: CelEngine, shared: bool) -> None:
    program = cel.compile("device.allowMultipleAllocations", DEVICE_ENV)
    given = {"allow_multiple_allocations": True} if shared else {}
    assert program.evaluate(devices.prepare(DRIVER, {}, {}, **given)) is shared


def test_a_device_without_attributes_and_capacity(cel: CelEngine) -> None:
    program = cel.compile("device.attributes == {} && device.capacity == {}", DEVICE_ENV)
    assert program.evaluate(devices.prepare(DRIVER, {}, {})) is True


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "an attribute without value": ({"a": {}}, {}),
    "an attribute of no known kind": ({"a": {"double": 1.5}}, {}),
    "an attribute of the wrong type": ({"a": {"int": "1"}}, {}),
    "an int that is a bool": ({"a": {"int": True}}, {}),
    "a list with an element of the wrong type": ({"a": {"ints": [1, "2"]}}, {}),
    "a list with a version that is none": ({"a": {"versions": ["1"]}}, {}),
    "a list that is none": ({"a": {"strings": "a"}}, {}),
    "a version that is none": ({"a": {"version": "1.0"}}, {}),
    "a capacity without value": ({}, {"a": {}}),
    "a capacity that is no quantity": ({}, {"a": {"value": "much"}}),
}


@pytest.mark.parametrize(("attributes", "capacity"), REFUSED.values(), ids=REFUSED)
def test_values_that_the_api_server_does_not_admit_are_refused(
    attributes: dict[str, Any], capacity: dict[str, Any]
) -> None:
    with pytest.raises(ValueError, match=r"\A(unsupported attribute value|not a )"):
        devices.prepare(DRIVER, attributes, capacity)
