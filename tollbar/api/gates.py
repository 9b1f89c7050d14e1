"""SchedulingGate: who owns a gate of Pods and how long it may be held; its type, its validation, and the one that is
installed with Tollbar.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from tollbar import wellknown
from tollbar.api import durations, texts
from tollbar.api.base import SET, ApiType, Conditions, Count, Duration, ObjectMeta
from tollbar.api.parse import parse
from tollbar.api.reasons import RuleReason
from tollbar.api.schema import named_format, rule, validated
from tollbar.model import names
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required
from tollbar.model.objects import Object
from tollbar.model.resources import SCHEDULING_GATES

CONTROLLERS: Final = f"system:serviceaccount:{wellknown.SYSTEM_NAMESPACE}:tollbar-controllers"
"""The user name of the controllers in the default installation."""


class SchedulingGateSpec(ApiType):
    """Who owns a Pod scheduling gate, how long it may be held, and what happens then."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("self.onExpiry != 'Release' || has(self.maxHold)", texts.RELEASE_NEEDS_HOLD, field_path=".onExpiry"),
            rule(
                "self.onExpiry != 'Release' || self.gateName.startsWith('tollbar.dev/')",
                texts.RELEASE_IS_OURS,
                field_path=".onExpiry",
            ),
        )
    )

    gate_name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=317,
            json_schema_extra=validated(named_format("qualifiedName"), rule("self == oldSelf", texts.IMMUTABLE)),
        ),
    ]
    """The gate's name in `spec.schedulingGates` of Pods.  Immutable; one SchedulingGate for a gate."""
    owners: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=512)], ...],
        Field(strict=False, max_length=32, json_schema_extra=SET),
    ] = ()
    """Users that may remove the gate, as the API server names them (system:serviceaccount:NAMESPACE:NAME).  Enforced
    where the protective-gates policy is installed; holders of the verb `release` on this object may, too."""
    max_hold: Duration | None = None
    """How long a Pod may be held, from its creation, such as 60s or 1m30s.  Absent means no deadline."""
    on_expiry: Literal["Report", "Release"] = "Report"
    """What happens after maxHold.  Report: the Pod stays held, and is reported by an Event, in the status and in
    metrics.  Release: the Pod is released with what is known; only for gates of the domain tollbar.dev."""

    @property
    def max_hold_seconds(self) -> float | None:
        return None if self.max_hold is None else durations.parse(self.max_hold)


class SchedulingGateStatus(ApiType):
    """How the gate is held now."""

    observed_generation: Count = 0
    """The generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Ready says whether Tollbar may act on this gate as the spec says."""
    held_pods: Count = 0
    """Pods that carry the gate."""
    oldest_held_seconds: Count = 0
    """Age of the oldest of them, in seconds."""
    overdue: Count = 0
    """How many are held longer than maxHold."""


class SchedulingGate(ApiType):
    """Declares a Pod scheduling gate (KEP-3521): who owns it, how long it may hold a Pod, and what happens then.

    Gates of other controllers may be declared as well: they are only watched and reported.
    """

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["SchedulingGate"] = "SchedulingGate"
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulingGateSpec
    """Who owns the gate, how long it may hold a Pod, and what happens then."""
    status: SchedulingGateStatus = SchedulingGateStatus()
    """Which Pods the gate holds now, as numbers.  Written by the controllers."""


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


def _problems(spec: SchedulingGateSpec) -> Iterator[FieldError]:
    for problem in names.qualified_name(spec.gate_name):
        yield invalid("spec.gateName", spec.gate_name, problem)
    for index, owner in enumerate(spec.owners):
        if owner in spec.owners[:index]:
            yield duplicate(f"spec.owners[{index}]", owner)
    if spec.max_hold is not None and not durations.is_positive(spec.max_hold):
        yield invalid("spec.maxHold", spec.max_hold, texts.NOT_A_DURATION)
    if spec.on_expiry == "Release":
        if spec.max_hold is None:
            yield required("spec.maxHold", texts.RELEASE_NEEDS_HOLD)
        if not spec.gate_name.startswith(wellknown.ANNOTATION_PREFIX):
            yield forbidden("spec.onExpiry", texts.RELEASE_IS_OURS)
