"""The checker of placements finds what it is there to find, and nothing in a scheduling as it should be."""

import pytest
from history.placements import leftovers, wrongs
from history.recording import Change

from tollbar.model.objects import Object, metadata


def pod(version: int, node: str = "", *, phase: str = "Pending", gone: bool = False, **meta: object) -> Change:
    """The Pod `web` with a claim of its own name."""
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}], **({"nodeName": node} if node else {})}
    named = {"name": "web", "uid": "p1", "resourceVersion": str(version), **meta}
    return Change("Pod", gone, {"metadata": named, "spec": spec, "status": {"phase": phase}})


def claim(version: int, device: str = "", *, name: str = "gpu", reserved: bool = True, gone: bool = False) -> Change:
    """Allocated, with a device, and then reserved for `web`."""
    results = [{"driver": "d", "pool": "n", "device": device}]
    status: Object = {"allocation": {"devices": {"results": results}}} if device else {}
    if device and reserved:
        status["reservedFor"] = [{"resource": "pods", "name": "web", "uid": "p1"}]
    return Change(
        "ResourceClaim",
        gone,
        {"metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}, "status": status},
    )


HISTORIES: dict[str, tuple[list[Change], list[str]]] = {
    "as it should be": (
        [pod(1), claim(2), claim(3, "g0"), pod(4, "n"), pod(5, "n", phase="Running"), pod(6, "n", gone=True), claim(7)],
        [],
    ),
    "the device goes to another claim afterwards": ([claim(1, "g0"), claim(2), claim(3, "g0", name="other")], []),
    "moved": ([claim(1, "g0"), pod(2, "n"), pod(3, "m")], ["web: moved from n to m"]),
    "bound too early": (
        [claim(1), pod(2, "n")],
        ["web: bound without a reservation of gpu", "web: bound to n, the devices of gpu are on []"],
    ),
    "bound elsewhere": ([claim(1, "g0"), pod(2, "m")], ["web: bound to m, the devices of gpu are on ['n']"]),
    "a device in two allocations": (
        [claim(1, "g0"), claim(2, "g0", name="other")],
        ["other: allocated ('d', 'n', 'g0'), which gpu has"],
    ),
    "the reservation is taken back under the Pod": (
        [claim(1, "g0"), pod(2, "n"), claim(3, "g0", reserved=False)],
        ["gpu: taken from the living Pod web"],
    ),
    "the claim goes under the Pod": (
        [claim(1, "g0"), pod(2, "n"), claim(3, "g0", gone=True)],
        ["gpu: taken from the living Pod web"],
    ),
    "the reservation is taken back before the Pod is bound": (
        [pod(1), claim(2, "g0"), claim(3, "g0", reserved=False)],
        [],
    ),
    "the Pod has finished": ([claim(1, "g0"), pod(2, "n"), pod(3, "n", phase="Failed"), claim(4)], []),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_what_should_never_have_happened(case: str) -> None:
    changes, expected = HISTORIES[case]
    assert wrongs(reversed(changes)) == expected


ENDS: dict[str, tuple[list[Change], list[str]]] = {
    "as it should be": ([pod(1, "n"), claim(2, "g0")], []),
    "nobody uses the claim": ([claim(1, "g0", reserved=False)], []),
    "a Pod waits": ([pod(1)], ["web: not bound"]),
    "a Pod is being deleted": ([pod(1, deletionTimestamp="now")], ["web: still being deleted"]),
    "a Pod has gone": ([claim(1, "g0")], ["gpu: reserved for the Pod web, which does not exist"]),
}


@pytest.mark.parametrize("case", ENDS)
def test_what_is_left_over(case: str) -> None:
    changes, expected = ENDS[case]
    assert list(leftovers({(each.kind, metadata(each.object)["name"]): each.object for each in changes})) == expected
