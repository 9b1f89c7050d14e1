"""What is left of the shared counters of partitionable devices (KEP-4815)."""

from collections.abc import Mapping

from tollbar.dra.inventory import Pool
from tollbar.dra.slices import CounterId
from tollbar.dra.state import AllocatedState


class FreeCounters:
    """The counters of pools less what allocated devices consume, worked out once for each pool.

    Devices for other Nodes count too, and those that are no longer in a slice do not.
    """

    def __init__(self, state: AllocatedState) -> None:
        self._state = state
        self._free: dict[Pool, Mapping[CounterId, int] | None] = {}

    def of(self, pool: Pool) -> Mapping[CounterId, int] | None:
        """What is free, in nano units; None if more is consumed than there is, when the pool gives no more devices."""
        if pool not in self._free:
            free = dict(pool.counters)
            for device in pool.consumers:
                if device.id in self._state:
                    for counter, value in device.consumes:
                        free[counter] -= value
            self._free[pool] = None if any(value < 0 for value in free.values()) else free
        return self._free[pool]
