"""Index functions of the caches, and what a cache keeps of each object.

An index function answers from the object alone, so that a cached object is always under the same values.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from tollbar.model import claims, pods
from tollbar.model.objects import Key, Object, key_of, metadata, spec
from tollbar.runtime.store import Indexer, drop_managed_fields


def metadata_and_spec(obj: Object) -> Object:
    """Only what decisions read of a claim, template or class: a write of its status is then no change at all."""
    return {"metadata": metadata(drop_managed_fields(obj)), "spec": spec(obj)}


def metadata_only(obj: Object) -> Object:
    return {"metadata": metadata(drop_managed_fields(obj))}


def _namespace(pod: Object) -> Iterable[str]:
    yield key_of(pod).namespace


def _claims_of_pod(pod: Object) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    for reference in pods.claim_references(pod):
        name = claims.resolve(pod, reference)
        if isinstance(name, str):
            yield Key(namespace, name)


def _templates_of_pod(pod: Object) -> Iterable[Key]:
    namespace = key_of(pod).namespace
    for reference in pods.claim_references(pod):
        if name := reference.get("resourceClaimTemplateName"):
            yield Key(namespace, name)


def _extended_resources_of_pod(pod: Object) -> Iterable[str]:
    return {request.resource for request in pods.extended_resources(pod)}


def _gates_of_pod(pod: Object) -> Iterable[str]:
    return set(pods.gate_names(pod))


def _classes_of_claim(claim: Object) -> Iterable[str]:
    return {subrequest.device_class for subrequest in claims.device_classes(claim)}


def _classes_of_template(template: Object) -> Iterable[str]:
    return _classes_of_claim({"spec": claims.template_claim_spec(template)})


def _extended_resource_of_class(device_class: Object) -> Iterable[str]:
    if name := claims.extended_resource_of(device_class):
        yield name


def _gate_name(gate: Object) -> Iterable[str]:
    yield str(spec(gate).get("gateName"))


PODS: Final[Mapping[str, Indexer]] = {
    "namespace": _namespace,
    "claim": _claims_of_pod,
    "template": _templates_of_pod,
    "extended-resource": _extended_resources_of_pod,
    "gate": _gates_of_pod,
}
CLAIMS: Final[Mapping[str, Indexer]] = {"class": _classes_of_claim}
TEMPLATES: Final[Mapping[str, Indexer]] = {"class": _classes_of_template}
CLASSES: Final[Mapping[str, Indexer]] = {"extended-resource": _extended_resource_of_class}
GATES: Final[Mapping[str, Indexer]] = {"gate-name": _gate_name}
