"""The types of group tollbar.dev/v1alpha1: TolerationRule and SchedulingGate.

Frozen and strict: no value is coerced, no unknown field is accepted.  Build them with `tollbar.api.rules.parse_rule`
and `tollbar.api.gates.parse_gate`, which never raise.  The docstrings are the CRDs' descriptions (`kubectl explain`).
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_snake

from tollbar.api import durations, texts
from tollbar.api.base import ATOMIC, SET, ApiType, Conditions, Count, Int64, LabelSelector, ObjectMeta, Quantity
from tollbar.api.schema import named_format, rule, validated
from tollbar.model import tolerations

TaintKey: TypeAlias = Annotated[
    str, Field(max_length=317, json_schema_extra=validated(named_format("qualifiedName", optional=True)))
]
TaintValue: TypeAlias = Annotated[str, Field(max_length=63, json_schema_extra=validated(named_format("labelValue")))]
ResourceName: TypeAlias = Annotated[
    str,
    Field(
        max_length=317,
        json_schema_extra=validated(
            rule(
                "self.contains('/') && !format.qualifiedName().validate(self).hasValue()",
                texts.NOT_QUALIFIED,
            )
        ),
    ),
]
Version: TypeAlias = Annotated[
    str, Field(max_length=64, json_schema_extra=validated(rule("isSemver(self)", texts.NOT_SEMVER)))
]
Duration: TypeAlias = Annotated[
    str,
    Field(
        max_length=32,
        json_schema_extra=validated(
            rule(f"self.matches('{durations.PATTERN}') && duration(self) > duration('0s')", texts.NOT_A_HOLD)
        ),
    ),
]

_ATTRIBUTE_NAME: Final = r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}$"


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
    """For NoExecute: how long the Pod may stay after the taint came."""


class DeviceToleration(Toleration):
    """A toleration of a claim's request, for taints of devices (KEP-5055)."""

    effect: Literal["NoSchedule", "NoExecute"] | None = None
    """The taint's effect.  Absent tolerates every effect."""
    toleration_seconds: Int64 | None = None
    """For NoExecute: how long the Pods that use the device may stay after the taint came."""


class CelMatch(ApiType):
    """A CEL expression over the Pod's package: `pod`, `claims`, `deviceClasses` and `namespaceObject`."""

    expression: Annotated[str, Field(min_length=1, max_length=10240)]
    """Must be of type bool; true means that the rule is for the Pod.  Write it for `exactly` requests: alternatives
    (`firstAvailable`) are put in their place, one after the other."""


class ExtendedResourceMatch(ApiType):
    """Any container of the Pod asks for a positive quantity of one of these extended resources."""

    names: Annotated[
        tuple[ResourceName, ...],
        Field(strict=False, min_length=1, max_length=32, json_schema_extra=SET),
    ]
    """Names of extended resources, such as example.com/gpu."""


class DeviceAttribute(ApiType):
    """The value of a device's attribute, of one of these types (resource.k8s.io/v1 DeviceAttribute)."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "[has(self.string), has(self.int), has(self.bool), has(self.version)].exists_one(given, given)",
                texts.ONE_VALUE,
            )
        )
    )

    string_value: Annotated[str, Field(max_length=64)] | None = Field(default=None, alias="string")
    """A string."""
    int_value: Int64 | None = Field(default=None, alias="int")
    """A number."""
    bool_value: bool | None = Field(default=None, alias="bool")
    """A boolean."""
    version_value: Version | None = Field(default=None, alias="version")
    """A semantic version (semver.org, 2.0.0)."""


class DeviceCapacity(ApiType):
    """How much of something a device has."""

    value: Quantity
    """A quantity, such as 80Gi."""


_NAMES: Final = validated(rule(f"self.all(name, name.matches('{_ATTRIBUTE_NAME}'))", texts.NOT_ATTRIBUTE))


class DevicePrototype(ApiType):
    """A device as a driver would publish it in a ResourceSlice."""

    driver: Annotated[
        str,
        Field(
            min_length=1,
            max_length=63,
            # The API server, too, validates the driver's name in lower case.
            json_schema_extra=validated(named_format("dns1123Subdomain", of="self.lowerAscii()")),
        ),
    ]
    """The DRA driver that publishes such devices."""
    attributes: dict[str, DeviceAttribute] = Field(default={}, max_length=32, json_schema_extra=_NAMES)
    """Attributes by name; a name without a domain belongs to the driver's domain."""
    capacity: dict[str, DeviceCapacity] = Field(default={}, max_length=32, json_schema_extra=_NAMES)
    """Capacities by name."""


