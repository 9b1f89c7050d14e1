"""Whether every Pod that may use a claim finds a place in `status.reservedFor`: the API server accepts 256 entries.

kube-scheduler reserves a claim for each Pod while it binds it.  The 257th is refused then, and tried again for ever; so
it is said as soon as a workload asks for so many Pods, or there are so many.
"""

from collections.abc import Sequence

from tollbar.model import claims, pods, workloads
from tollbar.model.objects import Object, key_of, uid_of

_REMEDY = "let fewer Pods share the claim, or give them several claims"


def crowding(claim: Object, consumers: Sequence[Object], workload: Object | None, ours: frozenset[str]) -> str:
    """Why not every Pod will find a place, for a person; empty when all do.

    `consumers` are the Pods that refer to the claim, of any phase; `ours` are the uids of Tollbar's entries, which make
    room.  The text has no number that changes with every Pod.
    """
    live = [pod for pod in consumers if not pods.is_done(pod)]
    counted = {uid_of(pod) for pod in live}
    others = [entry for entry in claims.reserved_for(claim) if not _is_counted(entry, counted | ours)]
    places = claims.RESERVED_FOR_MAX - len(others)
    if sum(not claims.is_reserved_for_group(claim, pod) for pod in live) > places:
        return f"more Pods refer to the claim than it has entries for ({places}): {_REMEDY}"
    wanted = _wanted(key_of(claim).name, workload or {})
    if wanted > places:
        return f"the workload asks for up to {wanted} Pods at once, the claim has entries for {places}: {_REMEDY}"
    return ""


def _is_counted(entry: Object, uids: set[str] | frozenset[str]) -> bool:
    """Whether the entry is among `uids`, or of a Pod, which is not there any more then."""
    return entry.get("uid") in uids or claims.is_pod_entry(entry)


def _wanted(claim: str, workload: Object) -> int:
    """The most Pods of the workload that refer to the claim at one time, each for itself; 0 when it does not say."""
    template = {"spec": workloads.pod_spec(workload)}
    named = any(each.get("resourceClaimName") == claim for each in pods.claim_references(template))
    return (workloads.pods_at_once(workload) or 0) if named and pods.scheduling_group(template) is None else 0
