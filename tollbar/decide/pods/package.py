"""The package: a Pod with every ResourceClaim it refers to, every DeviceClass those name, and its namespace.

A claim that is yet to be generated has a stand-in with its template's spec, which is immutable; the members that only
the real claim has count as unknown.

Hazard: nothing but its size limits what a Pod refers to, and everything here shares the event loop: a package of more
than `size.MAX_PARTS` is not gathered, nor is one with a claim or a template of which the caches have only a stub.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from tollbar import wellknown
from tollbar.decide.pods import alternatives
from tollbar.decide.pods.size import MAX_PARTS, is_too_large
from tollbar.decide.rules.rule import UNKNOWN_OF_A_NEW_CLAIM
from tollbar.model import claims as claim_model
from tollbar.model import pods
from tollbar.model.objects import Key, Object, annotations_of, is_stub, key_of, labels_of, metadata, picked, spec

_UNKNOWN_AT_ADMISSION: Final = frozenset(
    {
        "pod.metadata.creationTimestamp",
        "pod.metadata.generation",
        "pod.metadata.managedFields",
        "pod.metadata.resourceVersion",
        "pod.metadata.uid",
        "pod.spec.nodeName",
        "pod.status",
    }
)


class Lookup(Protocol):
    """Read access to the caches that a package is gathered from."""

    def claim(self, key: Key) -> Object | None: ...
    def template(self, key: Key) -> Object | None: ...
    def device_class(self, name: str) -> Object | None: ...
    def class_for_extended_resource(self, resource: str) -> Object | None: ...
    def namespace(self, name: str) -> Object | None: ...


@dataclass(frozen=True, slots=True)
class Missing:
    """An object that a package refers to and that does not exist, as far as the caches know."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Package:
    """`claims` and `classes` are what exists, `missing` what does not, `unknown` the input paths nobody can know yet.

    A claim here is {metadata, spec}, with a list of requests even if that is empty: a real one, the stand-in for one of
    `pending`, or the stand-in for the claim that kube-scheduler will create for extended resources.  One that several
    references name is there once.  When the package is `too_large`, claims and classes were not gathered, and nothing
    is known of them.
    """

    pod: Object
    namespace: Object | None = None
    claims: tuple[Object, ...] = ()
    classes: Mapping[str, Object] = field(default_factory=dict)
    missing: tuple[Missing, ...] = ()
    pending: tuple[Missing, ...] = ()
    unknown: frozenset[str] = frozenset()
    too_large: bool = False


def assemble(pod: Object, lookup: Lookup, *, at_admission: bool = False) -> Package:
    """The package of this Pod.  Total: what cannot be resolved is in `missing`, in the order of the Pod's references.

    `at_admission` adds the members that a Pod has only after its creation to `unknown`, its name among them when the
    API server will generate it, and leaves out the status, which a client may send and the API server discards.
    """
    if at_admission:
        pod = {member: value for member, value in pod.items() if member != "status"}
    namespace_name = key_of(pod).namespace
    namespace = _seen(lookup.namespace(namespace_name), "metadata")
    nowhere = () if namespace is not None else (Missing("Namespace", namespace_name),)
    unknown = frozenset(_unknown_members(pod) if at_admission else ())
    gathered = _gather(pod, lookup)
    if gathered is None:
        return Package(pod, namespace, missing=nowhere, unknown=unknown, too_large=True)
    claims = (*map(claim_model.with_requests, gathered.claims.values()), *_extended_resources_claim(pod, lookup))
    names = sorted({name for claim in claims for name in claim_model.device_classes(claim)})
    classes = {name: found for name in names if (found := _seen(lookup.device_class(name))) is not None}
    no_classes = (Missing("DeviceClass", name) for name in names if name not in classes)
    return Package(
        pod,
        namespace,
        claims,
        classes,
        missing=(*gathered.missing, *no_classes, *nowhere),
        pending=tuple(gathered.pending),
        unknown=unknown | UNKNOWN_OF_A_NEW_CLAIM if gathered.pending else unknown,
    )


@dataclass(slots=True)
class _Gathered:
    """In the order of the Pod's references, each once."""

    claims: dict[str, Object] = field(default_factory=dict)
    """By name; a stand-in by what no name can be."""
    missing: dict[Missing, None] = field(default_factory=dict)
    pending: dict[Missing, None] = field(default_factory=dict)


