"""Admission in the embedded plane, beyond the contract: the matching of webhooks, and priorities."""

from typing import Any

import pytest

from tollbar.devplane.embedded import bootstrap, matchconditions
from tollbar.devplane.embedded.admission import Admission, builtin, matching
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Storage
from tollbar.model.objects import Key, Object
from tollbar.model.resources import DEVICE_CLASSES, NAMESPACES, PODS, Resource
from tollbar.runtime.clock import SystemClock

KINDS = Kinds()


def about(res: Resource = PODS, operation: str = "CREATE", subresource: str = "") -> Write:
    namespace = "team" if res.namespaced else ""
    return Write(KINDS.at(res), Key(namespace, "web"), operation=operation, subresource=subresource)


@pytest.fixture
def storage() -> Storage:
    """A namespace `team` with a label and the ServiceAccount that its Pods need."""
    made = Storage()
    bootstrap.open_tables(Registry(made, KINDS, Admission(made), SystemClock()))
    made.write(NAMESPACES, {"metadata": {"name": "team", "labels": {"env": "prod"}}}, None)
    made.write(SERVICE_ACCOUNTS, {"metadata": {"name": "default", "namespace": "team"}}, None)
    return made


def rule(**fields: Any) -> Object:
    every = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    return {"rules": [{**every, **fields}]}


SELECTED: dict[str, tuple[Object, Write, bool]] = {
    "no rule": ({"rules": []}, about(), False),
    "everything": (rule(), about(), True),
    "`*` does not include subresources": (rule(), about(subresource="status"), False),
    "`*/*` includes subresources": (rule(resources=["*/*"]), about(subresource="status"), True),
    "a resource": (rule(resources=["pods"]), about(), True),
    "a resource does not include its subresources": (rule(resources=["pods"]), about(subresource="status"), False),
    "a subresource": (rule(resources=["pods/status"]), about(subresource="status"), True),
    "every subresource of a resource, and itself": (rule(resources=["pods", "pods/*"]), about(), True),
    "a subresource of everything": (rule(resources=["*/status"]), about(subresource="status"), True),
    "another resource": (rule(resources=["configmaps"]), about(), False),
    "another operation": (rule(operations=["UPDATE"]), about(), False),
    "another group": (rule(apiGroups=["apps"]), about(), False),
    "another version": (rule(apiVersions=["v2"]), about(), False),
    "the scope Namespaced": (rule(scope="Namespaced"), about(DEVICE_CLASSES), False),
    "the scope Cluster": (rule(scope="Cluster"), about(DEVICE_CLASSES), True),
    "the namespace's labels": ({**rule(), "namespaceSelector": {"matchLabels": {"env": "prod"}}}, about(), True),
    "other labels of the namespace": ({**rule(), "namespaceSelector": {"matchLabels": {"env": "dev"}}}, about(), False),
    "a namespaceSelector selects every cluster-scoped object": (
        {**rule(), "namespaceSelector": {"matchLabels": {"env": "dev"}}},
        about(DEVICE_CLASSES),
        True,
    ),
    "a namespace's own labels": (
        {**rule(), "namespaceSelector": {"matchLabels": {"new": "yes"}}},
        about(NAMESPACES),
        True,
    ),
    "the new labels": ({**rule(), "objectSelector": {"matchLabels": {"new": "yes"}}}, about(), True),
    "the old labels": ({**rule(), "objectSelector": {"matchLabels": {"old": "yes"}}}, about(), True),
    "neither": ({**rule(), "objectSelector": {"matchLabels": {"new": "no"}}}, about(), False),
}


@pytest.mark.parametrize(("webhook", "request_", "want"), SELECTED.values(), ids=SELECTED)
def test_which_webhooks_are_called(storage: Storage, webhook: Object, request_: Write, want: bool) -> None:
    new, old = ({"metadata": {"labels": {name: "yes"}}} for name in ("new", "old"))
    assert matching.selected(storage, webhook, request_, new, old) == want


TRUE, FALSE, FAILING = "object.metadata.name == 'web'", "has(oldObject.spec)", "request.userInfo.username == ''"
CONDITIONS: dict[str, tuple[list[str], bool | str]] = {
    "there are none": ([], True),
    "all are true": ([TRUE, TRUE], True),
    "one is false": ([TRUE, FALSE], False),
    "one fails": ([FAILING, TRUE], f"expression '{FAILING}' resulted in error: no such key: userInfo"),
    "one fails and another is false": ([FAILING, FALSE], False),
}


@pytest.mark.parametrize(("expressions", "want"), CONDITIONS.values(), ids=CONDITIONS)
def test_match_conditions(expressions: list[str], want: bool | str) -> None:
    webhook = {"matchConditions": [{"name": "one", "expression": each} for each in expressions]}
    request = {"object": {"metadata": {"name": "web"}}, "oldObject": {"metadata": {}}}
    assert matchconditions.outcome(webhook, request) == want


PRIORITIES: dict[str, tuple[Object, Any]] = {
    "that of every Pod": ({}, (0, "PreemptLowerPriority")),
    "one that never preempts": ({"preemptionPolicy": "Never"}, (0, "Never")),
    "that of a class": (
        {"priorityClassName": "high"},
        "the embedded control plane does not have PriorityClasses: leave out priorityClassName",
    ),
}


@pytest.mark.parametrize(("spec", "want"), PRIORITIES.values(), ids=PRIORITIES)
def test_priorities(storage: Storage, spec: Object, want: Any) -> None:
    assert priority(storage, {"metadata": {"name": "web"}, "spec": {"restartPolicy": "Always", **spec}}) == want


def priority(storage: Storage, pod: Object) -> Any:
    """Priority and preemption of a new Pod, or why it is refused."""
    try:
        builtin.mutate(storage, about(), pod)
    except Refused as refused:
        return refused.message
    return pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]
