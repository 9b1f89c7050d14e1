"""Where Pods go, what a scheduler says of those that go nowhere, and what wakes these.

kube-scheduler is the judge.  There are three Nodes: `east` and `west`, and `reserved`, which is tainted.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from contract.api import Api, until
from contract.objects import GPU, add, pod
from contract.tables import Rows, newer, rows

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Object
from tollbar.model.resources import EVENTS, NODES, PODS
from tollbar.runtime.client import PatchType

ROLE = "contract.example.com/role"
HOST = "kubernetes.io/hostname"
PREFIX = f"contract-{uuid.uuid4().hex[:10]}"
TAINT = {"key": GPU["key"], "value": "true", "effect": "NoSchedule"}


@pytest.fixture(scope="module", autouse=True)
def nodes(contracted: Any) -> Iterator[None]:
    """The only Nodes; their names have a prefix of this module's own."""
    with BackgroundKubelet(contracted.kubeconfig) as kubelet:
        for role in ("east", "west", "reserved"):
            taints = (TAINT,) if role == "reserved" else ()
            kubelet.add_node(NodeSpec(f"{PREFIX}-{role}", {ROLE: role}, taints, {"cpu": "4"}))
        yield


def start(api: Api, name: str = "web", cpu: str = "", **fields: Any) -> None:
    """Make a Pod with these members of its spec, or labels."""
    labels = fields.pop("labels", {"app": name})
    requests = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    containers = [{"name": "main", "image": "none", **requests}]
    spec = {"schedulerName": "default-scheduler", "containers": containers, **fields}
    api.create(pod(name=name, metadata={"labels": labels}, **spec)).accepted()


def node_of(api: Api, name: str = "web") -> str:
    """The role of the Node that the Pod gets."""
    found: str = until(lambda: api.get(PODS, name)["spec.nodeName"], f"{name} is bound")
    return found.removeprefix(f"{PREFIX}-")


def rejection(api: Api, name: str = "web") -> Object:
    """The condition PodScheduled of a Pod that is nowhere to go, without its times."""

    def rejected() -> Object | None:
        for each in api.get(PODS, name)["status.conditions"] or ():
            if each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable":
                return {key: each[key] for key in ("status", "reason", "message")}
        return None

    found: Object = until(rejected, f"{name} was tried")
    return found


def told(api: Api, reason: str, name: str = "web") -> Any:
    """Type, action and note of the Event with this reason, with NODE for the Nodes' prefix."""
    selector = f"regarding.uid={api.get(PODS, name)['metadata.uid']},reason={reason}"
    event = until(lambda: api.page(EVENTS, fieldSelector=selector)["items"], f"an Event {reason}")[0]
    note = event["note"].replace(PREFIX, "NODE").replace(api.namespace, "NAMESPACE")
    return event["type"], event["action"], note


def goes_to(**fields: Any) -> Any:
    def attempt(api: Api) -> str:
        start(api, **fields)
        return node_of(api)

    return attempt


def beside(**fields: Any) -> Any:
    """Where a Pod goes while another one, with the label `app=first`, is on `west`."""

    def attempt(api: Api) -> str:
        start(api, "first", nodeSelector={ROLE: "west"})
        node_of(api, "first")
        start(api, **fields)
        return node_of(api)

    return attempt


def says(**fields: Any) -> Any:
    def attempt(api: Api) -> Any:
        start(api, **fields)
        return rejection(api)["message"]

    return attempt


