"""What a Pod without our gate still lacks, one plan each."""

from dataclasses import replace

import pytest
from fakes.engine import in_words
from objects import patching
from objects.builders import Pod, toleration
from unit.decide.pods.gateplans import (
    APP,
    APPEND,
    CHAINED,
    CLUSTER,
    EMPTY,
    FAILING,
    FREE,
    GPU,
    HELD,
    LATE_WITH_GPU,
    ONLY_X,
    TEST_UID,
    TOLERATION,
    Given,
    added,
    additions,
    first_record,
    is_done_once,
    leaves_what_it_expects,
    nothing,
)

from tollbar.decide.pods import tolerationgate
from tollbar.decide.pods.tolerationgate import GatePlan
from tollbar.model.plan import Event

LATE = {
    "what admission missed": (Given(FREE), LATE_WITH_GPU),
    "what a rule reads that another one added": (
        Given(FREE.tolerating(TOLERATION), (GPU, CHAINED)),
        GatePlan(
            (
                TEST_UID,
                {**ONLY_X, "value": [toleration("x"), TOLERATION]},
                {**APPEND, "value": toleration("example.com/chained")},
                *first_record("late", CHAINED),
            ),
            (added("1 toleration by chained; added after admission"),),
            because=("Matched: rule chained", "Matched: rule gpu"),
            additions=additions(CHAINED),
            matched=(CHAINED, GPU),
        ),
    ),
    "nothing lacking": (Given(FREE.tolerating(TOLERATION)), nothing("Matched: rule gpu", matched=(GPU,))),
    "no rule": (Given(FREE, ()), nothing("NoRuleMatched")),
    "somebody else's gate is no hindrance": (Given(FREE.gated("a.dev/x")), LATE_WITH_GPU),
    "rules that are not loaded": (Given(FREE, facts={"ready": False}), nothing("RulesNotReady")),
    "an undecided rule": (Given(FREE, cluster=EMPTY), nothing("Undecided: rule gpu: ResourceClaim gpu")),
    "a true rule adds its tolerations beside an undecided one": (
        Given(FREE.labelled(app="web"), (GPU, APP), EMPTY),
        GatePlan(
            (TEST_UID, ONLY_X, {**APPEND, "value": toleration("example.com/app")}, *first_record("late", APP)),
            (added("1 toleration by app; added after admission"),),
            because=("Matched: rule app", "Undecided: rule gpu: ResourceClaim gpu"),
            additions=additions(APP),
            matched=(APP,),
        ),
    ),
    "nothing is added where the namespace is not known": (
        Given(FREE, cluster=CLUSTER[1:]),
        nothing("Undecided: rule gpu: Namespace ml"),
    ),
    "a rule that fails is an Event": (
        Given(FREE, (FAILING,)),
        nothing(
            "Failed: rule r: 1:1: no such key",
            events=(Event("Warning", "RuleEvaluationFailed", "rule r: 1:1: no such key", "Evaluate"),),
            failed=(("r", "1:1: no such key"),),
        ),
    ),
    "released earlier, and a rule came since": (
        Given(FREE.labelled({"tollbar.dev/gate": "released"})),
        LATE_WITH_GPU,
    ),
}


@pytest.mark.parametrize(("given", "want"), LATE.values(), ids=LATE)
def test_plan(given: Given, want: GatePlan) -> None:
    assert in_words(given.decide()) == want


PATCHED = {title: given for title, (given, want) in LATE.items() if want.patch}


@pytest.mark.parametrize("given", PATCHED.values(), ids=PATCHED)
def test_once_done_nothing_is_left_to_do(given: Given) -> None:
    assert is_done_once(given)


EXPECTED = {title: given for title, given in PATCHED.items() if not any(rule.reads_tolerations for rule in given.rules)}


@pytest.mark.parametrize("given", EXPECTED.values(), ids=EXPECTED)
def test_the_expected_pod_is_what_the_patch_leaves_but_for_the_record(given: Given) -> None:
    assert leaves_what_it_expects(given)


def test_what_a_rule_adds_for_the_tolerations_of_another_one_comes_after_the_release() -> None:
    given = Given(HELD, (CHAINED, GPU))
    plan = given.decide()
    assert (plan.released, plan.additions) == (True, additions(GPU))
    assert tolerationgate.expected(given.gather(), plan) is None, "its own event has to wake the Pod"
    late = replace(given, pod=Pod(patching.apply(given.pod, plan.patch))).decide()
    assert (late.via, late.additions) == ("late", additions(CHAINED))
