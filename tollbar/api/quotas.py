"""PodQuota: what the Pods of some namespaces may use together; those that do not fit wait in their scheduling gate.

The CRD is generated from the type, whose docstrings are its descriptions; `parse_quota` validates an object.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, WithJsonSchema

from tollbar import wellknown
from tollbar.api import durations, texts
from tollbar.api.base import ApiType, Conditions, Count, Duration, LabelSelector, ObjectMeta, Quantity
from tollbar.api.parse import parse
from tollbar.api.reasons import QuotaReason
from tollbar.api.schema import rule, validated
from tollbar.model import names, quantity, selectors
from tollbar.model.fields import FieldError, entry, invalid

NOT_A_LIMIT: Final = "must be a quantity of 0 or more"
_LIMIT: Final = r"^\+?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]+))?$"
Limit: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if type(given) is int else given),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": _LIMIT,
            "minimum": 0,
            "maxLength": 32,
        }
    ),
]


class PodQuotaSpec(ApiType):
    """Which Pods share how much, and in which order they get it."""

    namespace_selector: LabelSelector = LabelSelector()
    """Restricts the quota to namespaces with these labels, of those that have the label tollbar.dev/quota.  Empty means
    all of these: their Pods share the limits."""
    pod_selector: LabelSelector = LabelSelector()
    """Restricts the quota to Pods with these labels; empty means all Pods."""
    limits: dict[str, Limit] = Field(
        min_length=1,
        max_length=32,
        json_schema_extra=validated(
            rule("self.all(name, !format.qualifiedName().validate(name).hasValue())", texts.NOT_QUALIFIED),
            rule(
                "self.all(name, name.endsWith('.deviceclass.resource.k8s.io/devices') "
                "|| !(name.startsWith('requests.') || (name.startsWith('limits.') && !name.contains('/'))))",
                texts.OF_REQUESTS,
            ),
        ),
    )
    """How much all of these Pods may request together, by resource: cpu, memory, ephemeral-storage, hugepages-<size>,
    an extended resource such as example.com/gpu; pods is their number, and <class>.deviceclass.resource.k8s.io/devices
    how many devices of a DeviceClass they may ask for."""
    sharing: Literal["FirstCome", "Fair"] = "FirstCome"
    """Which Pod is released first among Pods of one priority.  FirstCome: the oldest.  Fair: one of the namespace with
    the smallest share, where a namespace's share is the largest fraction that it uses of any limit."""
    patience: Duration = "10m"
    """A Pod that has waited for longer than this comes before all others, and the room that it needs is kept for it, so
    that large Pods and those of a low priority do not wait for ever.  With Fair, this is for the oldest Pod of a
    namespace of which no Pod was released for that long."""

    @property
    def patience_seconds(self) -> float:
        return durations.parse(self.patience)

    @property
    def amounts(self) -> dict[str, Decimal]:
        """The limits as numbers."""
        return {name: quantity.parse(text) for name, text in self.limits.items()}


class PodQuotaStatus(ApiType):
    """What of the limits is used."""

    observed_generation: Count = 0
    """The generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Ready says whether the quota is in force, and if not, why."""
    used: dict[str, Quantity] = Field(default={}, max_length=32)
    """By resource, the requests of all Pods that the gate tollbar.dev/quota does not hold and that have not ended."""
    running: Count = 0
    """The number of Pods that `used` counts."""
    waiting: Count = 0
    """Pods that the gate holds for this quota."""


class PodQuota(ApiType):
    """Limits what the Pods of some namespaces request together.  Pods that do not fit wait, and start when others end.

    In force where the controllers run with the gate class quota, for namespaces with the label tollbar.dev/quota.
    """

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["PodQuota"] = "PodQuota"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodQuotaSpec
    """Which Pods share how much, and in which order they get it."""
    status: PodQuotaStatus = PodQuotaStatus()
    """What of the limits is used.  Written by the controllers, every 30 seconds at most; never read by a decision."""


def parse_quota(obj: Any) -> PodQuota | list[FieldError]:
    """The PodQuota, or the errors in it, at most 16, each with the reason InvalidSpec.  Never raises."""
    return parse(PodQuota, obj, lambda found: _problems(found.spec), lambda _: QuotaReason.INVALID_SPEC)


def _problems(spec: PodQuotaSpec) -> Iterator[FieldError]:
    for field, selector in (("namespaceSelector", spec.namespace_selector), ("podSelector", spec.pod_selector)):
        yield from selectors.validate(selector.as_object(), path=f"spec.{field}")
    for name, text in spec.limits.items():
        for problem in names.qualified_name(name):
            yield invalid(entry("spec.limits", name), name, problem)
        if _is_of_resource_quota(name):
            yield invalid(entry("spec.limits", name), name, texts.OF_REQUESTS)
        if not _is_limit(text):
            yield invalid(entry("spec.limits", name), text, NOT_A_LIMIT)
    if not durations.is_positive(spec.patience):
        yield invalid("spec.patience", spec.patience, texts.NOT_A_DURATION)


def _is_of_resource_quota(name: str) -> bool:
    """Whether only a ResourceQuota has such a name: a Pod can request limits.example.com/gpu, but not limits.cpu."""
    is_of_class = name.endswith(wellknown.DEVICES_OF_CLASS)
    return not is_of_class and (name.startswith("requests.") or (name.startswith("limits.") and "/" not in name))


def _is_limit(text: str) -> bool:
    try:
        return quantity.parse(text) >= 0
    except ValueError:
        return False
