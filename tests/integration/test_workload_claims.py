"""WorkloadClaims on a real API server: it refuses what our parser refuses, and lets nobody move a reservation."""

from typing import Any

import orjson
import pytest
from integration.dryrun import is_accepted

from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.devplane.kubectl import Kubectl
from tollbar.model.objects import Object
from tollbar.model.resources import WORKLOAD_CLAIMS
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import Invalid

WEB = {"apiGroup": "apps", "resource": "deployments", "name": "web"}

pytestmark = pytest.mark.usefixtures("definitions")


def claim(namespace: str, **spec: Any) -> Object:
    given = {"workloadRef": WEB, "resourceClaimTemplateName": "one-gpu", **spec}
    return {
        "apiVersion": WORKLOAD_CLAIMS.api_version,
        "kind": WORKLOAD_CLAIMS.kind,
        "metadata": {"name": "tried", "namespace": namespace},
        "spec": {field: value for field, value in given.items() if value is not None},
    }


SPECS: dict[str, dict[str, Any]] = {
    "a template": {},
    "a claim": {"resourceClaimTemplateName": None, "resourceClaimName": "gpu"},
    "neither": {"resourceClaimTemplateName": None},
    "both": {"resourceClaimName": "gpu"},
    "an empty template": {"resourceClaimTemplateName": ""},
    "a template in capitals": {"resourceClaimTemplateName": "One"},
    "no workload": {"workloadRef": None},
    "a core workload": {"workloadRef": {"resource": "replicationcontrollers", "name": "web"}},
    "a group in capitals": {"workloadRef": {**WEB, "apiGroup": "Apps"}},
    "a kind instead of a resource": {"workloadRef": {**WEB, "resource": "Deployment"}},
    "a dotted resource": {"workloadRef": {**WEB, "resource": "deployments.apps"}},
    "a dotted name": {"workloadRef": {**WEB, "name": "web.1"}},
    "a name with a slash": {"workloadRef": {**WEB, "name": "a/b"}},
    "a policy": {"release": "WhenIdle"},
    "another policy": {"release": "Never"},
    "a PodGroup": {"podGroup": {"podClaimName": "gpu", "priorityClassName": "high.priority"}},
    "a PodGroup without a name for the claim": {"podGroup": {}},
    "a PodGroup with a name for the claim in capitals": {"podGroup": {"podClaimName": "GPU"}},
    "a PodGroup with a priority in capitals": {"podGroup": {"podClaimName": "gpu", "priorityClassName": "High"}},
    "a PodGroup of no scheduler": {"podGroup": {"podClaimName": "gpu", "schedulerName": ""}},
    "an unknown field": {"workloadRef": {**WEB, "namespace": "prod"}},
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
async def test_the_server_and_the_parser_are_of_one_mind(
    admin: Client, shared_namespace: str, spec: dict[str, Any]
) -> None:
    wanted = claim(shared_namespace, **spec)
    accepted = await is_accepted(admin, WORKLOAD_CLAIMS.path(shared_namespace), wanted)
    assert isinstance(parse_workload_claim(wanted), WorkloadClaim) is accepted


CHANGES: dict[str, tuple[dict[str, Any], bool]] = {
    "the policy": ({"release": "WhenIdle"}, True),
    "a PodGroup as well": ({"podGroup": {"podClaimName": "gpu"}}, True),
    "the workload": ({"workloadRef": {"name": "api"}}, False),
    "the template": ({"resourceClaimTemplateName": "two-gpus"}, False),
    "the template for a claim": ({"resourceClaimTemplateName": None, "resourceClaimName": "gpu"}, False),
}


@pytest.mark.parametrize(("change", "allowed"), CHANGES.values(), ids=CHANGES)
async def test_what_may_change(admin: Client, shared_namespace: str, change: dict[str, Any], allowed: bool) -> None:
    here = {"namespace": shared_namespace}
    await admin.create(WORKLOAD_CLAIMS, claim(shared_namespace))
    said = ""
    try:
        await admin.patch(WORKLOAD_CLAIMS, "tried", {"spec": change}, **here, patch_type=PatchType.MERGE)
    except Invalid as refused:
        said = refused.message
    finally:
        await admin.delete(WORKLOAD_CLAIMS, "tried", **here)
    assert ("field is immutable" in said, said == "") == (not allowed, allowed)


def test_kubectl_shows_how_it_stands(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(claim(namespace))
    condition = {
        "type": "Reserved",
        "status": "True",
        "reason": "Held",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"resourceClaimName": "tried", "phase": "Reserved", "consumers": 2, "conditions": [condition]}
    body = orjson.dumps({"status": status}).decode()
    here = ("-n", namespace)
    kubectl("patch", "wlclaim/tried", "--subresource=status", "--type=merge", "-p", body, *here)
    shown = [line.split()[:-1] for line in kubectl("get", "wlclaim", *here).splitlines()]
    found = kubectl("get", "wlclaim", "-o", "name", "--field-selector=status.phase=Reserved", *here)
    assert (shown, found) == (
        [
            ["NAME", "RESOURCE", "WORKLOAD", "CLAIM", "PHASE", "REASON", "CONSUMERS"],
            ["tried", "deployments", "web", "tried", "Reserved", "Held", "2"],
        ],
        "workloadclaim.tollbar.dev/tried\n",
    )
