"""What the API server does not do itself: garbage collection, namespaces, claims from templates, scheduling.

These rows depend on kube-controller-manager and kube-scheduler, which run beside the API server of every plane, or on
what takes their part.  So nothing here is immediate; everything is waited for.
"""

import uuid
from typing import Any

from contract.api import Answer, Api, Refusal, told, until
from contract.objects import SERVICE_ACCOUNTS, lease, made, pod, remove
from contract.tables import Rows, last, rows

from tollbar.model.objects import Object
from tollbar.model.resources import EVENTS, LEASES, NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS

A = "example.com/a"


def owner(answer: Answer, **more: Any) -> Object:
    """An owner reference to a Lease."""
    meta = answer["metadata"]
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "name": meta["name"], "uid": meta["uid"], **more}


def family(api: Api) -> Answer:
    """A Lease `turn` that owns the Lease `child`."""
    return api.create(lease("child", ownerReferences=[owner(api.create(lease()))]))


def gone(api: Api, name: str = "child") -> int:
    until(lambda: api.get(LEASES, name).code == 404, f"{name} is gone")
    return api.get(LEASES, name).code


def orphaned(api: Api) -> Any:
    family(api).accepted()
    api.delete(LEASES, "turn", propagationPolicy="Orphan").accepted()
    until(lambda: api.get(LEASES, "child")["metadata.ownerReferences"] is None, "the child has no owner")
    return gone(api, "turn"), told(api.get(LEASES, "child"))


def in_the_foreground(api: Api) -> Any:
    """The owner waits while a dependent that blocks it is kept by a finalizer."""
    parent = api.create(lease())
    meta: Object = {"ownerReferences": [owner(parent, blockOwnerDeletion=True)], "finalizers": ["example.com/wait"]}
    api.create(lease("child", **meta)).accepted()
    api.delete(LEASES, "turn", propagationPolicy="Foreground").accepted()
    until(lambda: api.get(LEASES, "child")["metadata.deletionTimestamp"], "the child is being deleted")
    waiting = api.get(LEASES, "turn")["metadata.finalizers"]
    api.patch(LEASES, "child", [remove("/metadata/finalizers")]).accepted()
    return waiting, gone(api), gone(api, "turn")


def of_two(api: Api) -> Any:
    first, second = api.create(lease()), api.create(lease("other"))
    api.create(lease("child", ownerReferences=[owner(first), owner(second)])).accepted()
    api.delete(LEASES, "turn", propagationPolicy="Background").accepted()
    until(lambda: len(api.get(LEASES, "child")["metadata.ownerReferences"]) == 1, "one owner is left")
    return [each["name"] for each in api.get(LEASES, "child")["metadata.ownerReferences"]]


def of_nobody(api: Api) -> int:
    reference = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "name": "turn", "uid": str(uuid.uuid4())}
    api.create(lease("child", ownerReferences=[reference])).accepted()
    return gone(api)


def of_the_name(api: Api) -> int:
    """The owner was deleted and created again: the uid counts."""
    family(api).accepted()
    parent = api.get(LEASES, "turn")
    api.delete(LEASES, "turn", propagationPolicy="Background").accepted()
    assert api.create(lease())["metadata.uid"] != parent["metadata.uid"]
    return gone(api)


GARBAGE: Rows = {
    "dependents go after their owner": (
        lambda api: last(family(api), api.delete(LEASES, "turn", propagationPolicy="Background"), gone(api)),
        404,
    ),
    "dependents are left as orphans": (orphaned, (404, 200)),
    "dependents go before their owner": (in_the_foreground, (["foregroundDeletion"], 404, 404)),
    "a dependent stays while it has an owner": (of_two, ["other"]),
    "a dependent of what never was goes": (of_nobody, 404),
    "a dependent of an earlier object of that name goes": (of_the_name, 404),
}


