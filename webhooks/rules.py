"""TolerationRules and SchedulingGates as they are written: valid, or refused with every mistake on a line of its own.

Called by the server; `rule_errors` and `gate_errors` are also what `tollbar lint` says.  The CRDs' own schemas have
been checked by then; what is left are the expressions, and what spans several objects.

Hazard: the configuration ignores an outage, so a wrong object may be stored; the controllers check again and say so
in its conditions.  Two gates of one name that are created at the same moment both pass here.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tollbar import wellknown
from tollbar.api.gates import SchedulingGate, parse_gate
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.cel import CelEngine
from tollbar.decide.rules import Problem, compile_rule
from tollbar.model.fields import FieldError, duplicate, invalid, quoted
from tollbar.model.objects import Object, key_of
from tollbar.views.caches import Caches
from webhooks.review import ALLOWED, Answer


class RulesHandler:
    def __init__(self, caches: Caches, *, engine: CelEngine) -> None:
        self._caches = caches
        self._engine = engine

    def __call__(self, request: Object) -> Answer:
        kind = request.get("kind") or {}
        new, old = request.get("object"), request.get("oldObject")
        if request.get("operation") not in ("CREATE", "UPDATE") or kind.get("group") != wellknown.GROUP:
            return ALLOWED
        if isinstance(new, dict) and isinstance(old, dict) and new.get("spec") == old.get("spec"):
            return ALLOWED  # labels and finalizers of an object that became invalid can still be changed
        match kind.get("kind"):
            case "TolerationRule":
                errors = rule_errors(new, self._engine)
            case "SchedulingGate":
                errors = gate_errors(new, self._caches)
            case _:
                return ALLOWED
        return Answer(denial=refusal(str(kind["kind"]), str(request.get("name") or ""), errors)) if errors else ALLOWED


def rule_errors(obj: Any, engine: CelEngine) -> list[FieldError]:
    """Everything wrong with this TolerationRule; the expression is looked at when the rest is right."""
    parsed = parse_rule(obj)
    if not isinstance(parsed, TolerationRule):
        return parsed
    compiled = compile_rule(obj, engine)
    if not isinstance(compiled, Problem):
        return []
    field, _, detail = compiled.message.partition(": ")
    expression = parsed.spec.match.cel.expression if parsed.spec.match.cel else ""
    return [invalid(field, expression, detail, compiled.reason)]


def gate_errors(obj: Any, caches: Caches) -> list[FieldError]:
    """Everything wrong with this SchedulingGate, among all that the cache knows."""
    parsed = parse_gate(obj)
    if not isinstance(parsed, SchedulingGate):
        return parsed
    same = caches.gates.by_index("gate-name", parsed.spec.gate_name)
    taken = sorted(key_of(gate).name for gate in same if key_of(gate) != key_of(obj))
    if not taken:
        return []
    problem = duplicate("spec.gateName", parsed.spec.gate_name, wellknown.INVALID_SPEC)
    return [replace(problem, message=f"{problem.message}: SchedulingGate {quoted(taken[0])} declares it")]


def refusal(kind: str, name: str, errors: Sequence[FieldError]) -> Object:
    """The Status that kubectl prints as `The KIND "NAME" is invalid:` and one line per cause."""
    lines = "".join(f"\n* {error}" for error in errors)
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{kind}.{wellknown.GROUP} "{name}" is invalid:{lines}',
        "details": {
            "group": wellknown.GROUP,
            "kind": kind,
            "name": name,
            "causes": [{"reason": error.cause, "message": error.message, "field": error.field} for error in errors],
        },
    }
