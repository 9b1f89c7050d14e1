"""A device that is tainted NoExecute under a workload: its Pods are evicted, and the claim moves to another device."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from planes import since
from stack import Stack, eventually
from workloads import PINNED, Shared, deployment, for_web

from tollbar.model.objects import Object

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.real,
    since("1.37", "DeviceTaintRules are not served by default"),
]


def taint(shared: Shared, device: str, effect: str) -> Object:
    selected = {"driver": "gpu.example.com", "pool": "gpu-1", "device": device}
    taint = {"key": "example.com/broken", "effect": effect}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": shared.cluster.unique("broken")},
        "spec": {"deviceSelector": selected, "taint": taint},
    }


@contextmanager
def tainted(shared: Shared, device: str, effect: str = "NoExecute") -> Iterator[None]:
    rule = taint(shared, device, effect)
    shared.cluster.kubectl("create", "-f", "-", stdin=json.dumps(rule))
    yield
    shared.cluster.kubectl("delete", "devicetaintrule", rule["metadata"]["name"])


def test_a_workload_gets_another_device_for_one_that_is_tainted(shared: Shared, stack: Stack) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    device = str(shared.device())
    with tainted(shared, device):
        eventually(lambda: shared.device() not in (None, device), seconds=30, what="another device")
        shared.running()
        shared.until(shared.entries, PINNED)
        shared.until(shared.condition, ("True", "Held"))
