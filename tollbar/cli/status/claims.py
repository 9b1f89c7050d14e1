"""The state of ResourceClaims and their reservations, for `tollbar status`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import ReservedReason
from tollbar.cli.reading import Reading
from tollbar.decide.claims import draining
from tollbar.decide.claims.events import ClaimEvent
from tollbar.explain.events import happened
from tollbar.model import claims, conditions, managers
from tollbar.model.objects import Object, controller_of, key_of, metadata, picked
from tollbar.model.resources import EVENTS
from tollbar.model.workloads import intent_of, workload_claim_of

_RECENT: Final = 300.0
"""Seconds for which an Event counts: the Event of a lasting problem is repeated every minute."""
_FINE: Final = frozenset(
    {ReservedReason.HELD, ReservedReason.NOT_ALLOCATED, ReservedReason.RELEASED, ReservedReason.WORKLOAD_MISSING}
)


@dataclass(frozen=True, slots=True)
class Reservation:
    """One reservation: `name` is `namespace/name` of the WorkloadClaim, or of the annotated ResourceClaim."""

    name: str
    reason: str
    message: str = ""

    @property
    def is_fine(self) -> bool:
        return self.reason in _FINE

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.name, self.reason, self.message)))


def read_of(claim: Object) -> Object:
    """What is read here of a claim, which may be as large as the API server stores it."""
    meta, owner = metadata(claim), controller_of(claim)
    kept = picked(meta, ("name", "namespace", "creationTimestamp", "annotations"))
    owners = {"ownerReferences": [owner]} if owner is not None else {}
    return {
        "metadata": {**kept, **owners, "managedFields": managers.reduced(claim)},
        "status": claim.get("status") or {},
    }


def reservations(asked: Sequence[Object], found: Sequence[Object]) -> list[Reservation]:
    """The reservations of WorkloadClaims, from their conditions, and of annotated claims, from their status."""
    stand = []
    for each in asked:
        said = conditions.of(each, wellknown.CONDITION_RESERVED)
        reason, message = str(said.get("reason") or "Unknown"), str(said.get("message") or "")
        stand.append(Reservation(str(key_of(each)), reason, message))
        for type_ in (wellknown.CONDITION_CONSUMERS_FIT, wellknown.CONDITION_POD_GROUP_READY):
            said = conditions.of(each, type_)
            if said.get("status") == "False":
                stand.append(Reservation(str(key_of(each)), str(said.get("reason")), str(said.get("message") or "")))
    stand += [
        Reservation(str(key_of(claim)), _seen(claim))
        for claim in found
        if intent_of(claim) is not None and not workload_claim_of(claim)
    ]
    return stand


def _seen(claim: Object) -> str:
    if draining.entries_of_ours(claim):
        return ReservedReason.HELD
    return "NotReserved" if claims.allocation(claim) else ReservedReason.NOT_ALLOCATED


def generator(found: Sequence[Object]) -> str:
    """The field manager that made the newest claim that was generated for a Pod."""
    generated = [claim for claim in found if claims.reference_of(claim)]
    newest = max(generated, key=lambda claim: metadata(claim).get("creationTimestamp") or "", default={})
    return managers.creator(newest)


async def _recent(reading: Reading, reason: str, now: float) -> list[Object] | None:
    """The Events with this reason of the last minutes."""
    return await reading.list(
        EVENTS, field_selector=f"reason={reason}", keep=lambda event: happened(event) > now - _RECENT
    )


async def loops(reading: Reading, now: float) -> tuple[str, ...] | None:
    """`namespace/name` of the claims in which kube-controller-manager's loop was seen lately (UpstreamOscillation)."""
    events = await _recent(reading, ClaimEvent.UPSTREAM_OSCILLATION, now)
    if events is None:
        return None
    told = (event.get("regarding") or {} for event in events)
    return tuple(sorted({f"{each.get('namespace')}/{each.get('name')}" for each in told}))


async def refusals(reading: Reading, now: float) -> tuple[str, ...]:
    """Why the controllers did not replace kube-controller-manager's controller lately, as their Events say."""
    events = await _recent(reading, ClaimEvent.CLAIMS_NOT_REPLACED, now) or ()
    return tuple(sorted({str(event.get("note")) for event in events}))
