"""Writes to ResourceClaims: their annotations, and `status.reservedFor`.

Every write has a precondition: an addition the claim's uid, a removal also its resourceVersion, because the claim is
deallocated with its last entry and nobody may have added another.  Each returns the claim as the API server answered.

Invariants: no call is repeated here; `status.devices` and the entries of others stay as they are.  Errors are the
client's; `outcome_of` tells which of them mean a stale view.
"""

from collections.abc import Mapping
from typing import Final

from tollbar import wellknown
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Object, key_of, metadata, picked, uid_of
from tollbar.model.plan import DONE, STALE, Outcome
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, Invalid, NotFound

_BINDING: Final = "resourceclaims/binding"
"""Part of the message of the 422 with which the API server refuses a reservation without this permission."""


async def perform(client: Client, claim: Object, plan: Deallocation) -> Object:
    """Write the status, then remove the finalizer, as planned; returns the new claim.  Raises Conflict and NotFound."""
    if plan.status is not None:
        claim = await client.replace(RESOURCE_CLAIMS, _only_status(claim, plan.status), "status")
    if plan.unprotect:
        claim = await _unprotect(client, claim)
    return claim


async def annotate(client: Client, claim: Object, annotations: Mapping[str, str | None]) -> Object:
    """Set these annotations; None removes one.  Raises NotFound, and Conflict when another claim has the name."""
    key = key_of(claim)
    body = {"metadata": {"uid": uid_of(claim), "annotations": dict(annotations)}}
    return await client.patch(RESOURCE_CLAIMS, key.name, body, namespace=key.namespace, patch_type=PatchType.MERGE)


async def reserve(client: Client, claim: Object, entry: Object) -> Object:
    """Add one entry beside those of others; returns the new claim.

    Raises NotFound, Conflict when another claim has the name, and Invalid when the claim is not allocated, is being
    deleted or has no room.
    """
    body = {"metadata": {"uid": uid_of(claim)}, "status": {"reservedFor": [entry]}}
    key = key_of(claim)
    return await client.patch(
        RESOURCE_CLAIMS,
        key.name,
        body,
        namespace=key.namespace,
        patch_type=PatchType.STRATEGIC,
        subresource="status",
        field_manager=wellknown.RESERVATIONS_FIELD_MANAGER,
    )


def outcome_of(error: ApiError) -> Outcome:
    """The outcome for a claim that is gone, or that was decided about on a stale view.  Raises all other errors."""
    if isinstance(error, NotFound):
        return DONE
    if isinstance(error, Conflict) or (isinstance(error, Invalid) and _is_another(error)):
        return STALE
    raise error


def is_denied(error: ApiError) -> bool:
    """Whether permission is missing: by RBAC or, from 1.36 on, by validation of the status."""
    return isinstance(error, Forbidden) or _BINDING in error.message


def _is_another(error: Invalid) -> bool:
    """Whether a patch with `metadata.uid` was refused because another object has the name."""
    return any(cause.get("field") == "metadata.uid" for cause in error.causes)


def _only_status(claim: Object, status: Object) -> Object:
    """The body for a PUT of the status, which ignores the spec and the metadata but for these fields."""
    meta = metadata(claim)
    kept = ("namespace", "name", "generateName", "uid", "resourceVersion")
    return {
        **RESOURCE_CLAIMS.type_meta,
        "metadata": picked(meta, kept),
        "status": status,
    }


async def _unprotect(client: Client, claim: Object) -> Object:
    """Remove the finalizer alone: of a large claim those of others are not known."""
    meta, key = metadata(claim), key_of(claim)
    body = {
        "metadata": {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "$deleteFromPrimitiveList/finalizers": [wellknown.DELETE_PROTECTION_FINALIZER],
        }
    }
    return await client.patch(RESOURCE_CLAIMS, key.name, body, namespace=key.namespace, patch_type=PatchType.STRATEGIC)
