"""Which Pods carry a gate for longer than its SchedulingGate allows."""

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

from tollbar.decide.pods.scope import GatePolicy
from tollbar.model import pods, timestamps
from tollbar.model.objects import Object, metadata

N = TypeVar("N", bound=Hashable)


def latest(policy: GatePolicy, now: float) -> str:
    """The creation of the youngest Pods that are overdue at `now` (epoch seconds); before all times without a limit.

    As the API writes it: times are in order as texts, too, and parsing them costs more.
    """
    return "" if policy.max_hold is None else timestamps.time(now - policy.max_hold)


def count(since: Mapping[str, int], policy: GatePolicy, now: float) -> int:
    """How many are overdue of so many Pods by the time of their creation."""
    until = latest(policy, now)
    return sum(number for created, number in since.items() if created <= until)


def between(held: Iterable[Object], after: str, until: str) -> list[Object]:
    """The Pods created after the one time and not after the other, oldest first, without those being deleted."""
    found = [pod for pod in held if after < metadata(pod)["creationTimestamp"] <= until and not pods.is_deleting(pod)]
    return sorted(found, key=lambda pod: str(metadata(pod)["creationTimestamp"]))


def namespaces(held_since: Mapping[N, Iterable[float]], policy: GatePolicy, now: float) -> set[N]:
    """The namespaces with a Pod that should have been released by `now`.

    `held_since` is by namespace when its held Pods were created, in epoch seconds as `now`, without those that are
    being deleted, which are not released.  Empty where the policy sets no limit or leaves overdue Pods held.
    """
    if policy.max_hold is None or not policy.release_on_expiry:
        return set()
    until = now - policy.max_hold
    return {namespace for namespace, since in held_since.items() if any(each <= until for each in since)}
