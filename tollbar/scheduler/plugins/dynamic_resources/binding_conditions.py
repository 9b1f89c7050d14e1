"""Binding conditions: what drivers have to report about allocated devices before a Pod is bound (KEP-5007).

Source: isClaimReadyForBinding and isClaimTimeout in pkg/scheduler/framework/plugins/dynamicresources.
"""

from tollbar.model import claims, conditions, timestamps
from tollbar.model.objects import Object, key_of


class BindingFailed(Exception):
    """A driver reports that a device cannot be made ready, or it cannot be waited for any longer.

    `outcome` is failure, timeout or error, as the metrics show it.
    """

    def __init__(self, message: str, outcome: str = "failure") -> None:
        super().__init__(message)
        self.outcome = outcome


def are_asked_for(claim: Object) -> bool:
    return any(each.get("bindingConditions") for each in results(claim))


def are_true(claim: Object) -> bool:
    """Whether all devices of the claim are ready; BindingFailed if one will not be."""
    return claims.allocation(claim) is not None and all(_is_ready(claim, each) for each in results(claim))


def have_timed_out(claim: Object, now: float, timeout: float) -> bool:
    """Whether devices that had to be made ready were allocated too long ago; both times are in seconds."""
    stamp = (claims.allocation(claim) or {}).get("allocationTimestamp") or ""
    waits = any("bindingConditions" in each for each in results(claim))
    return bool(waits and stamp) and timestamps.parse(stamp) + timeout < now


def _is_ready(claim: Object, result: Object) -> bool:
    if not result.get("bindingConditions"):
        return True
    device = _status(claim, result)
    for name in result.get("bindingFailureConditions") or ():
        if _is_true(device, name):
            found = conditions.find(device.get("conditions"), name) or {}
            why = f'reason={found.get("reason")}, message="{found.get("message")}"'
            raise BindingFailed(f"device binding failed: claim={key_of(claim).name}, {why}")
    return all(_is_true(device, name) for name in result["bindingConditions"])


def _is_true(device: Object, name: str) -> bool:
    return (conditions.find(device.get("conditions"), name) or {}).get("status") == "True"


def _status(claim: Object, result: Object) -> Object:
    """What the driver reports about the device of this result; empty if nothing."""
    place = ("driver", "pool", "device")
    devices = (claim.get("status") or {}).get("devices") or ()
    return next((each for each in devices if all(each.get(name) == result.get(name) for name in place)), {})


def results(claim: Object) -> list[Object]:
    """The devices that are allocated for the claim."""
    return claims.results(claims.allocation(claim))
