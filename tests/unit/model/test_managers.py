"""Field managers, from managedFields and from what caches keep of them."""

import pytest
from objects.builders import Claim, claim, pod

from tollbar import wellknown
from tollbar.model import managers
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Object


def managed(operation: str, fields: Object) -> Object:
    return pod().but("metadata.managedFields", [{"manager": "a", "operation": operation, "fieldsV1": fields}])


ENTRY = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}
OTHER = {**ENTRY, "name": "db", "uid": "u2"}
GANG = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g1"}
SPEC = {"f:metadata": {"f:generateName": {}}, "f:spec": {"f:devices": {}}}
FINALIZER = {"f:metadata": {"f:finalizers": {}}}
MADE = claim().written_by("kube-scheduler", FINALIZER).written_by("tollbar-controllers", SPEC)

KEPT: dict[str, tuple[Claim, str, list[str], list[Object]]] = {
    "nobody wrote anything": (claim(), "", [], []),
    "the creator, whoever is named first": (
        MADE,
        "tollbar-controllers",
        [],
        [{"manager": "tollbar-controllers", "fieldsV1": {"f:spec": {}}}],
    ),
    "our entry beside another's": (
        claim().allocated().reserved(OTHER).pinned(ENTRY),
        "",
        ["u1"],
        [{"manager": "tollbar-reservations", "fieldsV1": {"f:status": {"f:reservedFor": {'k:{"uid":"u1"}': {}}}}}],
    ),
    "our entry, written by an older version": (
        claim()
        .allocated()
        .reserved(ENTRY)
        .written_by("tollbar-controllers", {"f:status": {"f:reservedFor": {'k:{"uid":"u1"}': {}}}}),
        "",
        ["u1"],
        [{"manager": "tollbar-reservations", "fieldsV1": {"f:status": {"f:reservedFor": {'k:{"uid":"u1"}': {}}}}}],
    ),
    "entries that Kubernetes could have added itself": (
        claim().allocated().pinned(pod_entry(pod()), GANG),
        "",
        [],
        [],
    ),
    "our entry is gone": (claim().allocated().pinned(ENTRY).but("status.reservedFor", [OTHER]), "", [], []),
    "another's entry": (
        claim()
        .allocated()
        .reserved(ENTRY)
        .written_by("kubectl", {"f:status": {"f:reservedFor": {'k:{"uid":"u1"}': {}}}}),
        "",
        [],
        [],
    ),
}


@pytest.mark.parametrize(("given", "creator", "ours", "kept"), KEPT.values(), ids=KEPT)
def test_reduced_managed_fields_give_the_same_answers(
    given: Claim, creator: str, ours: list[str], kept: list[Object]
) -> None:
    assert managers.reduced(given) == kept
    for each in (given, given.but("metadata.managedFields", kept)):
        assert (managers.creator(each), managers.reserved_by_us(each)) == (creator, ours)


LAST = wellknown.LAST_APPLIED_ANNOTATION
TOLERATIONS: dict[str, tuple[Object, bool]] = {
    "nobody applies": (pod().tolerating({"key": "a"}), False),
    "with kubectl": (pod().annotated({LAST: '{"spec": {"tolerations": [{"key": "a"}]}}'}), True),
    "with kubectl, an empty list": (pod().annotated({LAST: '{"spec": {"tolerations": []}}'}), True),
    "with kubectl, other fields": (pod().annotated({LAST: '{"spec": {"nodeName": "n1"}}'}), False),
    "an annotation that is no JSON": (pod().annotated({LAST: "{"}), False),
    "an annotation that is nested too deeply": (pod().annotated({LAST: "[" * 100_000}), False),
    "an annotation without a spec": (pod().annotated({LAST: '{"spec": "tolerations"}'}), False),
    "server-side": (managed("Apply", {"f:spec": {"f:tolerations": {}}}), True),
    "server-side, other fields": (managed("Apply", {"f:spec": {"f:nodeName": {}}}), False),
    "an update": (managed("Update", {"f:spec": {"f:tolerations": {}}}), False),
}


@pytest.mark.parametrize(("given", "applied"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_whether_somebody_applies_the_tolerations(given: Object, applied: bool) -> None:
    assert managers.is_applied(given, "spec", "tolerations") is applied


def test_who_wrote_a_member_of_the_status() -> None:
    fields = {"f:status": {"f:resourceClaimStatuses": {}}}
    written = claim().written_by("kubelet", {"f:status": {"f:phase": {}}}).written_by("ResourceClaimController", fields)
    assert managers.status_writer(written, "resourceClaimStatuses") == "ResourceClaimController"
    assert managers.status_writer(written, "extendedResourceClaimStatus") == ""
