"""Devices of Dynamic Resource Allocation (resource.k8s.io/v1): what tells them apart, and which of them are taken."""

from typing import NamedTuple

from tollbar.model.objects import Object


class DeviceId(NamedTuple):
    """A device of the cluster: the DRA driver, the pool and the device's name, which is unique in its pool."""

    driver: str
    pool: str
    device: str


def allocated(allocation: Object | None) -> list[DeviceId]:
    """The devices that a claim's `status.allocation` takes away from other claims; none when there is no allocation.

    A result with `adminAccess` takes nothing: such a device may be in use (KEP-5018).  One with a `shareID` counts as
    the whole device (KEP-5075).
    """
    results = ((allocation or {}).get("devices") or {}).get("results") or ()
    return [DeviceId(each["driver"], each["pool"], each["device"]) for each in results if not each.get("adminAccess")]
