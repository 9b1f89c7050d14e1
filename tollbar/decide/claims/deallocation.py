"""How entries are removed from a claim's `status.reservedFor`: the write that removes the last one deallocates, too.

Kubernetes deallocates a claim only in the moment in which it goes from used to unused: a claim that lost its last entry
and kept its allocation stays allocated, with its finalizer, for ever.

Invariants: entries of others stay as they are; `status.devices` is never touched; the status is written first, the
finalizer removed second; a claim without the finalizer keeps its allocation, since whoever allocated it did not follow
the protocol.
"""

from collections.abc import Collection

from tollbar.model import claims
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Object, metadata


def remove(claim: Object, uids: Collection[str]) -> Deallocation | None:
    """Remove the entries with these uids; None when none of them is there."""
    entries = claims.reserved_for(claim)
    remaining = [entry for entry in entries if entry.get("uid") not in uids]
    if len(remaining) == len(entries):
        return None
    kept = {name: value for name, value in claim["status"].items() if name != "reservedFor"}
    if remaining:
        return Deallocation({**kept, "reservedFor": remaining}, unprotect=False)
    if claims.is_protected(claim):
        kept.pop("allocation", None)
    return Deallocation(kept, unprotect=claims.is_protected(claim))


def finish(claim: Object) -> Deallocation | None:
    """Remove what keeps a claim that is being deleted and has no entry; None when it has entries or no finalizer."""
    if not metadata(claim).get("deletionTimestamp") or not claims.is_protected(claim) or claims.reserved_for(claim):
        return None
    status = claim.get("status") or {}
    if not claims.allocation(claim):
        return Deallocation(None, unprotect=True)
    return Deallocation({name: value for name, value in status.items() if name != "allocation"}, unprotect=True)
