"""Validation of SchedulingGates, and the SchedulingGate that is installed with Tollbar."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from tollbar import wellknown
from tollbar.api import durations, texts
from tollbar.api.parse import parse
from tollbar.api.reasons import RuleReason
from tollbar.api.types import SchedulingGate, SchedulingGateSpec
from tollbar.model import names
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required
from tollbar.model.objects import Object
from tollbar.model.resources import SCHEDULING_GATES

__all__ = ["CONTROLLERS", "SchedulingGate", "parse_gate", "shipped_gate"]

CONTROLLERS: Final = f"system:serviceaccount:{wellknown.SYSTEM_NAMESPACE}:tollbar-controllers"
"""The user name of the controllers in the default installation."""


def parse_gate(obj: Any) -> SchedulingGate | list[FieldError]:
    """The gate, or the errors in it, at most 16, each with the reason InvalidSpec.  Never raises, for any JSON."""
    return parse(SchedulingGate, obj, lambda gate: _problems(gate.spec), lambda _: RuleReason.INVALID_SPEC)


def shipped_gate(owners: Sequence[str] = (CONTROLLERS,)) -> Object:
    """The SchedulingGate of Tollbar's own gate, which releases Pods after a minute at the latest."""
    return {
        **SCHEDULING_GATES.type_meta,
        "metadata": {"name": "tolerations", "labels": {"app.kubernetes.io/name": "tollbar"}},
        "spec": {
            "gateName": wellknown.GATE,
            "owners": list(owners),
            "maxHold": f"{wellknown.DEFAULT_MAX_HOLD_SECONDS:g}s",
            "onExpiry": "Release",
        },
    }


def _is_hold(text: str) -> bool:
    try:
        return durations.parse(text) > 0
    except ValueError:
        return False


def _problems(spec: SchedulingGateSpec) -> Iterator[FieldError]:
    for problem in names.qualified_name(spec.gate_name):
        yield invalid("spec.gateName", spec.gate_name, problem)
    for index, owner in enumerate(spec.owners):
        if owner in spec.owners[:index]:
            yield duplicate(f"spec.owners[{index}]", owner)
    if spec.max_hold is not None and not _is_hold(spec.max_hold):
        yield invalid("spec.maxHold", spec.max_hold, texts.NOT_A_HOLD)
    if spec.on_expiry == "Release":
        if spec.max_hold is None:
            yield required("spec.maxHold", texts.RELEASE_NEEDS_HOLD)
        if not spec.gate_name.startswith(wellknown.ANNOTATION_PREFIX):
            yield forbidden("spec.onExpiry", texts.RELEASE_IS_OURS)
