"""A Node with its Pods, and what is kept of the API object."""

from dataclasses import fields

from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo, projected

NODE: Object = {
    "metadata": {
        "name": "n1",
        "uid": "u",
        "resourceVersion": "7",
        "labels": {"zone": "a"},
        "annotations": {"note": "x"},
        "managedFields": [{"manager": "kubelet"}],
    },
    "spec": {
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "unschedulable": True,
        "podPreemptionPolicy": "Never",
        "podCIDR": "10.0.0.0/24",
    },
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"},
        "capacity": {"cpu": "4"},
        "images": [{"names": ["app:1", "app@sha256:0"], "sizeBytes": 10}],
        "declaredFeatures": ["GuaranteedQoSPodCPUResize"],
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
        "nodeInfo": {"kernelVersion": "6.1"},
    },
}


def info(node: Object) -> NodeInfo:
    found = NodeInfo("n1")
    found.set_node(node)
    return found


def test_what_is_kept_of_a_node() -> None:
    assert projected(NODE) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"zone": "a"},
            "annotations": {"note": "x"},
        },
        "spec": {
            "taints": [{"key": "k", "effect": "NoSchedule"}],
            "unschedulable": True,
            "podPreemptionPolicy": "Never",
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "example.com/gpu": "1"},
            "images": [{"names": ["app:1", "app@sha256:0"], "sizeBytes": 10}],
            "declaredFeatures": ["GuaranteedQoSPodCPUResize"],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_the_record_of_a_projected_node_is_that_of_the_node() -> None:
    whole, kept = info(NODE), info(projected(NODE))
    names = {each.name for each in fields(NodeInfo)} - {"node", "generation"}
    assert {name: getattr(kept, name) for name in names} == {name: getattr(whole, name) for name in names}


def test_a_copy_counts_for_itself() -> None:
    one = info(NODE)
    names = {each.name for each in fields(NodeInfo)}
    other = one.copy()
    shared = {name for name in names if getattr(one, name) is getattr(other, name)}
    counted = {"pods", "requested", "used_ports"}
    assert shared & counted == set()
