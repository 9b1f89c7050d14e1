"""How many devices of each DeviceClass a claim asks for, and which limits of a PodQuota they count for.

Counted as a ResourceQuota counts a claim: a request takes its `count`, one for all devices the most that a claim can
get, and one with alternatives takes of each class what the greatest of them would.  Source:
pkg/quota/v1/evaluator/core/resource_claims.go.

Unlike there, requests with `adminAccess` count as nothing: they take no device from anybody.  Nor does a claim count
for more devices of a class than a claim can get, so that one that is never allocated does not keep others waiting.
"""

from collections.abc import Mapping

from tollbar import wellknown
from tollbar.model import claims
from tollbar.model.objects import Object


def by_class(claim: Object) -> Mapping[str, int]:
    """The devices by the name of their DeviceClass; all numbers are positive."""
    found: dict[str, int] = {}
    for request in claims.requests_of(claim):
        most: dict[str, int] = {}
        for each in request.get("firstAvailable") or (request.get("exactly") or {},):
            name = each.get("deviceClassName") or ""
            most[name] = max(most.get(name, 0), _count(each))
        for name, count in most.items():
            if name and count:
                found[name] = min(found.get(name, 0) + count, claims.RESULTS_MAX)
    return found


def _count(request: Object) -> int:
    """Nothing for a mode that is not known; fields that are missing have the API server's defaults."""
    if request.get("adminAccess"):
        return 0
    match request.get("allocationMode", "ExactCount"):
        case "ExactCount":
            return int(request.get("count", 1))
        case "All":
            return claims.RESULTS_MAX
    return 0


def is_of_devices(resource: str) -> bool:
    """Whether its name says that a limit on this resource is one on devices."""
    return resource.endswith(wellknown.DEVICES_OF_CLASS) or claims.implicit_class(resource) is not None
