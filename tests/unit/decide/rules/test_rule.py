"""From a TolerationRule to a compiled rule, and what a compiled rule says of itself."""

from dataclasses import replace
from typing import Any

import pytest
from fakes.engine import FakeEngine, FakeProgram, expression, rule
from objects.builders import CREATED, TolerationRule, namespace, toleration, toleration_rule

from tollbar.cel import CelError, devices
from tollbar.decide.rules.placements import Placement, compile_placement
from tollbar.decide.rules.rule import (
    Expression,
    ExtendedResources,
    Problem,
    Prototypes,
    Rule,
    compile_rule,
    compile_selector,
)
from tollbar.model import timestamps

PROGRAM = FakeProgram(lambda _: True, frozenset({"claims.spec"}))
ENGINE = FakeEngine({"wants-gpu": PROGRAM})
GPU = toleration("example.com/gpu")
REQUESTS = "claims.spec.devices.requests"

COMPILED: dict[str, tuple[TolerationRule, Rule]] = {
    "CEL, with every default": (
        toleration_rule().cel("wants-gpu"),
        Rule("gpu", 1, "Enforce", "All", {}, (GPU,), Expression(PROGRAM), frozenset({"claims.spec"})),
    ),
    "everything said": (
        toleration_rule().cel("wants-gpu").mode("Audit").when("First").in_namespaces(team="a").giving(GPU, GPU),
        Rule(
            "gpu",
            1,
            "Audit",
            "First",
            {"matchLabels": {"team": "a"}},
            (GPU, GPU),
            Expression(PROGRAM),
            frozenset({"claims.spec"}),
        ),
    ),
    "extended resources": (
        toleration_rule().extended("example.com/gpu", "example.com/nic"),
        Rule(
            "gpu",
            1,
            "Enforce",
            "All",
            {},
            (GPU,),
            ExtendedResources(frozenset({"example.com/gpu", "example.com/nic"})),
            frozenset({"pod.spec.containers", "pod.spec.initContainers"}),
        ),
    ),
    "devices": (
        toleration_rule().device("gpu.example.com", model={"string": "a100"}),
        Rule(
            "gpu",
            1,
            "Enforce",
            "All",
            {},
            (GPU,),
            Prototypes((devices.prepare("gpu.example.com", {"model": {"string": "a100"}}, {}),)),
            frozenset({REQUESTS, "deviceClasses.spec.selectors"}),
        ),
    ),
    "what is empty is left out, as the API server does in Pods": (
        toleration_rule()
        .cel("wants-gpu")
        .giving({"key": "", "operator": "Exists", "value": "", "tolerationSeconds": 0, "effect": "NoExecute"})
        .but("spec.allowReservedKeys", True),
        Rule(
            "gpu",
            1,
            "Enforce",
            "All",
            {},
            ({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},),
            Expression(PROGRAM),
            frozenset({"claims.spec"}),
        ),
    ),
    "an operator that is left out is written out": (
        toleration_rule().cel("wants-gpu").giving({"key": "example.com/gpu", "value": "a"}),
        Rule(
            "gpu",
            1,
            "Enforce",
            "All",
            {},
            ({"key": "example.com/gpu", "operator": "Equal", "value": "a"},),
            Expression(PROGRAM),
            frozenset({"claims.spec"}),
        ),
    ),
}


@pytest.mark.parametrize(("given", "want"), COMPILED.values(), ids=COMPILED)
def test_compile_rule(given: TolerationRule, want: Rule) -> None:
    assert compile_rule(given, ENGINE) == replace(want, created=timestamps.time(CREATED))


PROBLEMS: dict[str, tuple[Any, str]] = {
    "an expression that does not compile": (toleration_rule().cel("nope"), "InvalidExpression"),
    "an invalid prototype": (toleration_rule().device("gpu.example.com", model={"version": "new"}), "InvalidPrototype"),
    "a reserved key": (
        toleration_rule().cel("wants-gpu").giving(toleration("node.kubernetes.io/not-ready")),
        "ReservedKey",
    ),
    "a toleration that the API server refuses": (
        toleration_rule().cel("wants-gpu").giving({**GPU, "value": "a"}),
        "InvalidSpec",
    ),
    "no match": (toleration_rule(), "InvalidSpec"),
    "no spec": ({"metadata": {"name": "gpu"}}, "InvalidSpec"),
    "nothing at all": ({}, "InvalidSpec"),
}


