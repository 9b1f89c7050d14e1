"""How many devices a claim counts as: a ResourceQuota of the real API server counts what a PodQuota counts.

The embedded API server has no ResourceQuotas.
"""

import json
from decimal import Decimal
from typing import Any

import pytest
from objects.builders import claim, device_class
from objects.devicequotas import COUNTED, DEVICES
from planes.parameters import since
from processes.stack import eventually

from tollbar.decide.quotas.devices import by_class
from tollbar.devplane.kubectl import Kubectl, KubectlError
from tollbar.model import quantity, resources
from tollbar.model.objects import Object
from tollbar.runtime.client import Client

CLASS = device_class("counted.example.com").backing("example.com/counted")
EXTENDED = "requests.example.com/counted"


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    return real_plane


def used(kubectl: Kubectl, namespace: str) -> dict[str, Decimal]:
    quota = kubectl.json("get", "resourcequota", "devices", "-n", namespace)
    return {name: quantity.parse(text) for name, text in (quota.get("status") or {}).get("used", {}).items()}


def limited(kubectl: Kubectl, namespace: str, *names: str) -> None:
    """A ResourceQuota with more than enough of each, in force."""
    meta = {"name": "devices", "namespace": namespace}
    hard = dict.fromkeys(names, "1000")
    kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard}})
    eventually(lambda: used(kubectl, namespace).keys() == hard.keys(), what="the ResourceQuota has a status")
    eventually(lambda: is_counted(kubectl, namespace), what="the API server has seen it")


def is_counted(kubectl: Kubectl, namespace: str) -> bool:
    try:
        kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(new("probe", namespace, {"requests": []})))
    except KubectlError as error:
        if "status unknown for quota" not in str(error):
            raise
        return False
    return True


def new(name: str, namespace: str, devices: Object) -> Object:
    found = claim(name, namespace).but("spec.devices", devices)
    return found.but("metadata.uid", None).but("metadata.creationTimestamp", None)


async def taken(admin: Client, kubectl: Kubectl, namespace: str, name: str, wanted: Object) -> dict[str, Decimal]:
    """What is used more when this claim is created; the API server counts before it answers."""
    before = used(kubectl, namespace)
    await admin.create(resources.RESOURCE_CLAIMS, new(name, namespace, wanted))
    after = used(kubectl, namespace)
    return {each: after[each] - before[each] for each in after if after[each] != before[each]}


async def test_a_resource_quota_counts_the_same(admin: Client, kubectl: Kubectl, namespace: str) -> None:
    limited(kubectl, namespace, *(name + DEVICES for name in ("gpu", "nic")))
    found = {
        what: await taken(admin, kubectl, namespace, f"claim-{number}", {"requests": requests})
        for number, (what, (requests, _)) in enumerate(COUNTED.items())
    }
    assert found == {
        what: {name + DEVICES: count for name, count in want.items()} for what, (_, want) in COUNTED.items()
    }
    assert [by_class({"spec": {"devices": {"requests": given}}}) for given, _ in COUNTED.values()] == [
        want for _, want in COUNTED.values()
    ]


@since("1.36", "it has no extended resources by classes")
async def test_a_device_counts_for_what_its_class_stands_for(admin: Client, kubectl: Kubectl, namespace: str) -> None:
    name = CLASS["metadata"]["name"]
    kubectl.apply({member: CLASS[member] for member in ("apiVersion", "kind", "spec")} | {"metadata": {"name": name}})
    names = {name + DEVICES, f"requests.deviceclass.resource.kubernetes.io/{name}", EXTENDED}
    limited(kubectl, namespace, *names)
    requests = [{"name": "a", "exactly": {"deviceClassName": name, "allocationMode": "ExactCount", "count": 3}}]
    found = await taken(admin, kubectl, namespace, "counted", {"requests": requests})
    kubectl("delete", "deviceclass", name)
    assert found == dict.fromkeys(names, Decimal(3))
