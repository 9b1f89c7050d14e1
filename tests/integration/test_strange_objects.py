"""Objects that Go's JSON decoder reads and others do not: whoever may create one keeps no process from its lists."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objects.builders import device_class, toleration_rule
from planes.objects import RESERVED, a_pod, as_written
from planes.parameters import only_real
from processes.stack import Stack, eventually, installed

from tollbar.api.gates import shipped_gate
from tollbar.cli import console
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

pytestmark = [
    pytest.mark.timeout(300),
    only_real("the embedded control plane reads JSON as Tollbar does"),
]

NAMESPACE = "default"
CLASS = "gpu.example.com"


def nested(levels: int, name: str = "a", innermost: bytes = b"{}") -> bytes:
    return b'{"%s":' % name.encode() * levels + innermost + b"}" * levels


PARAMETERS = {
    "not-written": nested(300),
    "hardly-read": nested(1000),
    "not-read": nested(1600),
    "half": b'{"a":"\\ud83d"}',
    "no-text": b'{"a":"\xff"}',
}
"""Of a driver, whatever it is for, in at most 10 KiB (resource.k8s.io/v1, OpaqueDeviceConfiguration)."""
FIELDS = nested(3000, "f:a")


def claim(name: str, parameters: bytes) -> bytes:
    config = [{"opaque": {"driver": CLASS, "parameters": "PARAMETERS"}}]
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}], "config": config}
    made = {**RESOURCE_CLAIMS.type_meta, "metadata": {"name": name}, "spec": {"devices": devices}}
    return json.dumps(made).encode().replace(b'"PARAMETERS"', parameters)


def template(name: str, parameters: bytes) -> bytes:
    made = json.loads(claim(name, b"{}"))
    made = {**made, **RESOURCE_CLAIM_TEMPLATES.type_meta, "spec": {"spec": made["spec"]}}
    return json.dumps(made).encode().replace(b"{}", parameters)


def managed(name: str) -> bytes:
    """A Pod that claims to have been written by somebody who manages three thousand levels of it."""
    made = as_written(a_pod(name, NAMESPACE))
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    made["metadata"]["managedFields"] = [{**entry, "fieldsType": "FieldsV1", "fieldsV1": "FIELDS"}]
    return json.dumps(made).encode().replace(b'"FIELDS"', FIELDS)


async def create(plane: Any, *bodies: tuple[Resource, bytes]) -> None:
    async with console.connected(console.Cluster(str(plane.kubeconfig)), "test") as admin:
        for resource, body in bodies:
            await admin.raw("POST", resource.path(NAMESPACE), body)


def strange(suffix: str) -> list[tuple[Resource, bytes]]:
    return [
        *((RESOURCE_CLAIMS, claim(f"{name}-{suffix}", each)) for name, each in PARAMETERS.items()),
        *((RESOURCE_CLAIM_TEMPLATES, template(f"{name}-{suffix}", each)) for name, each in PARAMETERS.items()),
        (PODS, managed(f"managed-{suffix}")),
    ]


@pytest.fixture
def stack(plane: Any, tmp_path: Path) -> Iterator[Stack]:
    kubectl = plane.kubectl
    with installed(plane, tmp_path) as stack:
        kubectl.apply(
            shipped_gate(),
            as_written(device_class(CLASS)),
            as_written(toleration_rule("gpu").cel("claims.size() > 0").giving(RESERVED)),
        )
        yield stack
        kubectl("delete", f"deviceclass/{CLASS}", "--ignore-not-found")
        kubectl("delete", "pods,resourceclaims,resourceclaimtemplates", "--all", "-n", NAMESPACE)


def test_objects_that_only_go_reads_keep_nobody_from_reading_the_others(stack: Stack) -> None:
    """Those that are there when the processes begin, and those that come and change later."""
    kubectl, here = stack.plane.kubectl, ("-n", NAMESPACE)
    asyncio.run(create(stack.plane, *strange("listed"), (RESOURCE_CLAIMS, claim("plain-listed", b"{}"))))
    stack.webhook()
    controllers = stack.controllers()
    stack.scheduler()
    stack.register()
    asyncio.run(create(stack.plane, *strange("watched"), (RESOURCE_CLAIMS, claim("plain-watched", b"{}"))))
    for name in PARAMETERS:
        kubectl("annotate", "resourceclaim,resourceclaimtemplate", f"{name}-listed", f"{name}-watched", "a=b", *here)
    kubectl("annotate", "pod", "managed-listed", "managed-watched", "a=b", *here)
    for seen in ("listed", "watched"):
        kubectl.apply(as_written(a_pod(f"web-{seen}", NAMESPACE).claims(f"plain-{seen}")))
        kubectl.apply(as_written(a_pod(f"odd-{seen}", NAMESPACE).claims(f"not-read-{seen}")))
    eventually(lambda: {"web-listed", "web-watched"} <= tolerated(stack), what="both are tolerated")
    eventually(lambda: controllers.said("PackageTooLarge: rule gpu") >= 2, what="the controllers release the others")
    assert tolerated(stack) == {"web-listed", "web-watched"}
    assert stack.tracebacks() == ""


def tolerated(stack: Stack) -> set[str]:
    """The names of the Pods that have what the rule gives."""
    found = stack.plane.kubectl.json("get", "pods", "-n", NAMESPACE)["items"]
    return {each["metadata"]["name"] for each in found if RESERVED in each["spec"].get("tolerations", ())}
