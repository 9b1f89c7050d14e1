"""Which field manager wrote what, from `metadata.managedFields` (server-side apply, KEP-555).

The API server records it in the same write, so that it is known after any restart.
"""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from tollbar import wellknown
from tollbar.model import claims
from tollbar.model.objects import Object, annotations_of, metadata


def creator(obj: Object) -> str:
    """The field manager that wrote `spec`, which created the object if its kind has an immutable spec.

    Empty when managedFields name none.
    """
    for entry in _entries(obj):
        if "f:spec" in (entry.get("fieldsV1") or {}):
            return str(entry.get("manager"))
    return ""


def status_writer(obj: Object, field: str) -> str:
    """The field manager that wrote this member of `status`; empty when managedFields name none."""
    for entry in _entries(obj):
        if f"f:{field}" in ((entry.get("fieldsV1") or {}).get("f:status") or {}):
            return str(entry.get("manager"))
    return ""


def is_applied(obj: Object, *path: str) -> bool:
    """Whether somebody applies this field, such as `spec`, `tolerations`.

    Server-side, by an entry of managedFields with the operation Apply, or with `kubectl apply`, which keeps in an
    annotation what it has applied last; anybody may write anything there.
    """
    fields = [f"f:{name}" for name in path]
    server_side = (each.get("fieldsV1") for each in _entries(obj) if each.get("operation") == "Apply")
    return any(_at(each, fields) is not None for each in server_side) or _at(_last_applied(obj), path) is not None


def _at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _last_applied(obj: Object) -> Any:
    try:
        return json.loads(annotations_of(obj).get(wellknown.LAST_APPLIED_ANNOTATION) or "null")
    except (TypeError, ValueError, RecursionError):
        return None


def reserved_by_us(claim: Object) -> list[str]:
    """Uids of the entries of a claim's `status.reservedFor` that Tollbar added for workloads.

    Any field manager with Tollbar's prefix counts: older versions wrote under other names.  Entries of Pods and
    PodGroups are left out, since Kubernetes adds such entries too.
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


def reduced(claim: Object) -> list[Object]:
    """The managedFields of a claim without what `creator` and `reserved_by_us` do not read, for caches."""
    name = creator(claim)
    kept = [_created_by(name)] if name else []
    if ours := reserved_by_us(claim):
        fields: Object = {"f:status": {"f:reservedFor": {_path(uid): {} for uid in ours}}}
        kept.append({"manager": wellknown.RESERVATIONS_FIELD_MANAGER, "fieldsV1": fields})
    return kept


@lru_cache(maxsize=128)
def _created_by(manager: str) -> Object:
    """The same object for all claims that a manager created, to save memory.  Never mutated."""
    return {"manager": manager, "fieldsV1": {"f:spec": {}}}


def _path(uid: str) -> str:
    """The FieldsV1 key of the element with this uid, in a list with the map key `uid`."""
    return f'k:{{"uid":"{uid}"}}'


def _entries(obj: Object) -> list[Object]:
    return metadata(obj).get("managedFields") or []
