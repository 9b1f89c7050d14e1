"""Resource pools: which devices of which pools a Node can use, and whether a pool can be used at all.

Source: GatherPools in k8s.io/dynamic-resource-allocation/structured.  What it works out for each node call is kept here
until a slice of the pool changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import chain
from typing import NamedTuple

from tollbar.dra.features import Features
from tollbar.dra.slices import CounterId, Device, Parser, Slice
from tollbar.dra.taintrules import Scope, TaintRules
from tollbar.model.changelog import ChangeLog
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, key_of, metadata


class PoolId(NamedTuple):
    """A pool is unique by its driver and name."""

    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class PoolState(Enum):
    USABLE = "usable"
    INCOMPLETE = "incomplete"
    """Some slices of the newest generation are missing: the driver is publishing them."""
    INVALID = "invalid"
    """Two devices have one name, or counters do not fit together."""


@dataclass(slots=True, eq=False)
class Pool:
    """A pool as some Nodes see it.  Devices are those for the Node; a pool that is not usable has none."""

    id: PoolId
    state: PoolState = PoolState.USABLE
    devices: tuple[Device, ...] = ()
    counters: Mapping[CounterId, int] = field(default_factory=dict)
    consumers: tuple[Device, ...] = ()
    """Devices that consume counters, also those for other Nodes."""
    is_per_device: bool = False
    """Whether Nodes are selected per device, so that `Device.reach` must be asked."""
    is_local: bool = False
    """Whether all devices are for one Node."""
    order: tuple[bool, PoolId] = field(init=False)
    """Devices are tried in the order of their pools: those without binding conditions come first."""

    def __post_init__(self) -> None:
        self.order = (any(device.binding_conditions is not None for device in self.devices), self.id)


class Inventory:
    """All ResourceSlices of the cluster, with the taints of DeviceTaintRules.

    Every change has a new `revision`, and for the Nodes that it can concern a new `version_of`.

    A change of a slice costs that slice, and the next question its pool; a question costs the pools of one Node.  A
    change of a DeviceTaintRule costs nothing by itself: the pools that it can select are made anew when they are asked
    for, which is every pool unless it selects one.
    """

    def __init__(self, slices: Iterable[Object] = (), features: Features | None = None) -> None:
        self.features = features or Features()
        self.revision = 0
        self.taint_rules = TaintRules()
        self._parser = Parser()
        self._pools: dict[PoolId, _Slices] = {}
        self._pool_ids: dict[str, PoolId] = {}
        """The pool of each slice, by the slice's name."""
        self._local: dict[str, dict[PoolId, None]] = {}
        """Pools with a slice for just this Node, by its name."""
        self._shared: dict[PoolId, None] = {}
        """Pools with a slice for several Nodes."""
        self._versions: dict[str, int] = {}
        """Of each Node with slices for just this Node, by its name: another number whenever one of their pools changes.
        No number comes back, so that Nodes without such slices need not be remembered."""
        self._changes = 0
        self._shared_version = 0
        self._wide_rules_version = 0
        """How often DeviceTaintRules have changed that do not select a single pool."""
        self.changed_nodes: ChangeLog[str] = ChangeLog()
        """The Nodes, by name, for which devices have changed, or were taken or released."""
        self._usage_versions: dict[str, int] = {}
        """By name of each Node with slices for just this Node, the version of `changed_nodes` at its last change."""
        self._shared_usage_version = 0
        for each in slices:
            self.apply(each)

    def apply(self, obj: Object) -> None:
        """Add or replace a ResourceSlice.  ValueError or KeyError for one that the API server would refuse."""
        new = self._parser.parse(obj)
        self._forget(new.name)
        self.revision += 1
        pool_id = self._pool_ids[new.name] = PoolId(new.driver, new.pool)
        known = self._pools.get(pool_id)
        if known is None:
            known = self._pools[pool_id] = _Slices(pool_id, self.features, self.taint_rules)
        known.put(new)
        self._index(pool_id, new)
        self.devices_changed(pool_id)

    def remove(self, obj: Object) -> None:
        """Forget a ResourceSlice; does nothing if there is none of that name."""
        self._forget(key_of(obj).name)

    def _forget(self, name: str) -> None:
        pool_id = self._pool_ids.pop(name, None)
        if pool_id is not None:
            self.revision += 1
            self.devices_changed(pool_id)
            self._index(pool_id, self._pools[pool_id].drop(name))

    def pools(self, node: Object) -> Iterator[Pool]:
        """The pools with slices for this Node; sort them by `order`.

        A pool whose newest generation has no slice for the Node yet is left out, as if it had gone.  Do not change the
        inventory before the end.
        """
        name = metadata(node).get("name") or ""
        for pool_id in {**self._local.get(name, {}), **self._shared}:
            pool = self._pools[pool_id].seen_from(node, name, self._wide_rules_version)
            if pool is not None:
                yield pool

    def devices_changed(self, pool: PoolId) -> None:
        """Devices of this pool are others, or may let more fit than before: its Nodes get a new `version_of`."""
        slices = self._pools.get(pool)
        if slices is not None:
            self._changes += 1
            for name in slices.local_nodes:
                self._versions[name] = self._changes
            self._shared_version += slices.has_shared
        self.devices_taken(pool)

    def devices_taken(self, pool: PoolId) -> None:
        """Devices of this pool were taken, so that its Nodes get a new `usage_version_of`.

        What was found for them still holds where it needs none of these devices.
        """
        slices = self._pools.get(pool)
        if slices is not None:
            for name in slices.local_nodes:
                self.changed_nodes.note(name)
                self._usage_versions[name] = self.changed_nodes.version
            if slices.has_shared:
                self.changed_nodes.note_all()
                self._shared_usage_version = self.changed_nodes.version

    def version_of(self, node_name: str) -> tuple[int, int, int]:
        """Stays the same while nothing has changed that this Node can use."""
        return self._versions.get(node_name, 0), self._shared_version, self._wide_rules_version

    def usage_version_of(self, node_name: str) -> tuple[int, int]:
        """Stays the same while also no device that this Node can use, or share of one, was taken or released."""
        return self._usage_versions.get(node_name, 0), self._shared_usage_version

    def apply_taint_rule(self, obj: Object) -> None:
        """Add or replace a DeviceTaintRule.  ValueError or KeyError for one that the API server would refuse."""
        self._retaint(self.taint_rules.apply(obj))

    def remove_taint_rule(self, obj: Object) -> None:
        """Forget a DeviceTaintRule; does nothing if there is none of that name."""
        self._retaint(self.taint_rules.remove(obj))

    def device(self, device: DeviceId) -> Device | None:
        """The device of this name in the newest generation of its pool, for whatever Node, without taints of rules."""
        slices = self._pools.get(PoolId(device.driver, device.pool))
        return slices.device(device) if slices is not None else None

    def _retaint(self, scopes: Iterable[Scope]) -> None:
        """Forget what Nodes have seen of the pools in these scopes."""
        for driver, pool, _ in scopes:
            self.revision += 1
            if driver is None or pool is None:
                self._wide_rules_version += 1
                self.changed_nodes.note_all()
            elif (selected := self._pools.get(PoolId(driver, pool))) is not None:
                selected.forget_seen()
                self.devices_changed(selected.id)

    def _index(self, pool_id: PoolId, changed: Slice) -> None:
        """Find this pool for the Nodes of the slice, and only while there are such slices."""
        slices = self._pools[pool_id]
        if node := changed.reach.node:
            of_node = self._local.setdefault(node, {})
            if slices.has_local(node):
                of_node[pool_id] = None
            else:
                of_node.pop(pool_id, None)
            if not of_node:
                del self._local[node]
                self._versions.pop(node, None)
                self._usage_versions.pop(node, None)
        elif slices.has_shared:
            self._shared[pool_id] = None
        else:
            self._shared.pop(pool_id, None)
        if not slices:
            del self._pools[pool_id]


