"""Device rules: whether the requests of a package could get a device like one of the prototypes."""

from typing import Any

import pytest
from fakes.engine import FakeEngine, FakeProgram, no_selector, rule
from objects.builders import claim, device_class
from unit.decide.pods.packages import BUILDING, EXCEEDED, NO, PLENTY, YES, package

from tollbar.cel import COMPILE, CelError
from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import CostLimits, Evaluator, Truth, Verdict
from tollbar.decide.rules.rule import Prototypes
from tollbar.model.objects import Object

# A prototype is an input of the device environment; here simply what it is called.
IS_BIG_STEPS = 7
BIG, SMALL = {"device": "big"}, {"device": "small"}
IS_BIG = FakeProgram(lambda inputs: inputs["device"] == "big", frozenset({"device"}), steps=IS_BIG_STEPS)
IS_KNOWN = FakeProgram(lambda inputs: inputs["device"] in ("big", "small"), frozenset({"device"}))
FAILS = FakeProgram(lambda inputs: inputs["attributes"], frozenset({"device"}))
SELECTORS = {"is-big": IS_BIG, "is-known": IS_KNOWN, "fails": FAILS}


def selector(source: str) -> Any:
    return SELECTORS.get(source) or CelError("no", 1, 1, COMPILE)


BIGS, ANYS = device_class("bigs").selecting("is-big"), device_class("anys").selecting("is-known")
FREE = device_class("free")
NONE = device_class("none").selecting("fails")
BROKEN = device_class("broken").selecting("no such selector")

# given a claim and prototypes: All, Any, First
DEVICES: dict[str, tuple[Object, tuple[Object, ...], tuple[bool, bool, bool]]] = {
    "no requests": (claim(), (BIG,), (False, False, False)),
    "a class that selects it": (claim().request("bigs"), (BIG,), (True, True, True)),
    "a class that selects another": (claim().request("bigs"), (SMALL,), (False, False, False)),
    "one of several prototypes": (claim().request("bigs"), (SMALL, BIG), (True, True, True)),
    "a class without selectors": (claim().request("free"), (SMALL,), (True, True, True)),
    "the request narrows the class": (claim().request("free", selectors=("is-big",)), (SMALL,), (False, False, False)),
    "both select it": (claim().request("anys", selectors=("is-big",)), (BIG,), (True, True, True)),
    "no one device passes both": (claim().request("bigs", selectors=("fails",)), (BIG, SMALL), (False, False, False)),
    "a selector that fails selects nothing": (claim().request("none"), (BIG,), (False, False, False)),
    "a selector that does not compile selects nothing": (claim().request("broken"), (BIG,), (False, False, False)),
    "a request that names no class": (
        claim().but("spec.devices.requests", [{"name": "r0", "exactly": {}}]),
        (BIG,),
        (False, False, False),
    ),
    "any request will do": (claim().request("none").request("bigs"), (BIG,), (True, True, True)),
    "every choice": (claim().request("bigs", "anys"), (BIG,), (True, True, True)),
    "the first choice": (claim().request("bigs", "none"), (BIG,), (False, True, True)),
    "the second choice": (claim().request("none", "bigs"), (BIG,), (False, True, False)),
    "every choice of one request among others": (
        claim().request("none", "bigs").request("bigs", "anys"),
        (BIG,),
        (True, True, True),
    ),
    "choices of two requests that may both be others": (
        claim().request("none", "bigs").request("bigs", "none"),
        (BIG,),
        (False, True, True),
    ),
}


@pytest.mark.parametrize(("given", "prototypes", "want"), DEVICES.values(), ids=DEVICES)
def test_devices(given: Object, prototypes: tuple[Object, ...], want: tuple[bool, ...]) -> None:
    classes = {each["metadata"]["name"]: each for each in (BIGS, ANYS, FREE, NONE, BROKEN)}
    evaluator = Evaluator(package(given, classes=classes), FakeEngine(), selector, PLENTY)
    rules = (rule("r", Prototypes(prototypes), when=when) for when in ("All", "Any", "First"))
    assert tuple(evaluator.verdict(each) for each in rules) == tuple(YES if truth else NO for truth in want)


COMPILING = 50_000 + 1_000 * len("is-big")


def test_a_selector_is_compiled_and_asked_about_a_device_once_for_all_rules() -> None:
    given = package(claim().request("bigs"), classes={"bigs": BIGS})
    limits = CostLimits(1, COMPILING + IS_BIG_STEPS + 2 * (BUILDING + 1), Truth.FALSE)
    evaluator = Evaluator(given, FakeEngine(), selector, limits)
    rules = [rule(name, Prototypes((BIG,))) for name in ("one", "two", "three")]
    assert [evaluator.verdict(each) for each in rules] == [YES, YES, Verdict(Truth.FALSE, EXCEEDED)]


def test_what_a_selector_costs_is_paid() -> None:
    evaluator = Evaluator(package(claim().request("bigs"), classes={"bigs": BIGS}), FakeEngine(), selector, PLENTY)
    evaluator.verdict(rule("r", Prototypes((BIG,))))
    assert evaluator.spent == COMPILING + IS_BIG_STEPS + BUILDING + 1


def test_selectors_that_would_take_too_long_to_compile() -> None:
    given = package(claim().request("free", selectors=("x" * 10_240,)), classes={"free": FREE})
    verdicts = [
        Evaluator(given, FakeEngine(), no_selector, limits).verdict(rule("r", Prototypes((BIG,))))
        for limits in (matching.AT_ADMISSION, matching.IN_THE_CONTROLLER)
    ]
    assert verdicts == [Verdict(Truth.UNKNOWN, EXCEEDED), NO]