def preferring(role: str) -> Object:
    term = {"matchExpressions": [{"key": ROLE, "operator": "In", "values": [role]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}


def required(field: str) -> Object:
    """Affinity to, or from, Pods with the label `app=first`."""
    term = {"labelSelector": {"matchLabels": {"app": "first"}}, "topologyKey": HOST}
    return {field: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(**labels: str) -> list[Object]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": HOST,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels},
            "nodeTaintsPolicy": "Honor",
        }
    ]


PLACES: Rows = {
    "the only one that it selects": (goes_to(nodeSelector={ROLE: "east"}), "east"),
    "one whose taint it tolerates": (goes_to(nodeSelector={ROLE: "reserved"}, tolerations=[GPU]), "reserved"),
    "the one that it prefers": (goes_to(affinity=preferring("west")), "west"),
    "another one that it prefers": (goes_to(affinity=preferring("east")), "east"),
    "not to one that it prefers and does not tolerate": (
        beside(affinity={**preferring("reserved"), **required("podAffinity")}),
        "west",
    ),
    "not beside a Pod that it must not be with": (beside(affinity=required("podAntiAffinity")), "east"),
    "where fewer Pods of its app are": (
        beside(labels={"app": "first"}, topologySpreadConstraints=spread(app="first")),
        "east",
    ),
}


@rows(PLACES)
def test_where_a_pod_goes(api: Api, attempt: Any, want: str) -> None:
    assert attempt(api) == want


HELPLESS = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
MESSAGES: Rows = {
    "a selector": (
        says(nodeSelector={ROLE: "none"}, tolerations=[GPU]),
        f"0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. {HELPLESS}",
    ),
    "a taint": newer(
        "1.37",
        "other words",
        says(nodeSelector={ROLE: "reserved"}),
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node"
        f" affinity/selector. {HELPLESS}",
    ),
    "more than a Node has": newer(
        "1.37",
        "other words",
        says(cpu="5"),
        f"0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. {HELPLESS}",
    ),
    "Pods that it must be with": newer(
        "1.37",
        "other words",
        says(affinity=required("podAffinity")),
        "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match pod affinity rules."
        f" {HELPLESS}",
    ),
}


@rows(MESSAGES)
def test_what_a_pod_says_that_goes_nowhere(api: Api, attempt: Any, want: str) -> None:
    assert attempt(api) == want


def unscheduled(api: Api) -> Any:
    """The Event of a rejection, and whether its note is the condition's message."""
    start(api, nodeSelector={ROLE: "none"})
    kind, action, note = told(api, "FailedScheduling")
    return kind, action, note == rejection(api)["message"]


def scheduled(api: Api) -> Any:
    start(api, nodeSelector={ROLE: "east"})
    return told(api, "Scheduled")


TELLINGS: Rows = {
    "a Pod that goes nowhere": (unscheduled, ("Warning", "Scheduling", True)),
    "a Pod that is bound": (scheduled, ("Normal", "Binding", "Successfully assigned NAMESPACE/web to NODE-east")),
}


@rows(TELLINGS)
def test_what_events_tell(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == want


def after(change: Any, **fields: Any) -> Any:
    """Where a Pod goes after a change, before which it goes nowhere."""

    def attempt(api: Api) -> str:
        start(api, **fields)
        rejection(api)
        change(api)
        return node_of(api)

    return attempt


def tolerate(api: Api) -> None:
    api.patch(PODS, "web", [add("/spec/tolerations/-", GPU)]).accepted()


def label(api: Api) -> None:
    name, labels = f"{PREFIX}-west", {"metadata": {"labels": {"contract.example.com/new": "label"}}}
    api.request("PATCH", NODES.path("", name), labels, content_type=PatchType.MERGE.value).accepted()


def leave(api: Api) -> None:
    api.delete(PODS, "first", gracePeriodSeconds=0).accepted()


def finish(api: Api) -> None:
    until(lambda: api.get(PODS, "first")["status.phase"] == "Running", "the first one runs")
    api.patch(PODS, "first", {"status": {"phase": "Succeeded"}}, PatchType.MERGE, "status").accepted()


def crowded(change: Any) -> Any:
    """Where a Pod goes after a change of another one, which takes the room."""

    def attempt(api: Api) -> str:
        start(api, "first", cpu="3", nodeSelector={ROLE: "east"})
        node_of(api, "first")
        return str(after(change, cpu="2", nodeSelector={ROLE: "east"})(api))

    return attempt


WAKINGS: Rows = {
    "a toleration that comes late": (after(tolerate, nodeSelector={ROLE: "reserved"}), "reserved"),
    "a label of a Node": (after(label, nodeSelector={"contract.example.com/new": "label"}), "west"),
    "room, when a Pod is deleted": (crowded(leave), "east"),
    "room, when a Pod has finished": (crowded(finish), "east"),
}


@rows(WAKINGS)
def test_what_wakes_a_pod(api: Api, attempt: Any, want: str) -> None:
    assert attempt(api) == want
