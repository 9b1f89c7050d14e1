"""The Events about rules."""

from tollbar.decide.rules import events
from tollbar.model.plan import Event


def test_a_rule_that_fails_is_told_in_the_words_of_the_failure() -> None:
    assert events.rule_failing("no such key: a") == Event("Warning", "RuleFailing", "no such key: a", "Evaluate")


def test_a_rule_that_is_invalid_is_told_with_the_reason_of_its_condition() -> None:
    told = events.invalid_rule("InvalidCEL", "1:1: broken")
    assert told == Event("Warning", "InvalidRule", "InvalidCEL: 1:1: broken", "Compile")