class _Slices:
    """The slices of one pool, and the pools that Nodes have seen in them since the last change."""

    __slots__ = (
        "_all", "_by_id", "_everywhere", "_features", "_generation", "_local", "_partitioned", "_seen", "_selective",
        "_taint_rules", "_wide_rules_version", "id",
    )  # fmt: skip

    def __init__(self, pool_id: PoolId, features: Features, taint_rules: TaintRules) -> None:
        self.id = pool_id
        self._features = features
        self._taint_rules = taint_rules
        self._all: dict[str, Slice] = {}
        self._local: dict[str, dict[str, Slice]] = {}
        """Slices for one Node, by the Node's name and their own."""
        self._everywhere: dict[str, Slice] = {}
        self._selective: dict[str, Slice] = {}
        """Slices that must be asked for each Node."""
        self._partitioned: dict[str, Slice] = {}
        """Slices with counters, or with devices that consume them."""
        self._generation: tuple[int, int] | None = None
        """The newest one, and how many slices it has that are understood; None until it is asked for."""
        self._seen: dict[tuple[str, ...], Pool | None] = {}
        """By the Node, if it has slices of its own (else empty), and the slices that select it."""
        self._wide_rules_version = 0
        """Of the rules whose taints the pools have that were seen."""
        self._by_id: dict[DeviceId, Device] | None = None

    def __len__(self) -> int:
        return len(self._all)

    @property
    def local_nodes(self) -> Iterable[str]:
        """Nodes with slices for just them."""
        return self._local.keys()

    def has_local(self, node: str) -> bool:
        return node in self._local

    @property
    def has_shared(self) -> bool:
        return bool(self._everywhere or self._selective)

    def put(self, new: Slice) -> None:
        """Add a slice; one of the same name must have been dropped before."""
        self._all[new.name] = new
        if (group := self._group(new)) is not None:
            group[new.name] = new
        if new.counters or any(device.consumes for device in new.devices):
            self._partitioned[new.name] = new
        self._changed()

    def drop(self, name: str) -> Slice:
        old = self._all.pop(name)
        if (group := self._group(old)) is not None:
            del group[name]
            if not group and old.reach.node:
                del self._local[old.reach.node]
        self._partitioned.pop(name, None)
        self._changed()
        return old

    def _changed(self) -> None:
        self._seen, self._by_id, self._generation = {}, None, None

    def forget_seen(self) -> None:
        """Make the pools anew when they are asked for."""
        self._seen = {}

    def device(self, wanted: DeviceId) -> Device | None:
        if self._by_id is None:
            newest, _ = self._newest()
            self._by_id = {
                device.id: device for each in self._all.values() if each.generation == newest for device in each.devices
            }
        return self._by_id.get(wanted)

    def _newest(self) -> tuple[int, int]:
        if self._generation is None:
            newest = max(each.generation for each in self._all.values())
            understood = [each for each in self._all.values() if not each.has_compatibility_groups]
            self._generation = newest, sum(each.generation == newest for each in understood)
        return self._generation

    def _group(self, given: Slice) -> dict[str, Slice] | None:
        """Where the slice is kept by its Nodes; nowhere, if it uses what is not understood."""
        if given.has_compatibility_groups or (given.is_partitioned and not self._features.partitionable_devices):
            return None
        if given.reach.node:
            return self._local.setdefault(given.reach.node, {})
        return self._everywhere if given.reach.everywhere else self._selective

    def seen_from(self, node: Object, node_name: str, wide_rules_version: int) -> Pool | None:
        """The pool for this Node; None if the Node has no part in it, or the driver is replacing what it has."""
        if self._wide_rules_version != wide_rules_version:
            self._wide_rules_version = wide_rules_version
            self.forget_seen()
        local = self._local.get(node_name)
        known: tuple[str, ...] = (node_name if local else "",)
        if self._selective:
            known += tuple(name for name, each in self._selective.items() if each.reaches(node))
        if known in self._seen:
            return self._seen[known]
        chosen = [self._selective[name] for name in known[1:]]
        relevant = [*(local or {}).values(), *self._everywhere.values(), *chosen]
        found = self._seen[known] = self._pool(relevant) if relevant else None
        return found

    def _pool(self, relevant: list[Slice]) -> Pool | None:
        """The pool of these slices, of which the first one by name says how many there are."""
        newest = max(each.generation for each in relevant)
        relevant = sorted((each for each in relevant if each.generation == newest), key=lambda each: each.name)
        count = relevant[0].slice_count
        others: list[Slice] = []
        if len(relevant) != count:
            generation, understood = self._newest()
            if generation > newest:
                return None
            if understood != count:
                return Pool(self.id, PoolState.INCOMPLETE)
            known = {each.name for each in relevant}
            others = [
                each
                for each in self._partitioned.values()
                if each.generation == newest and each.name not in known and not each.has_compatibility_groups
            ]
        return self._usable(relevant, others) or Pool(self.id, PoolState.INVALID)

    def _usable(self, relevant: list[Slice], others: list[Slice]) -> Pool | None:
        """The pool, unless its slices contradict each other."""
        partitioned = self._features.partitionable_devices
        offering = [each for each in relevant if not (partitioned and each.counters)]
        devices = tuple(chain.from_iterable(each.devices for each in offering))
        if self._taint_rules:
            devices = tuple(map(self._tainted, devices))
        if len({device.id for device in devices}) != len(devices):
            return None
        per_device = any(each.per_device for each in offering)
        local = all(each.reach.node for each in offering)
        if not partitioned or not self._partitioned:
            return Pool(self.id, devices=devices, is_per_device=per_device, is_local=local)
        sets = [counter_set for each in (*relevant, *others) for counter_set in each.counters]
        elsewhere = (device for each in others if not each.counters for device in each.devices)
        consumers = tuple(device for device in (*devices, *elsewhere) if device.consumes)
        counters = {(name, counter): value for name, each in sets for counter, value in each.items()}
        if len({name for name, _ in sets}) != len(sets):
            return None
        if any(counter not in counters for device in consumers for counter, _ in device.consumes):
            return None
        return Pool(self.id, PoolState.USABLE, devices, counters, consumers, per_device, local)

    def _tainted(self, device: Device) -> Device:
        taints = self._taint_rules.taints(device.id)
        return replace(device, taints=(*device.taints, *taints)) if taints else device
