"""TolerationRule: which Pods, and which requests of claims, get which tolerations; its type, and its validation.

Expressions are not compiled here (see `tollbar.decide.rules`).
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field

from tollbar.api import texts
from tollbar.api.base import ATOMIC, ApiType, Conditions, Count, Int64, ObjectMeta
from tollbar.api.parse import parse
from tollbar.api.reasons import RuleReason
from tollbar.api.schema import named_format, rule, validated
from tollbar.api.selection import Selection, match_reason, selection_problems
from tollbar.model import tolerations
from tollbar.model.fields import FieldError, forbidden, invalid, required

TaintKey: TypeAlias = Annotated[
    str, Field(max_length=317, json_schema_extra=validated(named_format("qualifiedName", optional=True)))
]
TaintValue: TypeAlias = Annotated[str, Field(max_length=63, json_schema_extra=validated(named_format("labelValue")))]
_UNRESERVED: Final = (
    "self.{}.all(t, has(t.key) && t.key != ''"
    " && !t.key.startsWith('node.kubernetes.io/') && !t.key.startsWith('node-role.kubernetes.io/'))"
)


class Toleration(ApiType):
    """A Pod toleration, under the rules that the API server has for them."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "self.operator == 'Exists' || (has(self.key) && self.key != '')",
                tolerations.EXISTS_FOR_ALL,
                field_path=".operator",
            ),
            rule(
                "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
                tolerations.SECONDS_NEED_NO_EXECUTE,
                field_path=".effect",
            ),
            rule(
                "self.operator != 'Exists' || !has(self.value) || self.value == ''",
                tolerations.EXISTS_HAS_NO_VALUE,
                field_path=".operator",
            ),
        )
    )

    key: TaintKey | None = None
    """The taint's key.  Absent or empty tolerates every key, and needs the operator Exists."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Equal compares the value, Exists tolerates every value."""
    value: TaintValue | None = None
    """The taint's value, for the operator Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect.  Absent tolerates every effect."""
    toleration_seconds: Int64 | None = None
    """For NoExecute: how long, in seconds, the Pod may stay after the taint was added."""


class DeviceToleration(Toleration):
    """A toleration of a claim's request, for taints of devices (KEP-5055)."""

    effect: Literal["NoSchedule", "NoExecute"] | None = None
    """The taint's effect.  Absent tolerates every effect."""
    toleration_seconds: Int64 | None = None
    """For NoExecute: how long, in seconds, the Pods that use the device may stay after the taint was added."""


class TolerationRuleSpec(Selection):
    """Which Pods, and which requests of claims, get which tolerations."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                f"self.allowReservedKeys || !has(self.tolerations) || {_UNRESERVED.format('tolerations')}",
                texts.RESERVED,
                field_path=".tolerations",
            ),
            rule(
                f"self.allowReservedKeys || !has(self.deviceTolerations) || {_UNRESERVED.format('deviceTolerations')}",
                texts.RESERVED,
                field_path=".deviceTolerations",
            ),
            rule(
                "has(self.tolerations) || has(self.deviceTolerations)", texts.NO_TOLERATIONS, field_path=".tolerations"
            ),
            rule(
                "!has(self.deviceTolerations) || self.match.type != 'ExtendedResource'",
                texts.NOT_OF_CLAIMS,
                field_path=".deviceTolerations",
            ),
        )
    )

    tolerations: Annotated[
        tuple[Toleration, ...], Field(strict=False, min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ] = ()
    """Added to every Pod that matches, unless it has them already."""
    device_tolerations: Annotated[
        tuple[DeviceToleration, ...], Field(strict=False, min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ] = ()
    """Added to the requests that match when a ResourceClaim or a ResourceClaimTemplate is created.  The rule is
    evaluated for each request, and each entry of `firstAvailable`, as if it were the only request of the only claim;
    so it cannot read `pod`.  A request takes 16 tolerations at most."""
    allow_reserved_keys: bool = False
    """Permits the keys of Kubernetes' own node taints (node.kubernetes.io/*, node-role.kubernetes.io/*) and the empty
    key, which tolerates everything."""


class LastMatch(ApiType):
    """A Pod that the rule matches, and since when that is known."""

    time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the controllers found that the rule matches the Pod."""
    namespace: Annotated[str, Field(max_length=63)]
    """The Pod's namespace."""
    pod: Annotated[str, Field(max_length=253)]
    """The Pod's name."""


class TolerationRuleStatus(ApiType):
    """What Tollbar found about the rule."""

    observed_generation: Count = 0
    """The generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Ready says whether the rule is in force, and if not, why."""
    pending_matches: Count = 0
    """Pods without a node that the rule matches now; absent for a rule with `deviceTolerations` alone."""
    last_match: LastMatch | None = None
    """The last Pod that the rule was found to match, in Audit or in force.  Written every 30 seconds at most."""


class TolerationRule(ApiType):
    """Gives Pods that need certain devices the tolerations for the tainted nodes that have these devices."""

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["TolerationRule"] = "TolerationRule"
    metadata: ObjectMeta = ObjectMeta()
    spec: TolerationRuleSpec
    """Which Pods get which tolerations."""
    status: TolerationRuleStatus = TolerationRuleStatus()
    """What Tollbar found about the rule.  Written by the controllers; never read by a decision."""


def parse_rule(obj: Any) -> TolerationRule | list[FieldError]:
    """The rule, or the errors in it, at most 16.  Each error's `reason` is one for the condition Ready=False.

    Never raises, for any JSON: a rule may have been stored by an older version, or under an older CRD.
    """
    return parse(TolerationRule, obj, lambda each: _problems(each.spec), match_reason)


def _problems(spec: TolerationRuleSpec) -> Iterator[FieldError]:
    yield from selection_problems(spec)
    yield from _toleration_problems(spec, spec.tolerations, "spec.tolerations")
    yield from _toleration_problems(spec, spec.device_tolerations, "spec.deviceTolerations")
    if not spec.tolerations and not spec.device_tolerations:
        yield required("spec.tolerations", texts.NO_TOLERATIONS)
    if spec.device_tolerations and spec.match.type == "ExtendedResource":
        yield forbidden("spec.deviceTolerations", texts.NOT_OF_CLAIMS)


def _toleration_problems(spec: TolerationRuleSpec, given: Iterable[Toleration], field: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(given):
        path = f"{field}[{index}]"
        yield from tolerations.validate(toleration.as_object(), path=path)
        if tolerations.is_reserved(toleration.key or "") and not spec.allow_reserved_keys:
            yield invalid(f"{path}.key", toleration.key or "", texts.RESERVED, RuleReason.RESERVED_KEY)
