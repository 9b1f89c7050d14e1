"""A device that is tainted NoExecute under a workload: its Pods are evicted, and the claim moves to another device."""

import pytest
from e2e.workloads import PINNED, Shared, deployment, for_web
from planes.parameters import since
from processes.stack import eventually

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.real,
    since("1.37", "DeviceTaintRules are not served by default"),
]


def test_a_workload_gets_another_device_for_one_that_is_tainted(shared: Shared) -> None:
    shared.apply(for_web(), deployment("web", "device"))
    shared.until(shared.entries, PINNED)
    device = str(shared.device())
    with shared.tainted(device):
        eventually(lambda: shared.device() not in (None, device), what="another device")
        shared.running()
        shared.until(shared.entries, PINNED)
        shared.until(shared.condition, ("True", "Held"))
