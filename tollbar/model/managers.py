"""Who wrote what, as `metadata.managedFields` of an object says (server-side apply, KEP-555).

The API server records it with every write, in that same write: what it says needs nobody's memory.  Called by
decisions and the command line, and by the caches, which keep no more of managedFields than is read here.
"""

from functools import lru_cache

from tollbar import wellknown
from tollbar.model import claims
from tollbar.model.objects import Object, metadata


def creator(obj: Object) -> str:
    """The field manager that wrote `spec`; of a kind whose spec cannot be changed, whoever created the object.

    Empty when nothing says so.
    """
    for entry in _entries(obj):
        if "f:spec" in (entry.get("fieldsV1") or {}):
            return str(entry.get("manager"))
    return ""


def status_writer(obj: Object, field: str) -> str:
    """The field manager that wrote this member of `status`; empty when nothing says so."""
    for entry in _entries(obj):
        if f"f:{field}" in ((entry.get("fieldsV1") or {}).get("f:status") or {}):
            return str(entry.get("manager"))
    return ""


def reserved_by_us(claim: Object) -> list[str]:
    """Uids of the entries of a claim's `status.reservedFor` that we added for workloads.

    Under any name of ours, since it has changed: what else we write there are entries of Pods and PodGroups.
    """
    uids = [str(entry.get("uid")) for entry in claims.reserved_for(claim) if not claims.is_upstream_entry(entry)]
    if not uids:
        return uids
    written: set[str] = set()
    for entry in _entries(claim):
        if str(entry.get("manager")).startswith(wellknown.FIELD_MANAGER_PREFIX):
            status = (entry.get("fieldsV1") or {}).get("f:status") or {}
            written.update(status.get("f:reservedFor") or ())
    return [uid for uid in uids if _path(uid) in written]


def essential(claim: Object) -> list[Object]:
    """The managedFields of a claim, as far as `creator` and `reserved_by_us` read them."""
    name = creator(claim)
    kept = [_created_by(name)] if name else []
    if ours := reserved_by_us(claim):
        fields: Object = {"f:status": {"f:reservedFor": {_path(uid): {} for uid in ours}}}
        kept.append({"manager": wellknown.RESERVATIONS_FIELD_MANAGER, "fieldsV1": fields})
    return kept


@lru_cache(maxsize=128)
def _created_by(manager: str) -> Object:
    """One for all claims that somebody created."""
    return {"manager": manager, "fieldsV1": {"f:spec": {}}}


def _path(uid: str) -> str:
    """How FieldsV1 names the element of a list that is a map by uid."""
    return f'k:{{"uid":"{uid}"}}'


def _entries(obj: Object) -> list[Object]:
    return metadata(obj).get("managedFields") or []
