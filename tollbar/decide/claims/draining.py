"""Prepares a claim for the removal of Tollbar or a downgrade: entries of the Pods that use it replace the workload's.

Without Tollbar nothing would ever remove the workload's entry, and an older kubelet needs the Pod's own entry.
Annotations and WorkloadClaims stay, so that a later installation reserves the claim again.

Invariants: entries of others stay, in their order; Pods that are done are not added; nothing is added to a claim that
is being deleted; never more entries than the API server takes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tollbar.decide.claims import deallocation
from tollbar.decide.claims.reservations import uid_on_record
from tollbar.model import claims, managers, pods
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Object, metadata, uid_of
from tollbar.model.workloads import Intent, intent_of


@dataclass(frozen=True, slots=True)
class DrainingFacts:
    """`consumers` are the Pods that refer to the claim."""

    claim: Object
    consumers: Sequence[Object]


def entries_of_ours(claim: Object) -> list[str]:
    """Uids: of the recorded entry, of those that the API server says we wrote, and of one for the workload that the
    claim is asked to be kept for."""
    intent, recorded = intent_of(claim), {uid_on_record(claim), *managers.reserved_by_us(claim)}

    def is_ours(entry: Object) -> bool:
        if claims.is_upstream_entry(entry):
            return False
        uid = str(entry.get("uid"))
        return uid in recorded or (isinstance(intent, Intent) and entry == intent.reference.entry(uid))

    return [str(entry["uid"]) for entry in claims.reserved_for(claim) if is_ours(entry)]


def decide(facts: DrainingFacts) -> Deallocation | None:
    """None when no entry of ours is there.  A claim without consumers is deallocated."""
    claim, ours = facts.claim, entries_of_ours(facts.claim)
    if not ours:
        return None
    remaining = [entry for entry in claims.reserved_for(claim) if entry.get("uid") not in ours]
    present = {entry.get("uid") for entry in remaining}
    missing = [
        claims.pod_entry(pod)
        for pod in facts.consumers
        if pods.is_bound(pod) and not pods.is_done(pod) and uid_of(pod) not in present
    ]
    if metadata(claim).get("deletionTimestamp"):
        missing = []
    if not remaining and not missing:
        return deallocation.remove(claim, ours)
    entries = [*remaining, *missing][: claims.RESERVED_FOR_MAX]
    return Deallocation({**claim["status"], "reservedFor": entries}, unprotect=False)
