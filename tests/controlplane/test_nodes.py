"""The objects that the fake kubelet writes."""

import pytest

from tollbar.devplane import nodes

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
    assert nodes.address(given) == want


def test_a_finished_container_is_not_ready_and_a_running_one_is() -> None:
    pod = {"metadata": {"uid": "u", "resourceVersion": "7"}, "spec": {"containers": [{"name": "main"}]}}

    states = [
        [(each["ready"], list(each["state"])) for each in patch["status"]["containerStatuses"]]
        for patch in (nodes.running(pod, "10.128.0.1", 0.0), nodes.finished(pod, 0.0))
    ]

    assert states == [[(True, ["running"])], [(False, ["terminated"])]]
