"""The manager of Dynamic Resource Allocation: all claims, devices and DeviceClasses of a cluster, from the caches.

It is what the SharedDRAManager is to kube-scheduler, and keeps what an allocation reads:

    allocator = Allocator(manager.inventory, manager.claims.state, manager.classes)

The state of the claims and the inventory follow the caches event by event; nothing is gathered for a question.
"""

from collections.abc import Callable, Mapping

from tollbar.dra.claims import Claims
from tollbar.dra.classes import DeviceClasses
from tollbar.dra.inventory import Inventory, PoolId
from tollbar.dra.malformed import ERRORS, Malformed
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, key_of
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


class DraManager:
    """`claims`, `classes` and `inventory` are read by others; `malformed` has the objects that are left out.

    Create it before other handlers subscribe to these stores.  A store of an API that is not served is empty and
    counts as synced: there are no DeviceTaintRules then.
    """

    def __init__(self, claims: Store, slices: Store, classes: Store, taint_rules: Store) -> None:
        self.stores = (claims, slices, classes, taint_rules)
        self.malformed = Malformed()
        self.inventory = Inventory()
        self.claims = Claims(claims, self._offered, self.malformed, self._usage_changed)
        self.classes = DeviceClasses(classes)
        self._follow(taint_rules, self.inventory.apply_taint_rule, self.inventory.remove_taint_rule)
        self._follow(slices, self.inventory.apply, self.inventory.remove)

    def _follow(self, store: Store, apply: Callable[[Object], None], remove: Callable[[Object], None]) -> None:
        kind = store.resource.kind

        def handle(delta: Delta) -> None:
            key = key_of(delta.new or delta.old or {})
            if delta.new is not None:
                try:
                    apply(delta.new)
                except ERRORS as error:
                    self.malformed.add(kind, key, error)
                    remove(delta.new)
                    return
            elif delta.old is not None:
                remove(delta.old)
            self.malformed.discard(kind, key)

        store.subscribe(handle)
        store.replay(handle)

    def _usage_changed(self, device: DeviceId, taken: bool) -> None:
        """A device was taken or released.  What is released may let more fit on its Nodes than before.

        So may a device that consumes counters, also when it is taken: further shares of it consume none.
        """
        known, pool = self.inventory.device(device), PoolId(device.driver, device.pool)
        if not taken or (known is not None and known.consumes):
            self.inventory.devices_changed(pool)
        else:
            self.inventory.devices_taken(pool)

    def _offered(self, device: DeviceId) -> Mapping[str, int] | None:
        found = self.inventory.device(device)
        return (
            {name: each.value.nanos for name, each in found.content.capacities.items()} if found is not None else None
        )
