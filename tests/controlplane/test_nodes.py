"""The objects that the fake kubelet writes."""

import pytest

from tollbar.devplane import nodes
from tollbar.model.objects import Object

SLICES = {
    "no devices are one empty slice, so that the pool is known": (0, [0]),
    "as many as fit": (64, [64]),
    "one more": (65, [64, 1]),
}


@pytest.mark.parametrize(("given", "want"), SLICES.values(), ids=SLICES)
def test_slices_of_a_pool(given: int, want: list[int]) -> None:
    made = nodes.slices("n", "gpu.example.com", [{"name": f"gpu-{number}"} for number in range(given)], 3)

    assert [(each["metadata"]["name"], each["spec"]["pool"], len(each["spec"]["devices"])) for each in made] == [
        (f"n-gpu.example.com-{index}", {"name": "n", "generation": 3, "resourceSliceCount": len(want)}, size)
        for index, size in enumerate(want)
    ]


ADDRESSES = {
    "the first": (1, "10.128.0.1"),
    "past a byte": (256, "10.128.1.0"),
    "past two bytes": (65_536, "10.129.0.0"),
}


@pytest.mark.parametrize(("given", "want"), ADDRESSES.values(), ids=ADDRESSES)
def test_address(given: int, want: str) -> None:
    assert nodes.pod_address(given) == want


def test_a_finished_container_is_not_ready_and_a_running_one_is() -> None:
    pod = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"containers": [{"name": "main"}]}}

    states = [
        [(each["ready"], list(each["state"])) for each in patch["status"]["containerStatuses"]]
        for patch in (nodes.running(pod, "10.128.0.1", "172.16.0.1", 0.0), nodes.finished(pod, 0.0))
    ]

    assert states == [[(True, ["running"])], [(False, ["terminated"])]]


CAPACITIES = {
    "nothing has changed": ({"cpu": "4"}, {"cpu": "4"}, None),
    "an extended resource was added": (
        {"cpu": "4", "example.com/gpu": "8"},
        {"cpu": "4"},
        {"cpu": "4", "example.com/gpu": "8"},
    ),
    "one was removed": ({"cpu": "4"}, {"cpu": "4", "example.com/gpu": "8"}, {"cpu": "4", "example.com/gpu": None}),
}


@pytest.mark.parametrize(("capacity", "allocatable", "patch"), CAPACITIES.values(), ids=CAPACITIES)
def test_the_capacity_of_a_node_is_allocatable(
    capacity: dict[str, str], allocatable: dict[str, str], patch: dict[str, str | None] | None
) -> None:
    found = nodes.allocatable({"status": {"capacity": capacity, "allocatable": allocatable}})
    assert found == ({"status": {"allocatable": patch}} if patch is not None else None)


def sleeping(*seconds: int | None, grace: int = 30, phase: str = "Running") -> Object:
    containers = [{"lifecycle": {"preStop": {"sleep": {"seconds": each}}}} if each else {} for each in seconds]
    return {
        "metadata": {"deletionGracePeriodSeconds": grace},
        "spec": {"containers": containers},
        "status": {"phase": phase},
    }


HOOKS = {
    "no hook": (sleeping(None), 0),
    "the longest of the containers": (sleeping(2, None, 5), 5),
    "no longer than the grace period": (sleeping(60, grace=3), 3),
    "a Pod that never ran": (sleeping(5, phase="Pending"), 0),
}


@pytest.mark.parametrize(("pod", "seconds"), HOOKS.values(), ids=HOOKS)
def test_how_long_a_pod_that_is_deleted_goes_on(pod: Object, seconds: float) -> None:
    assert nodes.pre_stop(pod) == seconds
