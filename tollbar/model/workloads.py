"""Workloads that keep a claim reserved: how a claim names its workload, and when the workload needs it no longer.

Any namespaced kind may be a workload.  Its state is read by convention: from the conditions of Jobs (batch/v1) and
JobSets (jobset.x-k8s.io), from `spec.replicas` and `status.observedGeneration` of kinds that scale, and from the Pods'
template in `spec.template`.
"""

from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

from tollbar import wellknown
from tollbar.model import conditions, managers, names
from tollbar.model.objects import Key, Object, annotations_of, controller_of, key_of, metadata, spec

Release: TypeAlias = Literal["WhenDeleted", "WhenFinished", "WhenIdle"]
"""When a workload's claim is released: in any case when the workload is deleted, perhaps earlier."""
POLICIES: Final[tuple[str, ...]] = get_args(Release)
WHEN_DELETED: Final[Release] = "WhenDeleted"

FINISHED: Final = ("Complete", "Completed", "Failed")
"""Job: Complete, Failed.  JobSet: Completed, Failed."""
_KEPT_BY: Final = (
    wellknown.ANNOTATION_RESERVED_FOR,
    wellknown.ANNOTATION_RESERVED_UID,
    wellknown.ANNOTATION_WORKLOAD_CLAIM,
)
_RESERVED_BY_KUBERNETES: Final = (("", "pods"), ("scheduling.k8s.io", "podgroups"))


class Reference(NamedTuple):
    """A workload of the claim's namespace: API group (empty for the core API), plural resource, name."""

    group: str
    resource: str
    name: str

    def __str__(self) -> str:
        """`deployments.apps/web`, as the annotation has it."""
        return f"{self.resource}.{self.group}/{self.name}" if self.group else f"{self.resource}/{self.name}"

    def entry(self, uid: str) -> Object:
        """The entry of a claim's `status.reservedFor`."""
        group = {"apiGroup": self.group} if self.group else {}
        return {**group, "resource": self.resource, "name": self.name, "uid": uid}


class Intent(NamedTuple):
    """The workload that a claim is to be reserved for, and until when."""

    reference: Reference
    release: Release


class Malformed(NamedTuple):
    """Why a claim's annotations cannot be understood, for a person."""

    why: str


def parse_reference(text: str) -> Reference | Malformed:
    """From `<resource>.<group>/<name>`; a core resource has no group."""
    kind, slash, name = text.partition("/")
    resource, _, group = kind.partition(".")
    if not slash or not resource or not name:
        return Malformed("must be <resource>.<group>/<name>, such as deployments.apps/web")
    for problem in names.dns_label(resource):
        return Malformed(f"resource {resource!r}: {problem}")
    for problem in names.dns_subdomain(group) if group else ():
        return Malformed(f"group {group!r}: {problem}")
    for problem in names.dns_subdomain(name):
        return Malformed(f"name {name!r}: {problem}")
    return Reference(group, resource, name)


def intent_of(claim: Object) -> Intent | Malformed | None:
    """What the claim's annotations ask for; None when they ask for nothing.

    Malformed for a claim that was generated for a Pod: it is deleted with that Pod.
    """
    annotations = annotations_of(claim)
    text = annotations.get(wellknown.ANNOTATION_RESERVED_FOR)
    if text is None:
        return None
    reference = parse_reference(text)
    if isinstance(reference, Malformed):
        return Malformed(f"{wellknown.ANNOTATION_RESERVED_FOR}: {reference.why}")
    if reference[:2] in _RESERVED_BY_KUBERNETES:
        return Malformed(
            f"{wellknown.ANNOTATION_RESERVED_FOR}: {reference.resource} get entries from Kubernetes itself"
        )
    if (controller_of(claim) or {}).get("kind") == "Pod":
        return Malformed("the claim was generated for a Pod and ends with it: use a claim of its own for the workload")
    release = annotations.get(wellknown.ANNOTATION_RELEASE, WHEN_DELETED)
    for policy in get_args(Release):
        if release == policy:
            return Intent(reference, policy)
    return Malformed(f"{wellknown.ANNOTATION_RELEASE}: must be one of {', '.join(POLICIES)}")


def is_kept(claim: Object) -> bool:
    """Whether the claim is to be reserved for a workload, or still has a reservation of Tollbar's."""
    return any(name in annotations_of(claim) for name in _KEPT_BY) or bool(managers.reserved_by_us(claim))


def workload_claim_of(claim: Object) -> str:
    """Name of the WorkloadClaim that wrote the claim's annotations; empty when a user did."""
    return annotations_of(claim).get(wellknown.ANNOTATION_WORKLOAD_CLAIM, "")


def claim_named_by(workload_claim: Object) -> Key:
    """The ResourceClaim of a WorkloadClaim: `spec.resourceClaimName`, or the one of its own name."""
    key = key_of(workload_claim)
    return Key(key.namespace, str(spec(workload_claim).get("resourceClaimName") or key.name))


def is_finished(workload: Object) -> bool:
    """Whether it is a Job or JobSet that has completed or failed, and so starts no more Pods."""
    return any(conditions.is_true(workload, type_) for type_ in FINISHED)


def is_scaled_to_zero(workload: Object) -> bool:
    """Whether `spec.replicas` is 0 and its controller has observed that.  False for kinds without replicas.

    Pods may still be running.
    """
    seen = (workload.get("status") or {}).get("observedGeneration")
    generation = metadata(workload).get("generation")
    return spec(workload).get("replicas") == 0 and _at_least(seen, generation)


def _at_least(seen: object, generation: object) -> bool:
    return isinstance(seen, int) and isinstance(generation, int) and seen >= generation


def pod_spec(workload: Object) -> Object:
    """`spec.template.spec` of a kind that has a template for its Pods; empty for others."""
    return member(member(member(workload, "spec"), "template"), "spec")


def pods_at_once(workload: Object) -> int | None:
    """How many Pods it has at most at one time, as far as it says: None when it does not.

    `spec.replicas`, for a Deployment with its `maxSurge` (a percentage is rounded up); the smaller of
    `spec.parallelism` and `spec.completions` for a Job; `status.desiredNumberScheduled` for a DaemonSet.
    """
    wanted = spec(workload)
    if (replicas := _count(wanted.get("replicas"))) is not None:
        return replicas + _surge(wanted, replicas)
    if (parallelism := _count(wanted.get("parallelism"))) is not None:
        completions = _count(wanted.get("completions"))
        return parallelism if completions is None else min(parallelism, completions)
    return _count(member(workload, "status").get("desiredNumberScheduled"))


def _surge(wanted: Object, replicas: int) -> int:
    """The Pods that a rolling update adds, as the Deployment controller resolves `maxSurge` (apps/v1)."""
    surge = member(member(wanted, "strategy"), "rollingUpdate").get("maxSurge")
    if isinstance(surge, str) and surge.endswith("%") and surge[:-1].isdecimal() and len(surge) <= _PERCENTAGE:
        return -(-replicas * int(surge[:-1]) // 100)
    return _count(surge) or 0


_PERCENTAGE: Final = len("100%")


def member(part: Object, name: str) -> Object:
    """The object in this field; empty when there is none: the fields of a kind that is not known may be anything."""
    found = part.get(name)
    return found if isinstance(found, dict) else {}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
