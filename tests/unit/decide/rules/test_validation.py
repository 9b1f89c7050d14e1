"""What is wrong with a rule or a gate, each with the reason that a condition has for it."""

from builders import scheduling_gate, toleration_rule
from fakes import FakeEngine

from tollbar.decide.rules.rule import Problem, problem
from tollbar.decide.rules.validation import gate_errors, rule_errors
from tollbar.model.fields import FieldError


def test_the_error_of_an_expression_is_told_beside_others() -> None:
    wrong = toleration_rule().cel("nope").but("spec.mode", "Later")
    *others, of_expression = rule_errors(wrong, FakeEngine())
    assert [each.field for each in others] == ["spec.mode"]
    assert of_expression == FieldError(
        "spec.match.cel.expression", 'Invalid value: "nope": 1:7: undeclared reference', "InvalidExpression"
    )


def test_a_gate_that_another_one_declares() -> None:
    first, second = (scheduling_gate(name, "example.com/x").expiring("60s", "Report") for name in ("first", "second"))
    (error,) = gate_errors(second, [first, second])
    assert (error.field, error.reason) == ("spec.gateName", "InvalidSpec")


def test_all_errors_make_one_problem_with_the_reason_of_the_first() -> None:
    errors = [FieldError("spec.a", "Required value", "InvalidSpec"), FieldError("spec.b", "Forbidden", "Other")]
    assert problem(errors) == Problem("InvalidSpec", "spec.a: Required value; spec.b: Forbidden")
