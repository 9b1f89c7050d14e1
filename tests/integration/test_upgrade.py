"""Objects that an earlier version stored: today's definitions keep them, and today's processes go on with them.

`earlier/` has definitions and objects of that version; a release whose definitions change adds its own.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes.stack import Stack, delete_definitions, eventually, installed

from tollbar import wellknown
from tollbar.devplane.kubectl import Kubectl

EARLIER = Path(__file__).parent / "earlier"
OBJECTS = list(yaml.safe_load_all((EARLIER / "objects.yaml").read_text()))
RESERVED = {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ADDED = [{"rule": "gone", "generation": 7, "added": [RESERVED], "via": "admission"}]
HELD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "earlier",
        "namespace": "default",
        "labels": {wellknown.LABEL_GATE: wellknown.GATE_HELD},
        "annotations": {wellknown.ANNOTATION_PROVENANCE: json.dumps(ADDED)},
    },
    "spec": {
        "containers": [{"name": "main", "image": "example.com/app", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "earlier"}],
        "schedulingGates": [{"name": wellknown.GATE}],
        "tolerations": [RESERVED],
    },
}
"""A Pod that the webhook of that version has gated: the class that its template names is not there."""
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "earlier", "namespace": "default"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "earlier-late"}}]}}},
}
CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "earlier-late"}, "spec": {}}


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """Which schemas stored objects, and what becomes of them under others, is the real API server's business."""
    return real_plane


@pytest.fixture(scope="module")
def stored(plane: Any) -> Iterator[dict[str, Any]]:
    """Objects by kind and name, as they are in a cluster with the definitions of then."""
    kubectl: Kubectl = plane.kubectl
    kubectl("apply", "-f", str(EARLIER / "definitions.yaml"))
    kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "-l", "app.kubernetes.io/name=tollbar")
    eventually(lambda: len(kubectl("api-resources", "--api-group=tollbar.dev", "-o", "name").split()) == 3)
    kubectl.apply(*OBJECTS, TEMPLATE, HELD)
    for obj in OBJECTS:
        kubectl(
            "replace",
            "--subresource=status",
            "-f",
            "-",
            stdin=json.dumps(written(kubectl, obj) | {"status": obj["status"]}),
        )
    yield {key(obj): written(kubectl, obj) for obj in OBJECTS}
    kubectl("delete", "pod/earlier", "resourceclaimtemplate/earlier", "-n", "default", "--grace-period=0", "--force")
    kubectl("delete", "--ignore-not-found", "deviceclass/earlier-late")
    delete_definitions(kubectl)


@pytest.fixture(scope="module")
def stack(stored: dict[str, Any], plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Today's manifests over those; nothing runs yet."""
    with installed(plane, tmp_path_factory.mktemp("stack")) as upgraded:
        yield upgraded


def key(obj: dict[str, Any]) -> str:
    return f"{obj['kind']}/{obj['metadata']['name']}"


def written(kubectl: Kubectl, obj: dict[str, Any]) -> Any:
    return kubectl.json("get", key(obj), "-n", obj["metadata"].get("namespace", "default"))


def test_nothing_of_them_is_lost_and_they_can_be_written_again(stored: dict[str, Any], stack: Stack) -> None:
    kubectl = stack.plane.kubectl
    again = {}
    for obj in OBJECTS:
        kubectl("annotate", key(obj), "-n", "default", "tried=again")  # so that it is stored anew
        again[key(obj)] = {part: written(kubectl, obj)[part] for part in ("spec", "status")}
    assert again == {name: {part: obj[part] for part in ("spec", "status")} for name, obj in stored.items()}
    assert {name: obj["status"] for name, obj in stored.items()} == {key(obj): obj["status"] for obj in OBJECTS}


def test_the_processes_go_on_with_them(stack: Stack) -> None:
    kubectl = stack.plane.kubectl
    stack.controllers()
    kubectl(
        "wait", "--for=condition=Ready", "tolerationrule/earlier-cel", "schedulinggate/earlier-quota", "--timeout=60s"
    )
    here = ("-n", "default", "--timeout=60s")
    kubectl("wait", "--for=jsonpath={.status.conditions[0].reason}", "workloadclaim/earlier", *here)
    assert wellknown.GATE in json.dumps(written(kubectl, HELD)["spec"]["schedulingGates"])
    kubectl.apply(CLASS)
    kubectl("wait", "--for=jsonpath={.metadata.labels.tollbar\\.dev/gate}=released", "pod/earlier", *here)
    pod = written(kubectl, HELD)
    record = json.loads(pod["metadata"]["annotations"][wellknown.ANNOTATION_PROVENANCE])
    assert ("schedulingGates" in pod["spec"], pod["spec"]["tolerations"].count(RESERVED), record) == (False, 1, ADDED)
    assert stack.tracebacks() == ""
