"""How many devices a claim asks for; Kubernetes is asked in tests/integration/test_device_quotas.py."""

import pytest
from objects.builders import claim
from objects.devicequotas import COUNTED, DEVICES, exactly

from tollbar.decide.quotas.devices import by_class, is_of_devices
from tollbar.model.objects import Object


@pytest.mark.parametrize(("requests", "want"), COUNTED.values(), ids=COUNTED)
def test_what_kubernetes_counts(requests: list[Object], want: dict[str, int]) -> None:
    assert by_class(claim().but("spec.devices.requests", requests)) == want


OURS: dict[str, tuple[list[Object] | None, dict[str, int]]] = {
    "no list of requests": (None, {}),
    "admin access takes nothing from anybody": (
        [exactly("gpu", adminAccess=True, allocationMode="All"), exactly("gpu", count=2)],
        {"gpu": 2},
    ),
    "as a file has it, without what the API server sets": (
        [{"name": "a", "exactly": {"deviceClassName": "gpu"}}],
        {"gpu": 1},
    ),
    "more than a claim can get": ([exactly("gpu", count=2**62), exactly("gpu", count=30)], {"gpu": 32}),
    "a mode that is yet to be": ([exactly("gpu", allocationMode="Some", count=3)], {}),
    "a request that is yet to be": ([{"name": "a", "atLeast": {"deviceClassName": "gpu"}}], {}),
    "without a class": ([{"name": "a", "exactly": {}}], {}),
}


@pytest.mark.parametrize(("requests", "want"), OURS.values(), ids=OURS)
def test_what_it_makes_of_others(requests: list[Object] | None, want: dict[str, int]) -> None:
    assert by_class(claim().but("spec.devices", {"requests": requests})) == want


@pytest.mark.parametrize(
    ("resource", "want"),
    [
        ("gpu" + DEVICES, True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("cpu", False),
        ("example.com/gpu", False),
        ("deviceclass.resource.k8s.io/devices", False),
    ],
)
def test_which_limits_are_on_devices_by_their_name(resource: str, want: bool) -> None:
    assert is_of_devices(resource) is want
