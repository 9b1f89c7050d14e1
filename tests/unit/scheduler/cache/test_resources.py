"""Amounts as the scheduler counts them: whole numbers, of the resources that it knows."""

from typing import Any

import pytest

from tollbar.scheduler.cache.resources import Resources, from_quantities

AMOUNTS: dict[str, tuple[dict[str, Any], Resources]] = {
    "cpu is in millicores, rounded up": ({"cpu": "1.0001"}, Resources(milli_cpu=1001)),
    "bytes are rounded up": ({"memory": "1500m", "ephemeral-storage": "0.1"}, Resources(memory=2, ephemeral_storage=1)),
    "numbers as users write them": ({"cpu": 2, "pods": 110}, Resources(milli_cpu=2000, pods=110)),
    "extended resources, huge pages and attachable volumes": (
        {"example.com/gpu": "2", "hugepages-2Mi": "4Mi", "attachable-volumes-csi": "3", "kubernetes.io/batch": "1"},
        Resources(
            scalars={
                "example.com/gpu": 2,
                "hugepages-2Mi": 4 << 20,
                "attachable-volumes-csi": 3,
                "kubernetes.io/batch": 1,
            }
        ),
    ),
    "names that mean nothing to the scheduler": ({"storage": "1", "requests.example.com/gpu": "1"}, Resources()),
    "what is no quantity counts as absent": ({"cpu": "much", "memory": "1"}, Resources(memory=1)),
    "no amount is beyond 64 bits": (
        {"cpu": "9E", "memory": "9999E"},
        Resources(milli_cpu=2**63 - 1, memory=2**63 - 1),
    ),
}


@pytest.mark.parametrize(("given", "want"), AMOUNTS.values(), ids=AMOUNTS)
def test_quantities(given: dict[str, Any], want: Resources) -> None:
    assert from_quantities(given) == want
