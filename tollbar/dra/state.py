"""Which devices the allocated claims hold, and how much of those that several claims share."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object
from tollbar.model.quantity import nanos

_NOTHING: Final[Mapping[str, int]] = {}


class Holding(NamedTuple):
    """A device that an allocation holds: all of it, or a share that consumes capacity (nano units by name)."""

    device: DeviceId
    is_share: bool = False
    consumed: Mapping[str, int] = _NOTHING


def holdings(allocation: Object) -> tuple[Holding, ...]:
    """What a claim's `status.allocation` holds.  Results with `adminAccess` hold nothing (KEP-5018).

    A share whose consumed capacity cannot be read holds the whole device.  KeyError or ValueError for an allocation
    that the API server would refuse.
    """
    return tuple([_holding(result) for result in claims.results(allocation) if not result.get("adminAccess")])


def _holding(result: Object) -> Holding:
    driver, pool, name = device = DeviceId(result["driver"], result["pool"], result["device"])
    if not (isinstance(driver, str) and isinstance(pool, str) and isinstance(name, str)):
        raise ValueError("a name is no text")
    if not result.get("shareID"):
        return Holding(device)
    consumed = {}
    try:
        for capacity, text in (result.get("consumedCapacity") or {}).items():
            if value := nanos(str(text)):
                consumed[capacity] = value
    except ValueError:
        return Holding(device)
    return Holding(device, True, consumed or _NOTHING)


class AllocatedState:
    """The sum of any number of allocations, kept by adding and removing them one by one.

    `devices` counts the claims that hold a whole device: more than one is a collision.  `shares` counts the shares of
    a shared device (results with a `shareID`), and `capacity` has what they consume together, in nano units by
    capacity name.
    """

    def __init__(self, allocations: Iterable[Object] = ()) -> None:
        self.devices: dict[DeviceId, int] = {}
        self.shares: dict[DeviceId, int] = {}
        self.capacity: dict[DeviceId, dict[str, int]] = {}
        for each in allocations:
            self.add(each)

    def __contains__(self, device: DeviceId) -> bool:
        """Whether a claim holds it, or a share of it."""
        return device in self.devices or device in self.shares

    def copy(self) -> "AllocatedState":
        """A copy that later changes leave alone."""
        copied = AllocatedState()
        copied.devices, copied.shares = dict(self.devices), dict(self.shares)
        copied.capacity = {device: dict(consumed) for device, consumed in self.capacity.items()}
        return copied

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AllocatedState):
            return NotImplemented
        return (self.devices, self.shares, self.capacity) == (other.devices, other.shares, other.capacity)

    def add(self, allocation: Object) -> None:
        """Count what a claim's `status.allocation` holds; errors are those of `holdings`."""
        self.take(holdings(allocation))

    def remove(self, allocation: Object) -> None:
        """Take back an allocation that was added.  KeyError if it was not."""
        self.release(holdings(allocation))

    def take(self, held: Iterable[Holding]) -> None:
        for device, is_share, consumed in held:
            count = self.shares if is_share else self.devices
            count[device] = count.get(device, 0) + 1
            if consumed:
                total = self.capacity.setdefault(device, {})
                for name, value in consumed.items():
                    total[name] = total.get(name, 0) + value

    def release(self, held: Iterable[Holding]) -> None:
        for device, is_share, consumed in held:
            count = self.shares if is_share else self.devices
            count[device] -= 1
            if not count[device]:
                del count[device]
            if consumed:
                total = self.capacity[device]
                for name, value in consumed.items():
                    total[name] -= value
                    if not total[name]:
                        del total[name]
                if not total:
                    del self.capacity[device]
