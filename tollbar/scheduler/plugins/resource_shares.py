"""What a Pod and those before it take of the resources of Nodes: the numbers that scores by resources start from.

Source: resourceAllocationScorer in pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tollbar.cel import CelError
from tollbar.dra.manager import DraManager
from tollbar.dra.selectors import Selectors
from tollbar.dra.slices import Content
from tollbar.model.objects import Object, spec
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.resources import Resources
from tollbar.scheduler.cache.table import Bools, Ints, Table
from tollbar.scheduler.framework.interface import DependsOn

CORE: Final = ("cpu", "memory", "ephemeral-storage")
"""The resources that every Node has; all others have to be asked for."""
_NON_ZERO: Final = ("cpu", "memory")


class Weighted(NamedTuple):
    """A resource that counts in a score (ResourceSpec of the configuration)."""

    name: str
    weight: int


class Share(NamedTuple):
    """Of one resource of a Node: all of it, what its Pods take, and what they would take with one Pod more."""

    allocatable: int
    allocated: int
    requested: int
    weight: int


class Shares(NamedTuple):
    """The same of several Nodes, for those that are `present`: the others have nothing of the resource.

    `allocatable` is 1 instead of 0, so that it can divide.
    """

    allocatable: Ints
    allocated: Ints
    requested: Ints
    weight: int
    present: Bools


class ResourceShares:
    """The shares of the resources in a plugin's arguments.

    With `non_zero`, cpu and memory of the Pods on a Node are those with defaults for what they do not request.
    """

    def __init__(self, resources: Any, dra: DraManager | None, *, non_zero: bool) -> None:
        self.resources = tuple(Weighted(each["name"], each.get("weight") or 1) for each in resources)
        self.devices = Devices(dra)
        self._with_defaults = _NON_ZERO if non_zero else ()

    def depends_on(self, pod: PodInfo) -> DependsOn | None:
        """Devices that provide what the Pod requests are not part of a NodeInfo."""
        extended = pod.requests.resources.scalars
        has_devices = extended and any(self.devices.class_of(name) is not None for name in extended)
        return None if has_devices else DependsOn.NODE_AND_PODS

    def of_node(self, pod: Resources, node: NodeInfo) -> Iterator[Share]:
        """One for each resource that the Node has."""
        for name, weight in self._counting(pod):
            allocatable, allocated = node.allocatable.get(name), node.requested.get(name)
            if name in self._with_defaults:
                allocated = node.non_zero_milli_cpu if name == "cpu" else node.non_zero_memory
            if allocatable == 0 and (device_class := self.devices.class_of(name)) is not None:
                allocatable, allocated = self.devices.count(device_class, node)
            if allocatable:
                yield Share(allocatable, allocated, allocated + pod.get(name), weight)

    def of_rows(self, pod: Resources, table: Table, rows: NDArray[np.intp]) -> Iterator[Shares]:
        """The same for several Nodes at once, by their rows in the table."""
        for name, weight in self._counting(pod):
            column = table.non_zero_requested(name) if name in self._with_defaults else table.requested(name)
            allocatable, allocated = table.allocatable(name)[rows], column[rows]
            if (device_class := self.devices.class_of(name)) is not None:
                for place in np.flatnonzero(allocatable == 0):
                    node = table.infos[rows[place]]
                    if node is not None:
                        allocatable[place], allocated[place] = self.devices.count(device_class, node)
            present = allocatable != 0
            yield Shares(np.where(present, allocatable, 1), allocated, allocated + pod.get(name), weight, present)

    def _counting(self, pod: Resources) -> Iterator[Weighted]:
        """The resources of the core, and what the Pod requests besides."""
        return (each for each in self.resources if each.name in CORE or pod.get(each.name))


class Devices:
    """Devices that provide an extended resource (KEP-5004), of the pools that a Node can use."""

    def __init__(self, dra: DraManager | None) -> None:
        self._dra = dra
        self._selectors = Selectors()

    def class_of(self, resource: str) -> Object | None:
        """The DeviceClass that backs this resource."""
        if self._dra is None or resource in CORE:
            return None
        return self._dra.classes.for_extended_resource(resource)

    def count(self, device_class: Object, node: NodeInfo) -> tuple[int, int]:
        """How many devices of the class there are for the Node, and how many of them are allocated.

        None at all if a selector fails.
        """
        if self._dra is None or node.node is None:
            return 0, 0
        found = allocated = 0
        for pool in self._dra.inventory.pools(node.node):
            for device in pool.devices:
                if pool.is_per_device and not device.reach.includes(node.node):
                    continue
                verdict = self._matches(device_class, device.content)
                if isinstance(verdict, CelError):
                    return 0, 0
                if verdict:
                    found += 1
                    allocated += device.id in self._dra.claims.state
        return found, allocated

    def _matches(self, device_class: Object, content: Content) -> bool | CelError:
        for each in spec(device_class).get("selectors") or ():
            verdict = self._selectors.verdict(each["cel"]["expression"], content)
            if verdict is not True:
                return verdict
        return True
