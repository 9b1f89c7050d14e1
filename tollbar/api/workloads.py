"""WorkloadClaim: one ResourceClaim that belongs to a workload, and is kept for it while its Pods come and go.

The CRD is generated from the type, whose docstrings are its descriptions; `parse_workload_claim` validates an object.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from tollbar.api import texts
from tollbar.api.base import ApiType, Conditions, Count, ObjectMeta
from tollbar.api.parse import parse
from tollbar.api.reasons import ReservedReason
from tollbar.api.schema import named_format, rule, validated
from tollbar.model import names, workloads
from tollbar.model.fields import FieldError, invalid, required

_IMMUTABLE = rule("self == oldSelf", texts.IMMUTABLE)

Resource: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=63, json_schema_extra=validated(named_format("dns1123Label")))
]
Group: TypeAlias = Annotated[
    str, Field(max_length=253, json_schema_extra=validated(named_format("dns1123Subdomain", optional=True)))
]
Name: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=253, json_schema_extra=validated(named_format("dns1123Subdomain")))
]
ImmutableName: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=253, json_schema_extra=validated(named_format("dns1123Subdomain"), _IMMUTABLE))
]


class WorkloadReference(ApiType):
    """A workload of the same namespace, of any kind that the cluster serves.  It need not exist yet."""

    model_config = ConfigDict(json_schema_extra=validated(_IMMUTABLE))

    api_group: Group = ""
    """API group of the workload, such as apps; empty for the core API."""
    resource: Resource
    """Plural name of the kind, as in deployments."""
    name: Name
    """Name of the workload."""

    @property
    def reference(self) -> workloads.Reference:
        return workloads.Reference(self.api_group, self.resource, self.name)


class PodGroupOptions(ApiType):
    """A PodGroup for the workload's Pods, of the name of the WorkloadClaim: one entry of the claim stands for all.

    Needs Kubernetes 1.37 with the feature gates GenericWorkload and DRAWorkloadResourceClaims.
    """

    model_config = ConfigDict(json_schema_extra=validated(_IMMUTABLE))

    pod_claim_name: Resource
    """The `name` of the entry of `spec.resourceClaims` by which the Pods refer to the claim."""
    priority_class_name: Name | None = None
    """The PriorityClass of the Pods: kube-scheduler schedules no Pod of a group in which one has another priority."""
    scheduler_name: Annotated[str, Field(min_length=1, max_length=253)] = "default-scheduler"
    """The `schedulerName` of the Pods that are put into the group at admission."""


class WorkloadClaimSpec(ApiType):
    """Which workload keeps which claim, and until when."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule("has(self.resourceClaimTemplateName) != has(self.resourceClaimName)", texts.ONE_CLAIM),
            rule(
                "has(self.resourceClaimTemplateName) == has(oldSelf.resourceClaimTemplateName)"
                " && has(self.resourceClaimName) == has(oldSelf.resourceClaimName)",
                texts.IMMUTABLE,
            ),
        )
    )

    workload_ref: WorkloadReference
    """The workload.  Immutable."""
    resource_claim_template_name: ImmutableName | None = None
    """The ResourceClaimTemplate from which the claim is made.  The claim has the name of the WorkloadClaim, and is
    deleted with it."""
    resource_claim_name: ImmutableName | None = None
    """The name of a claim that somebody else creates and deletes."""
    release: Literal["WhenDeleted", "WhenFinished", "WhenIdle"] = "WhenDeleted"
    """When the devices are given back: WhenDeleted when the workload is deleted, WhenFinished also when it is a Job or
    JobSet that has ended, WhenIdle also when it is scaled to zero and no Pod refers to the claim."""
    pod_group: PodGroupOptions | None = None
    """For a claim that more than 256 Pods share.  It may be added and removed, but its fields are immutable."""


class JoinablePodGroup(ApiType):
    """The PodGroup that Pods may join."""

    name: Annotated[str, Field(max_length=253)]
    """The name of the PodGroup, for `spec.schedulingGroup.podGroupName` of the Pods."""
    priority_class_name: Annotated[str, Field(max_length=253)] = ""
    """The PriorityClass of the PodGroup, as the API server stores it; its Pods must have the same one."""


class WorkloadClaimStatus(ApiType):
    """How the reservation stands."""

    observed_generation: Count = 0
    """The generation of the spec that this status is about."""
    resource_claim_name: Annotated[str, Field(max_length=253)] = ""
    """The claim, to be named by `resourceClaimName` in Pods."""
    phase: Annotated[str, Field(max_length=63)] = ""
    """Pending, Reserved, Released or Blocked; the condition says why."""
    workload_uid: Annotated[str, Field(max_length=253)] | None = Field(default=None, alias="workloadUID")
    """The uid of the workload that the claim is reserved for."""
    consumers: Count = 0
    """Entries of the claim's `status.reservedFor` besides the workload's own."""
    pod_group: JoinablePodGroup | None = None
    """The PodGroup that shares the claim, when there is one."""
    conditions: Conditions = ()
    """Reserved says whether the claim is kept for the workload, and if not, why; ConsumersFit whether every Pod finds a
    place in the claim; PodGroupReady, where one is asked for, whether Pods may join it."""


class WorkloadClaim(ApiType):
    """One ResourceClaim that belongs to a workload, not to a Pod: its devices stay through rollouts and restarts.

    Pods of the workload refer to the claim by `resourceClaimName`.
    """

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["WorkloadClaim"] = "WorkloadClaim"
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadClaimSpec
    """Which workload keeps which claim, and until when."""
    status: WorkloadClaimStatus = WorkloadClaimStatus()
    """How the reservation stands.  Written by the controllers."""

    @property
    def claim_name(self) -> str:
        """The ResourceClaim's."""
        return self.spec.resource_claim_name or self.metadata.name


def parse_workload_claim(obj: Any) -> WorkloadClaim | list[FieldError]:
    """The WorkloadClaim, or the errors in it, at most 16, each with the reason InvalidSpec.  Never raises."""
    return parse(WorkloadClaim, obj, lambda claim: _problems(claim.spec), lambda _: ReservedReason.INVALID_SPEC)


def _problems(spec: WorkloadClaimSpec) -> Iterator[FieldError]:
    reference = spec.workload_ref
    for problem in names.dns_subdomain(reference.api_group) if reference.api_group else ():
        yield invalid("spec.workloadRef.apiGroup", reference.api_group, problem)
    for problem in names.dns_label(reference.resource):
        yield invalid("spec.workloadRef.resource", reference.resource, problem)
    for problem in names.dns_subdomain(reference.name):
        yield invalid("spec.workloadRef.name", reference.name, problem)
    if (spec.resource_claim_template_name is None) == (spec.resource_claim_name is None):
        yield required("spec", texts.ONE_CLAIM)
    if spec.pod_group is not None:
        for problem in names.dns_label(spec.pod_group.pod_claim_name):
            yield invalid("spec.podGroup.podClaimName", spec.pod_group.pod_claim_name, problem)
        if (priority := spec.pod_group.priority_class_name) is not None:
            for problem in names.dns_subdomain(priority):
                yield invalid("spec.podGroup.priorityClassName", priority, problem)
    for field in ("resourceClaimTemplateName", "resourceClaimName"):
        value = spec.as_object().get(field)
        for problem in names.dns_subdomain(value) if value is not None else ():
            yield invalid(f"spec.{field}", value, problem)
