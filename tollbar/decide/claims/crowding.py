"""Whether every Pod that may use a claim finds a place in `status.reservedFor`: the API server accepts 256 entries.

kube-scheduler reserves a claim for each Pod while it binds it, or for its PodGroup if that shares the claim (KEP-5729).
The 257th entry is refused and retried for ever.  So this is reported as soon as a workload asks for more Pods than
that, or more exist.
"""

from collections.abc import Collection, Sequence

from tollbar.model import claims, pods, workloads
from tollbar.model.objects import Object, key_of, uid_of

_REMEDY = "let fewer Pods share the claim, give them several claims, or put them into a PodGroup (spec.podGroup)"


def crowding(
    claim: Object,
    consumers: Sequence[Object],
    workload: Object | None,
    ours: frozenset[str],
    pod_groups: Sequence[Object] = (),
) -> str:
    """Why not every Pod will find a place, for a person; empty when all do.

    `consumers` are the Pods that refer to the claim, of any phase; `ours` are the uids of Tollbar's entries, which make
    room; `pod_groups` share the claim.  The text has no number that changes with every Pod.
    """
    name = key_of(claim).name
    live = [pod for pod in consumers if not pods.is_done(pod)]
    sharing = {key_of(group).name: _references(group, name) for group in pod_groups}
    reserved = {each.get("name") for each in claims.reserved_for(claim) if claims.is_pod_group_entry(each)}
    single = [pod for pod in live if pods.scheduling_group(pod) not in reserved and not _is_shared(pod, name, sharing)]
    counted = {uid_of(pod) for pod in live} | ours | {uid_of(group) for group in pod_groups}
    others = [entry for entry in claims.reserved_for(claim) if not _is_counted(entry, counted)]
    places = claims.RESERVED_FOR_MAX - len(others) - len(pod_groups)
    if len(single) > places:
        return f"more Pods refer to the claim than it has entries for ({places}): {_REMEDY}"
    grouped = bool(pod_groups) and (not live or len(single) < len(live))
    wanted = 0 if grouped else _wanted(name, workload or {}, sharing, reserved)
    if wanted > places:
        return f"the workload asks for up to {wanted} Pods at once, the claim has entries for {places}: {_REMEDY}"
    return ""


def _references(group: Object, claim: str) -> set[str]:
    """The names under which a Pod of the group refers to the claim when it is to share the group's entry."""
    return {str(each.get("name")) for each in pods.claim_references(group) if each.get("resourceClaimName") == claim}


def _is_shared(pod: Object, claim: str, sharing: dict[str, set[str]]) -> bool:
    """Whether the claim is reserved for the Pod's PodGroup: the same entry is in both (BindTo, resourceclaim)."""
    return bool(_references(pod, claim) & sharing.get(pods.scheduling_group(pod) or "", set()))


def _is_counted(entry: Object, uids: Collection[str]) -> bool:
    """Whether the entry is among `uids`, or of a Pod, which is not there any more then."""
    return entry.get("uid") in uids or claims.is_pod_entry(entry)


def _wanted(claim: str, workload: Object, sharing: dict[str, set[str]], reserved: Collection[str | None]) -> int:
    """The most Pods of the workload that refer to the claim at one time, each for itself; 0 when it does not say."""
    template = {"spec": workloads.pod_spec(workload)}
    grouped = pods.scheduling_group(template) in reserved or _is_shared(template, claim, sharing)
    if grouped or not _references(template, claim):
        return 0
    return workloads.pods_at_once(workload) or 0
