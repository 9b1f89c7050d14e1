"""Which Pods carry a gate for longer than its SchedulingGate allows.

Times are compared as the API writes them: in order as texts, too, and parsing them costs more.
"""

from collections.abc import Iterable, Mapping

from tollbar.decide.pods.scope import GatePolicy
from tollbar.model import pods, timestamps
from tollbar.model.objects import Object, key_of, metadata


def latest(policy: GatePolicy, now: float) -> str:
    """The creation of the youngest Pods that are overdue at `now` (epoch seconds); before all times without a limit."""
    return "" if policy.max_hold is None else timestamps.time(now - policy.max_hold)


def count(since: Mapping[str, int], policy: GatePolicy, now: float) -> int:
    """How many are overdue of so many Pods by the time of their creation."""
    until = latest(policy, now)
    return sum(number for created, number in since.items() if created <= until)


def between(held: Iterable[Object], after: str, until: str) -> list[Object]:
    """The Pods created after the one time and not after the other, oldest first, without those being deleted."""
    found = [pod for pod in held if after < metadata(pod)["creationTimestamp"] <= until and not pods.is_deleting(pod)]
    return sorted(found, key=lambda pod: str(metadata(pod)["creationTimestamp"]))


def namespaces(held: Iterable[Object], policy: GatePolicy, now: float) -> set[str]:
    """The namespaces of the Pods that should have been released by `now` (epoch seconds).

    None where the policy sets no limit or leaves overdue Pods held.  Pods that are being deleted are not released.
    """
    if not policy.release_on_expiry:
        return set()
    return {key_of(pod).namespace for pod in between(held, "", latest(policy, now))}
