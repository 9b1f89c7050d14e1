"""Templates of claims that are too large for the caches, a Pod that refers to many, and what that costs a process."""

from typing import Any

from builders import Template, template
from cluster import as_written
from measuring import most_memory
from stack import Process, Stack, eventually

from tollbar.cli import console
from tollbar.model.objects import Object
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES

COUNT = 24
NAMES = [f"large-{number}" for number in range(COUNT)]
GROWTH = 80 * 1024 * 1024
"""Bytes for the few that are in memory at one time; all of them take more than twice as much."""
_PARAMETERS = {"opaque": {"driver": "gpu.example.com", "parameters": {"a": [{}] * 3000}}}
_CONFIG = [_PARAMETERS] * 32
"""As much as the API server takes: 0.3 MB of text, some 7 MB of memory."""


def in_namespace(namespace: str) -> list[Template]:
    return [template(name, namespace).but("spec.spec.devices.config", _CONFIG) for name in NAMES]


async def create(stack: Stack, *objects: Any) -> None:
    """Create Pods and templates in this order, one right after the other."""
    async with console.connected(console.Cluster(str(stack.plane.kubeconfig)), "test") as admin:
        for obj in objects:
            await admin.create(PODS if obj["kind"] == "Pod" else RESOURCE_CLAIM_TEMPLATES, as_written(obj))


def are_stubs(controllers: Process) -> None:
    """Wait until the controllers know of all templates."""
    kind = 'kind="ResourceClaimTemplate"'
    eventually(lambda: sample(controllers, "tollbar_cache_stubs", kind) >= COUNT, what="all templates are stubs")


def recorded(stack: Stack, pod: str, namespace: str) -> list[Object]:
    """What the Pod's status says of its claims."""
    found: list[Object] = stack.plane.kubectl.json("get", "pod", pod, "-n", namespace)["status"].get(
        "resourceClaimStatuses", []
    )
    return found


def sample(process: Process, metric: str, labels: str) -> float:
    return sum(value for given, value in process.metrics().get(metric, {}).items() if labels in given)


class Grown:
    """By how many bytes a process has grown since, at most."""

    def __init__(self, process: Process) -> None:
        self._pid = process.child.pid
        self._before = most_memory(self._pid)

    def __call__(self) -> int:
        return most_memory(self._pid) - self._before
