"""DELETE of one object or of many: preconditions, grace, finalizers, what dependents are left with.

Called by the server and the controllers.  Dependents are the garbage collector's business: this only leaves it the
finalizer that says what is wanted.
"""

import http.client
from collections.abc import Sequence
from typing import Final

from tollbar.devplane.embedded import errors, registry, versions
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.registry import Options, Outcome, Registry
from tollbar.devplane.embedded.requests import Attributes, User
from tollbar.devplane.embedded.storage import Clash, Entry
from tollbar.model import timestamps
from tollbar.model.objects import Key, Object
from tollbar.runtime.resources import NAMESPACES, PODS

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
_FINALIZERS: Final = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


async def delete(registry_: Registry, kind: Kind, key: Key, wanted: Object, user: User, options: Options) -> Outcome:
    """`wanted` is a DeleteOptions object.  Answers with a Status, or with the object when its end has to wait."""
    while True:
        entry = registry_.entry(kind, key)
        old = versions.decoded(kind, entry)
        _check_preconditions(kind, old, wanted.get("preconditions") or {})
        attributes = Attributes(
            "DELETE", kind, key.namespace, key.name, user, "", options.dry_run, {"kind": "DeleteOptions", **wanted}
        )
        _, warnings = await registry_.admission.mutate(attributes, {}, old)
        warnings += await registry_.admission.validate(attributes, {}, old)
        try:
            found = _delete(registry_, kind, entry, old, wanted, dry_run=options.dry_run)
        except Clash:
            continue
        return Outcome(found, warnings=warnings)


def _check_preconditions(kind: Kind, obj: Object, wanted: Object) -> None:
    meta = obj["metadata"]
    for member, field, happened in (
        ("UID", "uid", "deleted and then recreated"),
        ("ResourceVersion", "resourceVersion", "modified"),
    ):
        if wanted.get(field) and wanted[field] != meta[field]:
            why = (
                f"the {member} in the precondition ({wanted[field]}) does not match the {member} in record"
                f" ({meta[field]}). The object might have been {happened}"
            )
            raise errors.conflict("", kind.resource.kind, meta["name"], why)


def _delete(registry_: Registry, kind: Kind, entry: Entry, old: Object, wanted: Object, *, dry_run: bool) -> Object:
    """Mark or remove.  Raises Clash."""
    grace = kind.strategy.grace(old, wanted.get("gracePeriodSeconds"))
    meta = dict(old["metadata"])
    finalizers = [name for name in meta.get("finalizers") or () if name not in _FINALIZERS.values()]
    if (policy := wanted.get("propagationPolicy")) in _FINALIZERS:
        finalizers.append(_FINALIZERS[policy])
    elif policy is None:
        finalizers = list(meta.get("finalizers") or ())
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = timestamps.time(registry_.clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
        if meta.get("generation"):
            meta["generation"] += 1
    elif grace < meta.get("deletionGracePeriodSeconds", 0):
        meta["deletionTimestamp"] = timestamps.time(registry_.clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
    meta.pop("finalizers", None)
    new = {**old, "metadata": {**meta, **({"finalizers": finalizers} if finalizers else {})}}
    if kind.resource == NAMESPACES:
        new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    if not dry_run and new != old:
        new = registry_.commit(kind, entry, new)
    if registry.ended(new):
        return old if kind.resource == PODS else _status(kind, old)
    return new


def _status(kind: Kind, obj: Object) -> Object:
    """The answer to a deletion that is done."""
    res = kind.resource
    details = {"name": obj["metadata"]["name"], "group": res.group, "kind": res.plural, "uid": obj["metadata"]["uid"]}
    found = {key: value for key, value in details.items() if value}
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": found}


async def delete_all(
    registry_: Registry, kind: Kind, keys: Sequence[Key], wanted: Object, user: User, options: Options
) -> Outcome:
    """DELETE of a collection: one after the other; who is gone meanwhile is no failure."""
    outcome = Outcome({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
    for key in keys:
        try:
            outcome.warnings += (await delete(registry_, kind, key, wanted, user, options)).warnings
        except Refused as refused:
            if refused.code != http.client.NOT_FOUND:
                raise
    return outcome
