"""Builders of ResourceSlices, devices and requests for tests of Dynamic Resource Allocation."""

from collections.abc import Mapping, Sequence
from typing import Any

from objects.builders import NAMESPACE, Built, claim
from tollbar.model.objects import Object

DRIVER = "gpu.example.com"
TAINT: Object = {"key": "example.com/broken", "effect": "NoSchedule"}
_FIELDS = {str: "string", int: "int", bool: "bool"}


def device(name: str, *, capacity: Mapping[str, Any] | None = None, **attributes: Any) -> Object:
    """A device with these attributes of its driver; a capacity is a quantity or a DeviceCapacity."""
    made: Object = {"name": name}
    if attributes:
        made["attributes"] = {key: {_FIELDS[type(value)]: value} for key, value in attributes.items()}
    if capacity:
        made["capacity"] = {key: {"value": each} if isinstance(each, str) else each for key, each in capacity.items()}
    return made


def devices(*names: str) -> list[Object]:
    return [device(name) for name in names]


def consuming(made: Object, **counters: str) -> Object:
    """The device, consuming these counters of the counter set `shared`."""
    consumed = {name: {"value": value} for name, value in counters.items()}
    return {**made, "consumesCounters": [{"counterSet": "shared", "counters": consumed}]}


def resource_slice(
    name: str,
    given: Sequence[Object] = (),
    *,
    node: str = "",
    pool: str = "pool",
    driver: str = DRIVER,
    generation: int = 1,
    count: int = 1,
    **more: Any,
) -> Object:
    """For all Nodes, unless a Node or other spec fields are given."""
    reach: Object = {"nodeName": node} if node else {} if more.keys() & _REACHES else {"allNodes": True}
    body = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        **reach,
        **more,
    }
    if given:
        body["devices"] = list(given)
    return {"metadata": {"name": name}, "spec": body}


_REACHES = {"nodeSelector", "perDeviceNodeSelection", "allNodes", "nodeName"}


def node(name: str = "node-1", **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def exactly(name: str = "gpu", count: int | None = 1, *, cls: str = "gpu", **more: Any) -> Object:
    """A request for so many devices, or with None for all."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    return {"name": name, "exactly": {"deviceClassName": cls, **mode, **more}}


def first_available(name: str, **counts: int | None) -> Object:
    """A prioritized list: a count for each alternative, None for all devices."""
    alternatives = [{"name": key, **exactly(count=count)["exactly"]} for key, count in counts.items()]
    return {"name": name, "firstAvailable": alternatives}


def selecting(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def claiming(*requests: Object, name: str = "claim", **devices: Any) -> Object:
    """A ResourceClaim for these requests; further fields of `spec.devices`, such as constraints and config."""
    return {
        "metadata": {"namespace": NAMESPACE, "name": name, "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": list(requests), **devices}},
    }


def held(*names: str, pool: str = "pool", driver: str = DRIVER, **more: Any) -> Object:
    """An allocation of these devices."""
    results = [{"request": "gpu", "driver": driver, "pool": pool, "device": each, **more} for each in names]
    return {"devices": {"results": results}}


def published(name: str, *given: str | Object, node: str = "n1", pool: str = "", **spec: Any) -> Built:
    """A ResourceSlice as it comes from the API server, for one Node unless the spec says otherwise."""
    made = [{"name": each} if isinstance(each, str) else each for each in given]
    body = resource_slice(name, made, pool=pool or node)["spec"] | {"nodeName": node, "devices": made} | spec
    if "allNodes" not in spec:
        del body["allNodes"]
    return Built(
        apiVersion="resource.k8s.io/v1",
        kind="ResourceSlice",
        metadata={"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"},
        spec=body,
    )


def shared(name: str, **capacity: str) -> Object:
    """A device that several claims may share."""
    offered = {each: {"value": value} for each, value in capacity.items()}
    return {"name": name, "allowMultipleAllocations": True, "capacity": offered}


def taint_rule(name: str, taint: Object = TAINT, **selector: str) -> Built:
    return Built(
        apiVersion="resource.k8s.io/v1",
        kind="DeviceTaintRule",
        metadata={"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1"},
        spec={"deviceSelector": selector, "taint": taint},
    )


def whole(device: str, pool: str = "n1", **more: Any) -> Object:
    """A result of an allocation: all of a device."""
    return {"request": "r0", "driver": DRIVER, "pool": pool, "device": device, **more}


def share(device: str, **consumed: str) -> Object:
    """A result of an allocation: a share of a device."""
    return whole(device, shareID=f"share-{sorted(consumed.items())}", consumedCapacity=consumed)


def allocation(*results: str | Object) -> Object:
    return {"devices": {"results": [whole(each) if isinstance(each, str) else each for each in results]}}


def a_claim(name: str, *results: str | Object, version: int = 1, uid: str = "") -> Built:
    """A claim in this version, with this allocation if there are results."""
    made = Built(claim(name)).but("metadata.resourceVersion", str(version))
    if uid:
        made = made.but("metadata.uid", uid)
    return made.but("status.allocation", allocation(*results)) if results else made
