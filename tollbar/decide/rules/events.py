"""The Events about TolerationRules: every reason and every text."""

from tollbar.model.plan import Code, Event


class RuleEvent(Code):
    """Events on TolerationRules."""

    INVALID_RULE = (
        "InvalidRule",
        "Warning: the rule is not in force; the note says the reason of its condition `Ready`, and the place.",
    )
    RULE_FAILING = (
        "RuleFailing",
        "Warning: the rule failed for some Pod, for which it counted as false. Guard the field with `has(...)`.",
    )


def invalid_rule(reason: str, message: str) -> Event:
    """For the reason of a condition."""
    return Event("Warning", RuleEvent.INVALID_RULE, f"{reason}: {message}", "Compile")


def rule_failing(why: str) -> Event:
    return Event("Warning", RuleEvent.RULE_FAILING, why, "Evaluate")
