"""The benchmark `devices` measures what it says: a claim is allocated where a device is free, and every row is told."""

from benchmarks.workloads import devices
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled


def test_every_row_has_a_figure() -> None:
    told = devices._main(40)
    assert sorted(told) == sorted(row.name for row in devices.WORKLOAD.rows)


def test_a_claim_holds_the_device_of_its_number() -> None:
    objects = [devices.received(each) for each in (devices.resource_slice(1), devices.resource_claim(7, 1, 14))]
    manager = dra_manager(filled(objects, KINDS))
    (device,) = manager.claims.state.devices
    assert device == ("gpu.example.com", "node-00001", "gpu-4")
    assert manager.inventory.device(device) is not None
    assert not len(manager.malformed)
