"""Claims as `tollbar status` shows them, of which it keeps little while it lists them."""

import pytest
from objects.builders import Claim, claim

from tollbar import wellknown
from tollbar.cli.status.claims import generator, read_of, reservations
from tollbar.runtime.footprint import footprint

MANAGER = [{"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}}]
OURS = [
    {
        "manager": wellknown.RESERVATIONS_FIELD_MANAGER,
        "subresource": "status",
        "fieldsV1": {"f:status": {"f:reservedFor": {'k:{"uid":"u"}': {}}}},
    }
]
RESERVED = claim().annotated({wellknown.ANNOTATION_RESERVED_FOR: "deployments.apps/web"})
ENTRY = [{"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u"}]
CASES: dict[str, tuple[Claim, list[str], str]] = {
    "one that somebody reserves": (RESERVED, ["NotAllocated"], ""),
    "one that is allocated": (RESERVED.but("status.allocation", {"devices": {}}), ["NotReserved"], ""),
    "one that is held": (
        RESERVED.but("status.reservedFor", ENTRY).but("metadata.managedFields", OURS),
        ["Held"],
        "",
    ),
    "one of a Pod, which nobody reserves": (
        RESERVED.owned_by("Pod").but("status.reservedFor", ENTRY),
        ["NotAllocated"],
        "",
    ),
    "one that was generated": (
        claim().annotated({wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu"}).but("metadata.managedFields", MANAGER),
        [],
        "kube-controller-manager",
    ),
}


@pytest.mark.parametrize(("given", "reasons", "made_by"), CASES.values(), ids=CASES)
def test_what_is_kept_of_a_large_claim_is_little_and_tells_all(given: Claim, reasons: list[str], made_by: str) -> None:
    large = given.request("gpu.example.com", selectors=("x" * 1_000_000,)).labelled({"large": "x" * 100_000})
    kept = read_of(large)
    assert ([each.reason for each in reservations([], [kept])], generator([kept])) == (reasons, made_by)
    assert footprint(kept) < 4096
