"""Zone and region of a Node, which the API server copies into the labels of its Pods (PodTopologyLabels, KEP-4742).

The API server learns of a new Node by a watch: a dry run of a Pod that is created on it shows whether it has.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
from contract.api import Api, until
from contract.objects import made, pod
from contract.tables import Rows, rows
from planes.parameters import since

from tollbar.model.objects import Object
from tollbar.model.resources import NODES, PODS

pytestmark = since("1.35", "the gate PodTopologyLabelsAdmission is off")

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
COPIED = {ZONE: "a", REGION: "x"}
BOTH = f"contract-{uuid.uuid4().hex[:10]}"
"""A Node with a zone and a region."""
HALF, NONE = f"{BOTH}-half", f"{BOTH}-none"
"""One without a region, and one that does not exist."""


@pytest.fixture(scope="module", autouse=True)
def nodes(home: Api) -> Iterator[None]:
    for name, labels in ((BOTH, COPIED), (HALF, {ZONE: "a"})):
        node = made(NODES, name, metadata={"labels": {**labels, "contract.example.com/rack": "r"}})
        home.request("POST", NODES.path(), node).accepted()
        until(partial(created, home, name, {}, dryRun="All"), f"the API server knows {name}")
    yield
    for name in (BOTH, HALF):
        home.request("DELETE", NODES.path("", name)).accepted()


def created(api: Api, node: str, own: Mapping[str, str], **query: str) -> Any:
    """The labels of a Pod that is created on a Node with labels of its own."""
    return api.create(pod(metadata={"labels": own}, nodeName=node), **query).accepted()["metadata.labels"]


def bound(node: str, *, pod_has: Object, kind: str = "Node", **metadata: Any) -> Callable[[Api], Any]:
    """Whether a Pod with some metadata is on the Node, and what that metadata is, after a Binding.

    `metadata` is that of the Binding, and `kind` what it says of its target.
    """

    def attempt(api: Api) -> Any:
        api.create(pod(metadata=pod_has)).accepted()
        target = {"name": node, **({"kind": kind} if kind else {})}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web", **metadata}, "target": target}
        api.request("POST", api.path(PODS, "web", "binding"), body).accepted()
        found = api.get(PODS, "web")
        return found["spec.nodeName"] == node, {member: found["metadata"][member] for member in pod_has}

    return attempt


OWN = {ZONE: "mine", REGION: "mine"}
BINDING: Rows = {
    "zone and region are added, and no other label": (
        bound(BOTH, pod_has={"labels": {"app": "web"}}),
        {"labels": {"app": "web", **COPIED}},
    ),
    "over the Pod's own": (bound(BOTH, pod_has={"labels": OWN}), {"labels": COPIED}),
    "one that the Node does not have stays": (
        bound(HALF, pod_has={"labels": OWN}),
        {"labels": {**OWN, ZONE: "a"}},
    ),
    "a Node that does not exist has none": (bound(NONE, pod_has={"labels": OWN}), {"labels": OWN}),
    "a Binding that does not say that its target is a Node adds none": (
        bound(BOTH, pod_has={"labels": OWN}, kind=""),
        {"labels": OWN},
    ),
    "labels of the Binding are written over the Pod's own": (
        bound(NONE, pod_has={"labels": {"app": "web", "tier": "front"}}, labels={"app": "other", "new": "label"}),
        {"labels": {"app": "other", "tier": "front", "new": "label"}},
    ),
    "the Node's over those of the Binding": (
        bound(BOTH, pod_has={"labels": {"app": "web"}}, labels={ZONE: "mine", "new": "label"}),
        {"labels": {"app": "web", "new": "label", **COPIED}},
    ),
    "annotations of the Binding are written over the Pod's own": (
        bound(BOTH, pod_has={"annotations": {"own": "1", "both": "1"}}, annotations={"both": "2", "new": "2"}),
        {"annotations": {"own": "1", "both": "2", "new": "2"}},
    ),
}


@rows(BINDING)
def test_what_a_pod_gets_by_its_binding(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == (True, want)


CREATION: Rows = {
    "zone and region are added, and no other label": (
        lambda api: created(api, BOTH, {"app": "web"}),
        {"app": "web", **COPIED},
    ),
    "over its own": (lambda api: created(api, BOTH, OWN), COPIED),
    "one that the Node does not have stays": (lambda api: created(api, HALF, OWN), {**OWN, ZONE: "a"}),
    "a Node that does not exist has none": (lambda api: created(api, NONE, OWN), OWN),
}


@rows(CREATION)
def test_what_a_pod_gets_that_is_created_on_its_node(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == want
