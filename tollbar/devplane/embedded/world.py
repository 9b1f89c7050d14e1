"""What a scheduler knows: Nodes and devices, and who uses what of them.

Kept by `binder`, which tells it of every change and of what it is about to write; read by `placement`.  It is asked
for every Pod, so it counts and does not search.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tollbar.devplane.embedded.following import Seen
from tollbar.model import claims, devices, podresources, pods
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.model.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource


class Placement(NamedTuple):
    """A Node, and `status.allocation` for each claim that had none, by name."""

    node: str
    allocations: Mapping[str, Object]


class World:
    """Nodes, slices and classes by name; and, by key, where Pods are and which devices claims have."""

    def __init__(self) -> None:
        self.nodes: dict[str, Object] = {}
        self.slices: dict[str, Object] = {}
        self.classes: dict[str, Object] = {}
        self._pods: dict[Key, tuple[str, Mapping[str, Decimal]]] = {}
        self._used: dict[str, dict[str, Decimal]] = {}
        self._devices: dict[Key, Sequence[DeviceId]] = {}

    def note(self, stored: Resource, seen: Seen) -> bool:
        """A change of anything; whether there may be more room or more to choose from now."""
        if stored == PODS:
            return self._note_pod(seen)
        if stored == RESOURCE_CLAIMS:
            self._devices.pop(seen.key, None)
            if found := devices.allocated(claims.allocation(seen.after or {})):
                self._devices[seen.key] = found
            return True
        table = {NODES: self.nodes, RESOURCE_SLICES: self.slices, DEVICE_CLASSES: self.classes}.get(stored)
        if table is None:
            return False
        if seen.after is None:
            table.pop(seen.key.name, None)
        else:
            table[seen.key.name] = seen.after
        return True

    def _note_pod(self, seen: Seen) -> bool:
        pod = seen.after
        if pod is not None and pods.is_bound(pod) and not pods.is_terminal(pod):
            self._put(seen.key, spec(pod)["nodeName"], needs(pod))
            return False
        return self._take(seen.key)

    def assume(self, pod: Object, placement: Placement) -> None:
        """What is about to be written counts at once."""
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
        """Whether the Pod was anywhere."""
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
