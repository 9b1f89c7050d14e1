"""The binder's cache: Nodes, ResourceSlices and DeviceClasses, and what is used of them.

What is used is kept as counts, so that no Pod's placement has to search all others.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tollbar.devplane.embedded.storage import Delta
from tollbar.model import claims, devices, podresources, pods
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.model.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource


class Placement(NamedTuple):
    """A Node, and `status.allocation` for each claim that had none, by name."""

    node: str
    allocations: Mapping[str, Object]


class World:
    """Nodes, ResourceSlices and DeviceClasses by name; by key, the Node of Pods and the devices of claims."""

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.slices: dict[str, Object] = {}
        self.classes: dict[str, Object] = {}
        self._pods: dict[Key, tuple[str, Mapping[str, Decimal]]] = {}
        self._used: dict[str, dict[str, Decimal]] = {}
        self._devices: dict[Key, Sequence[DeviceId]] = {}

    def observe(self, stored: Resource, delta: Delta) -> bool:
        """Take a change of any object; whether a Pod that did not fit may fit now."""
        if stored == PODS:
            return self._observe_pod(delta)
        if stored == RESOURCE_CLAIMS:
            self._devices.pop(delta.key, None)
            if found := devices.allocated(claims.allocation(delta.after or {})):
                self._devices[delta.key] = found
            return True
        table = {NODES: self.nodes, RESOURCE_SLICES: self.slices, DEVICE_CLASSES: self.classes}.get(stored)
        if table is None:
            return False
        if delta.after is None:
            table.pop(delta.key.name, None)
        else:
            table[delta.key.name] = delta.after
        return True

    def _observe_pod(self, delta: Delta) -> bool:
        pod = delta.after
        if pod is not None and pods.is_bound(pod) and not pods.is_terminal(pod):
            self._put(delta.key, spec(pod)["nodeName"], needs(pod))
            return False
        return self._take(delta.key)

    def assume(self, pod: Object, placement: Placement) -> None:
        """Count a placement before it is written."""
        key = key_of(pod)
        self._put(key, placement.node, needs(pod))
        for name, allocation in placement.allocations.items():
            self._devices[Key(key.namespace, name)] = devices.allocated(allocation)

    def used(self, node: str) -> Mapping[str, Decimal]:
        """Amounts by resource."""
        return self._used.get(node, {})

    def taken(self) -> set[DeviceId]:
        return {device for devices in self._devices.values() for device in devices}

    def _put(self, key: Key, node: str, amounts: Mapping[str, Decimal]) -> None:
        self._take(key)
        self._pods[key] = node, amounts
        self._add(node, amounts, 1)

    def _take(self, key: Key) -> bool:
        """Whether the Pod had a Node."""
        node, amounts = self._pods.pop(key, ("", {}))
        self._add(node, amounts, -1)
        return bool(node)

    def _add(self, node: str, amounts: Mapping[str, Decimal], sign: int) -> None:
        used = self._used.setdefault(node, {})
        for name, amount in amounts.items():
            used[name] = used.get(name, Decimal(0)) + sign * amount


def needs(pod: Object) -> Mapping[str, Decimal]:
    """What counts against a Node's allocatable: the Pod itself, and what it requests."""
    return {"pods": Decimal(1), **podresources.requests(pod)}
