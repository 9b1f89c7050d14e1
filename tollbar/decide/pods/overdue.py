"""Which namespaces have Pods that carry Tollbar's gate for longer than its SchedulingGate allows."""

from collections.abc import Iterable

from tollbar.decide.pods.scope import GatePolicy
from tollbar.model import pods, timestamps
from tollbar.model.objects import Object, key_of, metadata


def namespaces(held: Iterable[Object], policy: GatePolicy, now: float) -> set[str]:
    """The namespaces of the Pods that should have been released by `now` (epoch seconds).

    None where the policy sets no limit or leaves overdue Pods held.  Pods that are being deleted are not released.
    """
    if policy.max_hold is None or not policy.release_on_expiry:
        return set()
    latest = timestamps.time(now - policy.max_hold)  # times of the API are in order as texts, too; parsing costs more
    return {
        key_of(pod).namespace
        for pod in held
        if metadata(pod)["creationTimestamp"] <= latest and not pods.is_deleting(pod)
    }
