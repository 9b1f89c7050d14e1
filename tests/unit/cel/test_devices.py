"""Device selectors: attributes and capacities by domain and name."""

from typing import Any

import pytest

from tollbar.cel import DEVICE_ENV, CelEngine, CelError, devices

DRIVER = "gpu.example.com"
ATTRIBUTES: dict[str, Any] = {
    "model": {"string": "a100"},
    "index": {"int": 3},
    "shared": {"bool": True},
    "driverVersion": {"version": "12.4.0-rc.1"},
    "other.example.com/model": {"string": "elsewhere"},
    "gpu.example.com/numa": {"int": 1},
    "links": {"strings": ["nv-1", "nv-2"]},
    "nodes": {"ints": [0, 1]},
    "modes": {"bools": []},
    "firmware": {"versions": ["1.0.0", "2.0.0-rc.1"]},
}
CAPACITY: dict[str, Any] = {"mem": {"value": "80Gi"}, "other.example.com/slots": {"value": "7"}}

ANSWERS: dict[str, tuple[str, Any]] = {
    "the driver": ('device.driver == "gpu.example.com"', True),
    "an attribute of the driver's domain": ('device.attributes["gpu.example.com"].model == "a100"', True),
    "an attribute with its domain written out": ('device.attributes["gpu.example.com"].numa == 1', True),
    "an attribute of another domain": ('device.attributes["other.example.com"].model == "elsewhere"', True),
    "an int": ('device.attributes["gpu.example.com"].index > 2', True),
    "a bool": ('device.attributes["gpu.example.com"].shared', True),
    "a version": ('device.attributes["gpu.example.com"].driverVersion.isLessThan(semver("12.4.0"))', True),
    "the parts of a version": ('device.attributes["gpu.example.com"].driverVersion.major() == 12', True),
    "a capacity": ('device.capacity["gpu.example.com"].mem.compareTo(quantity("80Gi")) >= 0', True),
    "a capacity of another domain": ('device.capacity["other.example.com"].slots.asInteger() == 7', True),
    "allocations to many are off unless said otherwise": ("device.allowMultipleAllocations", False),
    "a domain bound to a variable": (
        'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.shared && gpu.model == "a100")',
        True,
    ),
    "an unknown domain is an empty map": ('device.attributes["nope.example.com"].size() == 0', True),
    "an unknown domain is not in the map": ('"nope.example.com" in device.attributes', False),
    "a known domain is": ('"gpu.example.com" in device.attributes && device.attributes.size() == 2', True),
    "an unknown domain has a value all the same": (
        'has(device.attributes.nope) && device.attributes.?nope.hasValue() && device.attributes[?"nope"].hasValue()',
        True,
    ),
    "an unknown name is absent": (
        '!has(device.attributes["gpu.example.com"].nope) && !device.attributes["gpu.example.com"].?nope.hasValue()',
        True,
    ),
    "a list of strings": ('device.attributes["gpu.example.com"].links.exists(l, l.startsWith("nv"))', True),
    "a list includes its elements": (
        'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.links.includes("nv-2") && !gpu.modes.includes(true))',
        True,
    ),
    "a list includes versions": ('device.attributes["gpu.example.com"].firmware.includes(semver("1.0.0"))', True),
    "a single value includes itself": ('device.attributes["gpu.example.com"].model.includes("a100")', True),
    "a version of a list": ('device.attributes["gpu.example.com"].firmware[1].major() == 2', True),
    "a version is no text": (
        'device.attributes["gpu.example.com"].driverVersion == "12.4.0-rc.1"',
        CelError("no such overload: ==(semver, string)", 1, 1, "RUNTIME"),
    ),
    "a text is no version": ('"12.4.0-rc.1" == device.attributes["gpu.example.com"].driverVersion', False),
    "an attribute of an unknown domain is absent": ('has(device.attributes["nope.example.com"].model)', False),
    "an unknown name is an error": (
        'device.attributes["gpu.example.com"].nope == 1',
        CelError("no such key: nope", 1, 38, "RUNTIME"),
    ),
    "an unknown name in an unknown domain is an error": (
        'sign(device.capacity["nope.example.com"].mem) == 1',
        CelError("no such key: mem", 1, 42, "RUNTIME"),
    ),
    "a result that is not bool is an error": (
        'device.attributes["gpu.example.com"].model',
        CelError("must evaluate to bool but is string", 1, 38, "RUNTIME"),
    ),
}


@pytest.mark.parametrize(("source", "want"), ANSWERS.values(), ids=ANSWERS)
def test_answer(cel: CelEngine, source: str, want: Any) -> None:
    assert cel.compile(source, DEVICE_ENV).evaluate(devices.prepare(DRIVER, ATTRIBUTES, CAPACITY)) == want


def test_a_device_for_many(cel: CelEngine) -> None:
    program = cel.compile("device.allowMultipleAllocations", DEVICE_ENV)
    assert program.evaluate(devices.prepare(DRIVER, {}, {}, allow_multiple_allocations=True)) is True


def test_a_device_without_anything(cel: CelEngine) -> None:
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
def test_refused(attributes: dict[str, Any], capacity: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\A(unsupported attribute value|not a )"):
        devices.prepare(DRIVER, attributes, capacity)