@rows(GARBAGE)
def test_garbage_collection(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def fresh(api: Api) -> Api:
    """Another namespace."""
    other = Api(api.access, f"contract-{uuid.uuid4().hex[:10]}")
    other.request("POST", NAMESPACES.path(), made(NAMESPACES, other.namespace)).accepted()
    return other


def with_an_account(api: Api) -> Any:
    other = fresh(api)
    until(lambda: other.get(SERVICE_ACCOUNTS, "default").code == 200, "the default ServiceAccount exists")
    answer = other.create(pod(A))
    other.request("DELETE", NAMESPACES.path("", other.namespace)).accepted()
    other.close()
    return answer


def ending_namespace(api: Api) -> Any:
    """What a namespace says while it ends, which a finalizer delays, what it says to new objects, and its end."""
    other = fresh(api)
    other.create(lease(finalizers=["example.com/wait"])).accepted()
    path = NAMESPACES.path("", other.namespace)
    phase = other.request("DELETE", path)["status.phase"]
    refused = told(other.create(lease("late")))
    other.patch(LEASES, "turn", [remove("/metadata/finalizers")]).accepted()
    until(lambda: other.request("GET", path).code == 404, "the namespace is gone")
    other.close()
    return phase, refused, api.request("GET", LEASES.path(other.namespace))["items"]


SYSTEM = {"default", "kube-node-lease", "kube-public", "kube-system"}
NAMESPACE_ROWS: Rows = {
    "a new namespace gets what Pods need": (with_an_account, 201),
    "a namespace that ends takes its objects with it, and no new ones": (
        ending_namespace,
        (
            "Terminating",
            Refusal(
                403,
                "Forbidden",
                'leases.coordination.k8s.io "late" is forbidden: unable to create new content in namespace NAMESPACE'
                " because it is being terminated",
                (("NamespaceTerminating", "metadata.namespace", "namespace NAMESPACE is being terminated"),),
            ),
            [],
        ),
    ),
    "the system's namespaces stay": (
        lambda api: api.request("DELETE", NAMESPACES.path("", "kube-system")),
        Refusal(403, "Forbidden", 'namespaces "kube-system" is forbidden: this namespace may not be deleted'),
    ),
    "the system's namespaces exist": (
        lambda api: until(lambda: set(api.names(NAMESPACES)) >= SYSTEM, "they are there"),
        True,
    ),
}


@rows(NAMESPACE_ROWS)
def test_namespaces(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


TEMPLATE = made(
    RESOURCE_CLAIM_TEMPLATES,
    "gpu",
    spec={
        "metadata": {"labels": {"a": "b"}},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}]}},
    },
)
BY_TEMPLATE = pod(A, resourceClaims=[{"name": "card", "resourceClaimTemplateName": "gpu"}])


def generated(api: Api) -> Answer:
    """The claim that was generated for a gated Pod."""
    api.create(TEMPLATE).accepted()
    api.create(BY_TEMPLATE).accepted()
    name = until(
        lambda: api.get(PODS, "web")["status.resourceClaimStatuses.0.resourceClaimName"], "the Pod names its claim"
    )
    return api.get(RESOURCE_CLAIMS, name).accepted()


def owners(claim: Answer, api: Api) -> Any:
    """Its owner references, with the Pod's uid as True."""
    uid = api.get(PODS, "web")["metadata.uid"]
    return [{**each, "uid": each["uid"] == uid} for each in claim["metadata.ownerReferences"]]


def going_with_its_pod(api: Api) -> int:
    claim = generated(api)["metadata.name"]
    api.delete(PODS, "web", propagationPolicy="Background").accepted()
    return int(until(lambda: (code := api.get(RESOURCE_CLAIMS, claim).code) == 404 and code, "the claim is gone"))


