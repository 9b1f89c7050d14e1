"""What is wrong with a rule or a gate, each with the reason that a condition has for it."""

import pytest
from fakes.engine import FakeEngine, FakeProgram
from objects.builders import TolerationRule, scheduling_gate, toleration, toleration_rule

from tollbar.decide.rules.rule import Problem, problem
from tollbar.decide.rules.validation import gate_errors, rule_errors, rule_warnings
from tollbar.model.fields import FieldError


def test_the_error_of_an_expression_is_told_beside_others() -> None:
    wrong = toleration_rule().cel("nope").but("spec.mode", "Later")
    *others, of_expression = rule_errors(wrong, FakeEngine())
    assert [each.field for each in others] == ["spec.mode"]
    assert of_expression == FieldError(
        "spec.match.cel.expression", 'Invalid value: "nope": 1:7: undeclared reference', "InvalidExpression"
    )


READS_A_POD = FakeEngine({"pod": FakeProgram(lambda _: True, frozenset({"pod.metadata.labels"}))})
EXPRESSIONS = {
    "one that does not compile": toleration_rule().cel("nope"),
    "one for claims that reads the Pod": toleration_rule().cel("pod").giving_devices(toleration("example.com/gpu")),
}


@pytest.mark.parametrize("wrong", EXPRESSIONS.values(), ids=EXPRESSIONS)
def test_an_expression_that_is_wrong_is_so_by_its_own_reason(wrong: TolerationRule) -> None:
    (error,) = rule_errors(wrong, READS_A_POD)
    assert (error.field, error.reason) == ("spec.match.cel.expression", "InvalidExpression")


def test_a_gate_that_another_one_declares() -> None:
    first, second = (scheduling_gate(name, "example.com/x").expiring("60s", "Report") for name in ("first", "second"))
    (error,) = gate_errors(second, [first, second])
    assert (error.field, error.reason) == ("spec.gateName", "InvalidSpec")


def test_all_errors_make_one_problem_with_the_reason_of_the_first() -> None:
    errors = [FieldError("spec.a", "Required value", "InvalidSpec"), FieldError("spec.b", "Forbidden", "Other")]
    assert problem(errors) == Problem("InvalidSpec", "spec.a: Required value; spec.b: Forbidden")


def test_a_character_that_does_not_show_is_told_by_its_place_in_a_list() -> None:
    hidden = toleration_rule().device("gpu.example.com", model={"string": "a\u202eb"})
    (warning,) = rule_warnings(hidden, FakeEngine())
    assert warning == FieldError(
        "spec.match.device.prototypes[0].attributes.model.string",
        "contains characters that do not show (U+202E): it may not be what it looks like",
    )


def test_the_end_of_a_line_may_have_a_carriage_return() -> None:
    engine = FakeEngine({"a\r\n\tb": FakeProgram(lambda _: True, frozenset({"claims.spec"}))})
    assert rule_warnings(toleration_rule().cel("a\r\n\tb"), engine) == []
