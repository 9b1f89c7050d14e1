"""Rules and SchedulingGates as they are written: valid, or every mistake on a line of its own.

The CRDs' own schemas say the same where they can; they cannot compile expressions or compare several objects.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.placements import PlacementRule, parse_placement
from tollbar.api.reasons import RuleReason
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.cel import RULE_ENV, CelEngine, CelError, failing_constants
from tollbar.decide.rules.placements import compile_placement
from tollbar.decide.rules.rule import DROPPED, Expression, Problem, Rule, compile_rule
from tollbar.model.fields import FieldError, duplicate, entry, invalid, quoted
from tollbar.model.objects import Object, key_of

_EXPRESSION: Final = "spec.match.cel.expression"


def rule_errors(obj: Any, engine: CelEngine) -> list[FieldError]:
    """Everything wrong with this TolerationRule, the errors of its expression last."""
    return _errors(obj, parse_rule(obj), compile_rule, engine)


def placement_errors(obj: Any, engine: CelEngine) -> list[FieldError]:
    """The same of a PlacementRule."""
    return _errors(obj, parse_placement(obj), compile_placement, engine)


def _errors(
    obj: Any,
    parsed: TolerationRule | PlacementRule | list[FieldError],
    compiling: Callable[[Object, CelEngine], object],
    engine: CelEngine,
) -> list[FieldError]:
    if isinstance(parsed, list):
        return [*parsed, *_expression_errors(obj, engine, {error.field for error in parsed})]
    compiled = compiling(obj, engine)
    if not isinstance(compiled, Problem):
        return []
    field, _, detail = compiled.message.partition(": ")
    expression = parsed.spec.match.cel.expression if parsed.spec.match.cel else ""
    return [invalid(field, expression, detail, compiled.reason)]


def rule_warnings(obj: Any, engine: CelEngine, *, kept: bool = True) -> list[FieldError]:
    """What the author of a valid TolerationRule has to know; the API server may cut a warning of over 256 characters.

    `kept` says whether the API server keeps tolerations of devices in claims.

    All rules are decided on the same Pod, so that their order does not matter: none sees what another one adds to it.
    """
    compiled = compile_rule(obj, engine)
    if not isinstance(compiled, Rule):
        return []
    found = _warnings(obj, compiled)
    if compiled.device_tolerations:
        why = "for claims and templates that are created from now on: the spec of those that exist is immutable"
        found.append(FieldError("spec.deviceTolerations", why if kept else DROPPED))
    if compiled.reads_tolerations:
        why = "reads pod.spec.tolerations: what other rules add there, it sees only after admission, or never"
        found.append(FieldError(_EXPRESSION, why))
    return found


def placement_warnings(obj: Any, engine: CelEngine) -> list[FieldError]:
    """The same of a valid PlacementRule."""
    compiled = compile_placement(obj, engine)
    return [] if isinstance(compiled, Problem) else _warnings(obj, compiled.rule)


def _warnings(obj: Any, rule: Rule) -> list[FieldError]:
    """What the author of a rule of any kind has to know."""
    found = list(_hidden(obj["spec"], "spec"))
    if isinstance(rule.match, Expression):
        failing = failing_constants(rule.match.program.source, RULE_ENV)
        found += [
            FieldError(_EXPRESSION, f"{error.line}:{error.column}: always fails: {error.message}") for error in failing
        ]
    return found


def _expression_errors(obj: Any, engine: CelEngine, wrong: Collection[str]) -> Iterator[FieldError]:
    """The error of the expression of a rule that has errors elsewhere."""
    value = obj
    for name in _EXPRESSION.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str) or _EXPRESSION in wrong:
        return
    try:
        engine.compile(value, RULE_ENV)
    except CelError as error:
        yield invalid(_EXPRESSION, value, str(error), RuleReason.INVALID_EXPRESSION)


def _hidden(value: Any, path: str) -> Iterator[FieldError]:
    """Characters in texts that do not show, such as those that turn the direction of what follows."""
    match value:
        case dict():
            for key, member in value.items():
                yield from _hidden(member, f"{path}.{key}")
        case list():
            for index, member in enumerate(value):
                yield from _hidden(member, entry(path, index))
        case str():
            hidden = {each for each in value if not each.isprintable()} - {"\n", "\t", "\r"}
            if hidden:
                names = ", ".join(f"U+{ord(each):04X}" for each in sorted(hidden))
                yield FieldError(
                    path, f"contains characters that do not show ({names}): it may not be what it looks like"
                )


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
