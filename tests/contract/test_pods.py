"""Pods: what creation fills in and refuses, conditions, binding."""

from typing import Any

import pytest
from contract.api import Answer, Api, Refusal, told
from contract.objects import pod, remove
from contract.tables import Rows, invalid, last, not_found, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import PODS
from tollbar.runtime.client import PatchType

A = "example.com/a"
GATES = "/spec/schedulingGates"
CLAIM = {"name": "gpu", "resourceClaimName": "gpu"}


def condition(answer: Answer) -> Any:
    """The PodScheduled condition as (status, reason, message), None without it."""
    for each in answer["status.conditions"] or ():
        if each["type"] == "PodScheduled":
            return each["status"], each.get("reason"), each.get("message")
    return None


HELD = ("False", "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
REJECTED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
CONDITIONS: Rows = {
    "a gated Pod says so from the start": (lambda api: condition(api.create(pod(A))), HELD),
    "a Pod without gates says nothing": (lambda api: api.create(pod())["status.conditions"], None),
    "releasing does not change what it says": (
        lambda api: last(api.create(pod(A)), condition(api.patch(PODS, "web", [remove(GATES)]))),
        HELD,
    ),
    "binding does": (
        lambda api: last(
            api.create(pod(A)),
            api.patch(PODS, "web", [remove(GATES)]),
            api.bind(),
            condition(api.get(PODS, "web")),
        ),
        ("True", None, None),
    ),
    "binding writes the Node": (
        lambda api: last(
            api.create(pod()),
            api.bind(node=api.namespace),
            api.get(PODS, "web")["spec.nodeName"] == api.namespace,
        ),
        True,
    ),
    "binding ends a nomination": (
        lambda api: last(
            api.create(pod()),
            api.patch(PODS, "web", {"status": {"nominatedNodeName": "other"}}, PatchType.MERGE, "status"),
            api.bind(),
            api.get(PODS, "web")["status.nominatedNodeName"],
        ),
        None,
    ),
    "what a scheduler writes after the binding stays": (
        lambda api: last(
            api.create(pod()),
            api.bind(),
            api.patch(PODS, "web", {"status": {"conditions": [REJECTED]}}, PatchType.STRATEGIC, "status"),
            condition(api.get(PODS, "web")),
        ),
        ("False", "Unschedulable", "no room"),
    ),
    "binding twice": (
        lambda api: last(api.create(pod()), api.bind(), api.bind()),
        Refusal(
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "UID"',
        ),
    ),
    "binding of what is not there": (lambda api: api.bind(), not_found('pods "web"')),
    "a new Pod is Pending": (lambda api: api.create(pod())["status.phase"], "Pending"),
    "a Pod that is deleted keeps its phase until it is gone": (
        lambda api: last(
            api.create(pod(A, metadata={"finalizers": ["example.com/wait"]})),
            api.delete(PODS, "web")["status.phase"],
        ),
        "Pending",
    ),
}


@pytest.mark.behaviour(9, case="a gated Pod says so from the start")
@rows(CONDITIONS)
def test_conditions_and_binding(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def asking(**resources: Any) -> Object:
    return pod(A, containers=[{"name": "main", "image": "none", "resources": resources}])


CREATION: Rows = {
    "priority, scheduler, grace and restarts": (
        lambda api: (
            (found := api.create(pod(A, schedulerName=None)))
            and tuple(
                found[f"spec.{each}"]
                for each in ("priority", "schedulerName", "terminationGracePeriodSeconds", "restartPolicy")
            )
        ),
        (0, "default-scheduler", 30, "Always"),
    ),
    "requests of an extended resource come from its limits": (
        lambda api: api.create(asking(limits={"example.com/gpu": "2"}))["spec.containers.0.resources.requests"],
        {"example.com/gpu": "2"},
    ),
    "an extended resource that is requested but not limited": (
        lambda api: api.create(asking(requests={"example.com/gpu": "2"})),
        invalid(
            'Pod "web"',
            (
                "FieldValueRequired",
                "spec.containers[0].resources.limits",
                "Required value: Limit must be set for non overcommitable resources",
            ),
        ),
    ),
    "half an extended resource": (
        lambda api: api.create(asking(limits={"example.com/gpu": "500m"})).refusal().causes,
        tuple(
            wrong(f"spec.containers[0].resources.{member}[example.com/gpu]", '"500m"', "must be an integer")
            for member in ("limits", "requests")
        ),
    ),
    "a claim that no container uses": (
        lambda api: api.create(pod(A, resourceClaims=[CLAIM]))["spec.resourceClaims"],
        [CLAIM],
    ),
    "a container's claim that the Pod does not have": (
        lambda api: api.create(asking(claims=[{"name": "gpu"}])),
        invalid(
            'Pod "web"',
            (
                "FieldValueNotFound",
                "spec.containers[0].resources.claims[0]",
                'Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty',
            ),
        ),
    ),
    "a claim by name and by template at once": (
        lambda api: api.create(pod(A, resourceClaims=[{**CLAIM, "resourceClaimTemplateName": "gpu"}])).refusal().causes,
        (
            wrong(
                "spec.resourceClaims[0]",
                '{"Name":"gpu","ResourceClaimName":"gpu","ResourceClaimTemplateName":"gpu"}',
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            ),
        ),
    ),
    "a claim by neither": (
        lambda api: api.create(pod(A, resourceClaims=[{"name": "gpu"}])).refusal().causes,
        (
            wrong(
                "spec.resourceClaims[0]",
                '{"Name":"gpu","ResourceClaimName":null,"ResourceClaimTemplateName":null}',
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
            ),
        ),
    ),
    "two claims of one name": (
        lambda api: api.create(pod(A, resourceClaims=[CLAIM, CLAIM])).refusal().causes,
        (("FieldValueDuplicate", "spec.resourceClaims[1].name", 'Duplicate value: "gpu"'),),
    ),
    "no container": (
        lambda api: api.create(pod(A, containers=[])),
        invalid('Pod "web"', ("FieldValueRequired", "spec.containers", "Required value")),
    ),
    "a service account that does not exist": (
        lambda api: api.create(pod(A, serviceAccountName="nobody")),
        Refusal(
            403,
            "Forbidden",
            'pods "web" is forbidden: error looking up service account NAMESPACE/nobody: serviceaccount "nobody" not'
            " found",
        ),
    ),
    "every claim status is of a claim in the spec": (
        lambda api: last(
            api.create(pod(A)),
            api.patch(PODS, "web", {"status": {"resourceClaimStatuses": [{"name": "x"}]}}, PatchType.MERGE, "status")
            .refusal()
            .causes,
        ),
        (
            wrong(
                "status.resourceClaimStatuses[0].name",
                '"x"',
                "must match the name of an entry in `spec.resourceClaims`",
            ),
        ),
    ),
}


@rows(CREATION)
def test_creation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
