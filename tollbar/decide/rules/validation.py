"""TolerationRules and SchedulingGates as they are written: valid, or every mistake on a line of its own.

The CRDs' own schemas say the same where they can; they cannot compile expressions or compare several objects.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.reasons import RuleReason
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.cel import CelEngine
from tollbar.decide.rules.rule import Problem, compile_rule
from tollbar.model.fields import FieldError, duplicate, invalid, quoted
from tollbar.model.objects import Object, key_of


def rule_errors(obj: Any, engine: CelEngine) -> list[FieldError]:
    """Everything wrong with this TolerationRule; the expression is compiled when the rest is valid."""
    parsed = parse_rule(obj)
    if not isinstance(parsed, TolerationRule):
        return parsed
    compiled = compile_rule(obj, engine)
    if not isinstance(compiled, Problem):
        return []
    field, _, detail = compiled.message.partition(": ")
    expression = parsed.spec.match.cel.expression if parsed.spec.match.cel else ""
    return [invalid(field, expression, detail, compiled.reason)]


def gate_errors(obj: Any, declared: Iterable[Object]) -> list[FieldError]:
    """Everything wrong with this SchedulingGate, given others that may declare the same gate."""
    parsed = parse_gate(obj)
    if not isinstance(parsed, SchedulingGate):
        return parsed
    taken = sorted(
        key_of(gate).name
        for gate in declared
        if key_of(gate) != key_of(obj) and (gate.get("spec") or {}).get("gateName") == parsed.spec.gate_name
    )
    if not taken:
        return []
    problem = duplicate("spec.gateName", parsed.spec.gate_name, RuleReason.INVALID_SPEC)
    return [replace(problem, message=f"{problem.message}: SchedulingGate {quoted(taken[0])} declares it")]