def _gather(pod: Object, lookup: Lookup) -> _Gathered | None:
    """The claims that the Pod refers to; None when the package is too large."""
    if is_too_large(pod):
        return None
    gathered, parts = _Gathered(), 0
    for reference, name in claim_model.resolved(pod):
        found = _claim(pod, reference, name, lookup)
        if found is None:
            continue
        if isinstance(found, Missing):
            gathered.missing[found] = None
            continue
        if is_stub(found):
            return None
        claim_name = metadata(found).get("name")
        identity = claim_name or f"/{reference.get('name')}"
        if identity in gathered.claims:
            continue
        gathered.claims[identity] = found
        parts += 1 + alternatives.size(found)
        if not claim_name:
            parts += len(labels_of(found)) + len(annotations_of(found))  # copied from the template, for each reference
            template = f"from template {reference['resourceClaimTemplateName']}"
            gathered.pending[Missing("ResourceClaim", template)] = None
        if parts > MAX_PARTS:
            return None
    return gathered


def _unknown_members(pod: Object) -> Iterator[str]:
    yield from _UNKNOWN_AT_ADMISSION
    if not metadata(pod).get("name"):
        yield "pod.metadata.name"


def _claim(
    pod: Object, reference: Object, name: str | claim_model.Unresolved, lookup: Lookup
) -> Object | Missing | None:
    """What stands for a reference; the stub itself of a claim or a template that is too large."""
    namespace = key_of(pod).namespace
    if name is claim_model.Unresolved.NOT_NEEDED:
        return None
    if name is claim_model.Unresolved.UNSUPPORTED:
        return Missing("ResourceClaim", f"for {reference.get('name')}: {name.value}")
    template_name = reference.get("resourceClaimTemplateName")
    if isinstance(name, str):
        claim = lookup.claim(Key(namespace, name))
        if claim is not None and is_stub(claim):
            return claim
        if claim is not None and (not template_name or claim_model.owned_by_pod(claim, pod)):
            return _seen(claim)
        if not template_name:
            return Missing("ResourceClaim", name)
    template = lookup.template(Key(namespace, str(template_name)))
    if template is None:
        return Missing("ResourceClaimTemplate", str(template_name))
    return template if is_stub(template) else _stand_in(template, str(reference.get("name")))


def _seen(obj: Object | None, *members: str) -> Object | None:
    """What rules see of an object: not all caches keep the same of it, and rules must be true everywhere or nowhere."""
    if obj is None:
        return None
    seen = picked(obj, members or ("metadata", "spec"))
    if "managedFields" in metadata(obj):
        seen["metadata"] = {member: value for member, value in metadata(obj).items() if member != "managedFields"}
    return seen


def _stand_in(template: Object, reference_name: str) -> Object:
    """What the claim generated from this template will be, less the members that only the real one has."""
    wanted = spec(template)
    labels = labels_of(wanted)
    return {
        "metadata": {
            "namespace": key_of(template).namespace,
            **({"labels": labels} if labels else {}),
            "annotations": {**annotations_of(wanted), wellknown.POD_CLAIM_NAME_ANNOTATION: reference_name},
        },
        "spec": claim_model.template_claim_spec(template),
    }


def _extended_resources_claim(pod: Object, lookup: Lookup) -> Iterator[Object]:
    """One claim with one `exactly` request per container and resource that a class backs (KEP-5004)."""
    requests: list[dict[str, Any]] = []
    for wanted in pods.extended_resources(pod):
        backing = lookup.class_for_extended_resource(wanted.resource)
        name = key_of(backing).name if backing is not None else claim_model.implicit_class(wanted.resource)
        if name is not None:
            exactly = {"deviceClassName": name, "allocationMode": "ExactCount", "count": int(wanted.quantity)}
            requests.append({"name": f"container-{wanted.container}-request-{wanted.place}", "exactly": exactly})
    if requests:
        yield {
            "metadata": {"namespace": key_of(pod).namespace, "name": wellknown.EXTENDED_RESOURCES_CLAIM},
            "spec": {"devices": {"requests": requests}},
        }