class DeviceMatch(ApiType):
    """A device like one of the prototypes could be allocated to a request of the Pod's claims."""

    prototypes: Annotated[
        tuple[DevicePrototype, ...], Field(strict=False, min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ]
    """Devices that stand for what the reserved nodes have."""


MatchMember: TypeAlias = CelMatch | ExtendedResourceMatch | DeviceMatch
MEMBERS: Final[Mapping[str, str]] = {"CEL": "cel", "ExtendedResource": "extendedResource", "Device": "device"}


class Match(ApiType):
    """What makes a Pod one that the rule is for: exactly one member, the one that `type` names."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            *(
                rule(
                    f"(self.type == '{type_}') == has(self.{member})",
                    texts.MEMBER.format(member=member, type=type_),
                    field_path=f".{member}",
                )
                for type_, member in MEMBERS.items()
            )
        )
    )

    type: Literal["CEL", "ExtendedResource", "Device"]
    """Names the member that is set."""
    cel: CelMatch | None = None
    """For the type CEL."""
    extended_resource: ExtendedResourceMatch | None = None
    """For the type ExtendedResource."""
    device: DeviceMatch | None = None
    """For the type Device."""

    @property
    def members(self) -> Mapping[str, MatchMember | None]:
        """Every member by its type; None where it is absent."""
        return {type_: getattr(self, to_snake(name)) for type_, name in MEMBERS.items()}

    @property
    def member(self) -> MatchMember:
        """The member that `type` names.  A parsed rule always has it."""
        member = self.members[self.type]
        if member is None:
            raise ValueError(texts.MEMBER.format(member=MEMBERS[self.type], type=self.type))
        return member


_UNRESERVED: Final = (
    "self.{}.all(t, has(t.key) && t.key != ''"
    " && !t.key.startsWith('node.kubernetes.io/') && !t.key.startsWith('node-role.kubernetes.io/'))"
)


class Selection(ApiType):
    """What the kinds of rules have in common: which Pods a rule is for, and whether it is in force."""

    mode: Literal["Enforce", "Audit", "Disabled"] = "Enforce"
    """Enforce changes Pods, Audit only reports what it would change, Disabled does nothing."""
    match: Match
    """Which Pods."""
    when_alternatives: Literal["All", "Any", "First"] = "All"
    """For claims with alternatives (`firstAvailable`): the match must hold in All of them, in Any, or in the First."""
    namespace_selector: LabelSelector = LabelSelector()
    """Restricts the rule to namespaces with these labels; empty means every managed namespace."""


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
    """Added to every request that matches, of ResourceClaims and ResourceClaimTemplates as they are created.  The rule
    is asked about each request, and each entry of `firstAvailable`, as if it were the only one of the only claim;
    `pod` cannot be read then.  A request takes 16 tolerations at most."""
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
    """After maxHold: Report the Pod, by an Event, in the status and in metrics, or Release it with what is known.
    Release is for gates of tollbar.dev only."""

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
    """Who owns a Pod scheduling gate (KEP-3521), how long it may be held, and what happens then.

    Gates of other controllers may be declared as well: they are only watched and reported.
    """

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["SchedulingGate"] = "SchedulingGate"
    metadata: ObjectMeta = ObjectMeta()
    spec: SchedulingGateSpec
    """Who owns the gate, how long it may be held, and what happens then."""
    status: SchedulingGateStatus = SchedulingGateStatus()
    """How the gate is held now.  Written by the controllers."""
