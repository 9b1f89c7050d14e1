"""Devices of Dynamic Resource Allocation (resource.k8s.io/v1): what tells them apart."""

from typing import NamedTuple


class DeviceId(NamedTuple):
    """A device of the cluster: the DRA driver, the pool and the device's name, which is unique in its pool."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"