def without_a_template(api: Api) -> Any:
    """What a Pod hears whose template does not exist, nor ever did: one just deleted might still be remembered."""
    api.create(pod(A, name="lost", resourceClaims=[{"name": "card", "resourceClaimTemplateName": "none"}])).accepted()
    said = until(
        lambda: api.page(EVENTS, fieldSelector="regarding.name=lost,reason=FailedResourceClaimCreation")["items"],
        "there is an event",
    )
    begin, end = said[0]["note"][: len(MISSING)], said[0]["note"].rpartition('"')[2]
    return said[0]["type"], begin + end, api.get(PODS, "lost")["status.resourceClaimStatuses"]


MISSING = 'PodResourceClaim card: resource claim template "none"'
CLAIMS: Rows = {
    "a gated Pod's claim is generated, and named after both": (
        lambda api: generated(api)["metadata.name"].rpartition("-")[0],
        "web-card",
    ),
    "it has the template's labels": (lambda api: generated(api)["metadata.labels"], {"a": "b"}),
    "it says for which reference of the Pod it is": (
        lambda api: generated(api)["metadata.annotations"],
        {"resource.kubernetes.io/pod-claim-name": "card"},
    ),
    "the Pod controls it": (
        lambda api: owners(generated(api), api),
        [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": True, "controller": True}],
    ),
    "nobody has it while the Pod is gated": (
        lambda api: (claim := generated(api)) and claim["status"],
        {},
    ),
    "its name is written into the Pod's status by its generator": (
        lambda api: last(
            generated(api),
            [
                each["manager"]
                for each in api.get(PODS, "web")["metadata.managedFields"]
                if "f:resourceClaimStatuses" in each["fieldsV1"].get("f:status", {})
            ],
        ),
        ["ResourceClaimController"],
    ),
    "it goes with its Pod": (going_with_its_pod, 404),
    "a template that does not exist": (
        without_a_template,
        (
            "Warning",
            f"{MISSING} not found",
            None,
        ),
    ),
}


@rows(CLAIMS)
def test_claims_from_templates(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


NOWHERE: Object = {"schedulerName": "default-scheduler", "nodeSelector": {"contract.example.com/no-such": "node"}}


def reason(api: Api, name: str = "web") -> Any:
    return api.get(PODS, name)["status.conditions.0.reason"]


BY_NAME = pod(A, schedulerName="default-scheduler", resourceClaims=[{"name": "card", "resourceClaimName": "none"}])
THE_CLAIM = made(
    RESOURCE_CLAIMS,
    "none",
    spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "contract.example.com"}}]}},
)


def released_without_its_claim(api: Api) -> Any:
    """What a Pod says when the scheduler has looked at another one that came after its release."""
    api.create(BY_NAME).accepted()
    api.patch(PODS, "web", [remove("/spec/schedulingGates")]).accepted()
    api.create(pod(name="next", **NOWHERE)).accepted()
    until(lambda: reason(api, "next") == "Unschedulable", "the scheduler has looked at the next one")
    return reason(api)


SCHEDULING: Rows = {
    "a Pod that fits nowhere says so": (
        lambda api: last(
            api.create(pod(**NOWHERE)),
            until(lambda: reason(api) == "Unschedulable" and reason(api), "it is unschedulable"),
        ),
        "Unschedulable",
    ),
    "a released Pod is looked at, and says what is wrong now": (
        lambda api: last(
            api.create(pod(A, **NOWHERE)),
            api.patch(PODS, "web", [remove("/spec/schedulingGates")]),
            until(lambda: reason(api) == "Unschedulable" and reason(api), "it is unschedulable"),
        ),
        "Unschedulable",
    ),
    "a Pod released without its claim goes on saying that it is gated": (released_without_its_claim, "SchedulingGated"),
    "and says what is wrong now once the claim is there": (
        lambda api: last(
            released_without_its_claim(api),
            api.create(THE_CLAIM),
            until(lambda: reason(api) == "Unschedulable" and reason(api), "it is unschedulable"),
        ),
        "Unschedulable",
    ),
}


@rows(SCHEDULING)
def test_scheduling(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