@pytest.mark.parametrize(("given", "want"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_rule_with_a_problem(given: Any, want: str) -> None:
    compiled = compile_rule(given, ENGINE)
    assert isinstance(compiled, Problem)
    assert (compiled.reason, bool(compiled.message)) == (want, True)


def test_a_compile_error_says_where() -> None:
    assert compile_rule(toleration_rule().cel("nope"), ENGINE) == Problem(
        "InvalidExpression", "spec.match.cel.expression: 1:7: undeclared reference"
    )


def test_a_selector_that_does_not_compile_is_a_value() -> None:
    assert (compile_selector("wants-gpu", ENGINE), compile_selector("nope", ENGINE)) == (
        PROGRAM,
        CelError("undeclared reference", 1, 7, "COMPILE"),
    )


def reading(*reads: str) -> Rule:
    return rule("r", expression(lambda _: True, *reads))


# reads_package, reads_requests, reads_namespace, pod_only
READS: dict[str, tuple[Rule, tuple[bool, bool, bool, bool]]] = {
    "the Pod": (reading("pod.metadata.labels"), (False, False, False, True)),
    "nothing": (reading(), (False, False, False, True)),
    "claims as a whole": (reading("claims"), (True, True, False, False)),
    "what claims request": (reading("claims.spec.devices.requests.exactly.count"), (True, True, False, False)),
    "what claims are called": (reading("claims.metadata.name"), (True, False, False, False)),
    "a class": (reading("deviceClasses.metadata.labels"), (True, True, False, False)),
    "the namespace": (reading("namespaceObject.metadata.labels"), (False, False, True, True)),
    "something that begins alike": (reading("claimsOfMine", "claims2.spec"), (False, False, False, True)),
    "the namespace by its selector": (
        rule("r", expression(lambda _: True, "pod"), namespaces={"matchLabels": {"team": "a"}}),
        (False, False, True, True),
    ),
    "extended resources": (
        rule(
            "r",
            ExtendedResources(frozenset({"example.com/gpu"})),
            reads={"pod.spec.containers", "pod.spec.initContainers"},
        ),
        (False, False, False, False),
    ),
}


@pytest.mark.parametrize(("given", "want"), READS.values(), ids=READS)
def test_what_a_rule_reads(given: Rule, want: tuple[bool, ...]) -> None:
    assert (given.reads_package, given.reads_requests, given.reads_namespace, given.pod_only) == want


TEAM_A = {"matchLabels": {"team": "a"}}
SCOPES: dict[str, tuple[Any, Any, bool]] = {
    "an empty selector selects every namespace": ({}, namespace(), True),
    "a selector that holds": (TEAM_A, namespace().labelled(team="a"), True),
    "a selector that does not": (TEAM_A, namespace().labelled(team="b"), False),
    "an unknown namespace may be in scope": (TEAM_A, None, True),
}


@pytest.mark.parametrize(("selector", "given", "want"), SCOPES.values(), ids=SCOPES)
def test_scope(selector: Any, given: Any, want: bool) -> None:
    assert rule("r", expression(lambda _: True), namespaces=selector).in_scope(given) is want


def test_a_rule_that_does_not_say_which_it_is() -> None:
    bare = toleration_rule().cel("wants-gpu").but("metadata.generation", None).but("metadata.creationTimestamp", None)
    compiled = compile_rule(bare, ENGINE)
    assert isinstance(compiled, Rule)
    assert (compiled.generation, compiled.created) == (0, "")


def test_the_rule_of_a_placement_gives_no_tolerations() -> None:
    requirement = {"key": "zone", "operator": "In", "values": ["a"]}
    obj = {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "PlacementRule",
        "metadata": {"name": "batch"},
        "spec": {"match": toleration_rule().cel("wants-gpu")["spec"]["match"], "required": [requirement]},
    }
    compiled = compile_placement(obj, ENGINE)
    assert isinstance(compiled, Placement)
    assert (compiled.rule.tolerations, compiled.required) == ((), (requirement,))
