"""Writes to `status.reservedFor` of ResourceClaims, for the controllers that take part in it.

Called with a claim of the cache and what was decided about it.  Every write is fenced: an addition by the claim's uid,
a removal by its resourceVersion too, because what may be done with the last entry depends on nobody adding another.

Invariants: nothing is repeated here; `status.devices` and the entries of others stay as they are; what the server
answers is taken into the cache.  Errors are the client's: `outcome_of` says which of them are a stale view.
"""

from typing import Final

from tollbar import wellknown
from tollbar.decide.claims.deallocation import Deallocation
from tollbar.model.objects import Object, key_of, metadata, uid_of
from tollbar.model.plan import DONE, Outcome, Requeue
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from tollbar.runtime.store import Store

STALE: Final = Requeue("StaleView")
_BINDING: Final = "resourceclaims/binding"
"""In the text of the 422 by which the API server says that its own permission for reservations is missing."""


async def perform(client: Client, store: Store, claim: Object, plan: Deallocation) -> Object:
    """Do what was decided: the status, then the finalizer; the claim as it is then.  Raises Conflict and NotFound."""
    if plan.status is not None:
        claim = await client.replace(RESOURCE_CLAIMS, _only_status(claim, plan.status), "status")
    if plan.unprotect:
        claim = await _unprotect(client, claim)
    store.assume(claim)
    return claim


async def reserve(client: Client, store: Store, claim: Object, entry: Object) -> Object:
    """Add one entry, whatever was added meanwhile; the claim as it is then.

    Raises NotFound, Conflict when another claim has the name, and Invalid when it is not allocated, is being deleted
    or is full.
    """
    body = {"metadata": {"uid": uid_of(claim)}, "status": {"reservedFor": [entry]}}
    key = key_of(claim)
    reserved = await client.patch(
        RESOURCE_CLAIMS,
        key.name,
        body,
        namespace=key.namespace,
        patch_type=PatchType.STRATEGIC,
        subresource="status",
        field_manager=wellknown.RESERVATIONS_FIELD_MANAGER,
    )
    store.assume(reserved)
    return reserved


def outcome_of(error: ApiError) -> Outcome:
    """What a refused write means for its key: gone, or decided on an old view.  Raises what is neither."""
    if isinstance(error, NotFound):
        return DONE
    if isinstance(error, Conflict) or (isinstance(error, Invalid) and _is_another(error)):
        return STALE
    raise error


def is_denied(error: ApiError) -> bool:
    """Whether it is the right to write that is missing, by RBAC or, from 1.36 on, by validation of the status."""
    return isinstance(error, Forbidden) or _BINDING in error.message


def _is_another(error: Invalid) -> bool:
    """Whether a patch with `metadata.uid` met another object of that name."""
    return any(cause.get("field") == "metadata.uid" for cause in error.causes)


def _only_status(claim: Object, status: Object) -> Object:
    """What a PUT of the status reads: the spec and the rest of the metadata are the server's."""
    meta = metadata(claim)
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {name: meta[name] for name in ("namespace", "name", "uid", "resourceVersion")},
        "status": status,
    }


async def _unprotect(client: Client, claim: Object) -> Object:
    meta = metadata(claim)
    others = [each for each in meta.get("finalizers") or () if each != wellknown.DELETE_PROTECTION_FINALIZER]
    body = {"metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "finalizers": others or None}}
    key = key_of(claim)
    return await client.patch(RESOURCE_CLAIMS, key.name, body, namespace=key.namespace, patch_type=PatchType.MERGE)
