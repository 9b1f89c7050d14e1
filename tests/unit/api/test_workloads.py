"""WorkloadClaims: parsed, or every mistake in one clear line."""

from typing import Any

import pytest

from tollbar.api.reasons import ReservedReason
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim

NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
ONE = "spec: Required value: exactly one of resourceClaimTemplateName and resourceClaimName must be set"
WEB = {"apiGroup": "apps", "resource": "deployments", "name": "web"}


def claim(**spec: Any) -> dict[str, Any]:
    given = {"workloadRef": WEB, "resourceClaimTemplateName": "one-gpu", **spec}
    return {
        "apiVersion": "tollbar.dev/v1alpha1",
        "kind": "WorkloadClaim",
        "metadata": {"name": "web-gpu", "namespace": "ml"},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


ERRORS: dict[str, tuple[Any, list[str]]] = {
    "no object": ([], ["Invalid value: []: must be an object"]),
    "no workload": (claim(workloadRef=None), ["spec.workloadRef: Required value"]),
    "a kind instead of a resource": (
        claim(workloadRef={**WEB, "resource": "Deployment"}),
        [f'spec.workloadRef.resource: Invalid value: "Deployment": {NO_LABEL}'],
    ),
    "no name": (claim(workloadRef={**WEB, "name": ""}), ["spec.workloadRef.name: Required value"]),
    "neither template nor claim": (claim(resourceClaimTemplateName=None), [ONE]),
    "template and claim": (claim(resourceClaimName="gpu"), [ONE]),
    "another policy": (
        claim(release="Never"),
        ['spec.release: Unsupported value: "Never": supported values: "WhenDeleted", "WhenFinished", "WhenIdle"'],
    ),
    "another workload's namespace": (
        claim(workloadRef={**WEB, "namespace": "prod"}),
        ['spec.workloadRef.namespace: Forbidden: unknown field; did you mean "name"?'],
    ),
}


@pytest.mark.parametrize(("given", "want"), ERRORS.values(), ids=ERRORS)
def test_mistakes(given: Any, want: list[str]) -> None:
    found = parse_workload_claim(given)
    assert isinstance(found, list)
    assert ([str(error) for error in found], {error.reason for error in found}) == (want, {ReservedReason.INVALID_SPEC})


def test_the_claim_is_called_like_the_workload_claim_unless_it_is_there_already() -> None:
    made, adopted = (
        parse_workload_claim(given)
        for given in (claim(), claim(resourceClaimTemplateName=None, resourceClaimName="gpu"))
    )
    assert isinstance(made, WorkloadClaim)
    assert isinstance(adopted, WorkloadClaim)
    assert [(each.claim_name, str(each.spec.workload_ref.reference)) for each in (made, adopted)] == [
        ("web-gpu", "deployments.apps/web"),
        ("gpu", "deployments.apps/web"),
    ]


def test_a_core_workload_has_no_group() -> None:
    found = parse_workload_claim(claim(workloadRef={"resource": "replicationcontrollers", "name": "web"}))
    assert isinstance(found, WorkloadClaim)
    assert str(found.spec.workload_ref.reference) == "replicationcontrollers/web"
