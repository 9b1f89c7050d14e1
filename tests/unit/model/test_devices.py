"""Which devices an allocation takes."""

import pytest

from tollbar.model.devices import DeviceId, allocated
from tollbar.model.objects import Object

RESULT: Object = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
GPU = DeviceId("gpu.example.com", "n1", "gpu-0")

ALLOCATED: dict[str, tuple[Object | None, list[DeviceId]]] = {
    "no allocation": (None, []),
    "an allocation without devices": ({"devices": {}}, []),
    "each result takes a device": (
        {"devices": {"results": [RESULT, {**RESULT, "device": "gpu-1"}]}},
        [GPU, GPU._replace(device="gpu-1")],
    ),
    "devices of one name in two pools are two": (
        {"devices": {"results": [RESULT, {**RESULT, "pool": "n2"}]}},
        [GPU, GPU._replace(pool="n2")],
    ),
    "admin access takes nothing": ({"devices": {"results": [{**RESULT, "adminAccess": True}]}}, []),
    "a result that says it has no admin access": ({"devices": {"results": [{**RESULT, "adminAccess": False}]}}, [GPU]),
    "a share counts as the whole device": ({"devices": {"results": [{**RESULT, "shareID": "s"}]}}, [GPU]),
}


@pytest.mark.parametrize(("allocation", "want"), ALLOCATED.values(), ids=ALLOCATED)
def test_allocated(allocation: Object | None, want: list[DeviceId]) -> None:
    assert allocated(allocation) == want
