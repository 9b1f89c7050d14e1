"""Validates rules and SchedulingGates; a refusal has one line for every error, a valid rule may get warnings.

The API server has checked the schemas of the CRDs before; this checks the expressions, and uniqueness across objects.

Hazards: failurePolicy is Ignore, so an invalid object may be stored while the webhook is down.  The controllers
validate again and report errors in the condition Ready; of a SchedulingGate that is not valid, the defaults of its gate
apply, and of a gate of others, which has none, no limit.  Two SchedulingGates of one gate that are created at the same
moment both pass.
"""

from collections.abc import Callable, Sequence

from tollbar import wellknown
from tollbar.decide.rules.validation import (
    gate_errors,
    placement_errors,
    placement_warnings,
    rule_errors,
    rule_warnings,
)
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object
from tollbar.views.gatherer import Gatherer
from webhooks.review import ALLOWED, Answer


class RulesHandler:
    def __init__(self, gatherer: Gatherer, kept: Callable[[], bool]) -> None:
        """`kept` says whether the API server keeps tolerations of devices in claims, of which rules warn if not."""
        self._kept = kept
        self._engine = gatherer.ruleset.engine
        self._gates = gatherer.gates

    def __call__(self, request: Object) -> Answer:
        kind = request.get("kind") or {}
        new, old = request.get("object"), request.get("oldObject")
        if request.get("operation") not in ("CREATE", "UPDATE") or kind.get("group") != wellknown.GROUP:
            return ALLOWED
        if isinstance(new, dict) and isinstance(old, dict) and new.get("spec") == old.get("spec"):
            return ALLOWED  # labels and finalizers of an object that became invalid can still be changed
        warnings: Sequence[FieldError] = ()
        match kind.get("kind"):
            case "TolerationRule":
                errors = rule_errors(new, self._engine)
                warnings = () if errors else rule_warnings(new, self._engine, kept=self._kept())
            case "PlacementRule":
                errors = placement_errors(new, self._engine)
                warnings = () if errors else placement_warnings(new, self._engine)
            case "SchedulingGate":
                errors = gate_errors(new, self._gates.values())
            case _:
                return ALLOWED
        if errors:
            return Answer(denial=refusal(str(kind["kind"]), str(request.get("name") or ""), errors))
        return Answer(warnings=tuple(map(str, warnings)))


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
