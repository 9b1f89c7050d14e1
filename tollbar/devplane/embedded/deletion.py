"""DELETE of one object or of a collection: preconditions, grace period, finalizers, propagation policy.

The garbage collector deletes dependents; the propagation policy reaches it as a finalizer.
"""

import http.client
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tollbar.devplane.embedded import conversion, errors
from tollbar.devplane.embedded.errors import SUCCESS, Refused
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.registry import Outcome, Registry, ended
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.storage import Clash, Entry
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES, PODS

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"


async def delete(registry: Registry, write: Write, wanted: Object) -> Outcome:
    """`wanted` is a DeleteOptions object.  The outcome is a Status, or the object if its removal has to wait."""
    options = replace(write.options, raw={"kind": "DeleteOptions", **wanted})
    write = replace(write, operation="DELETE", options=options)
    while True:
        entry = registry.entry(write.kind, write.key)
        old = conversion.decoded(write.kind, entry)
        _check_preconditions(write.kind, old, wanted.get("preconditions") or {})
        _, warnings = await registry.admission.mutate(write, {}, old)
        warnings += await registry.admission.validate(write, {}, old)
        try:
            return Outcome(_delete(registry, write, entry, old, wanted), warnings=warnings)
        except Clash:
            continue


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


def _delete(registry: Registry, write: Write, entry: Entry, old: Object, wanted: Object) -> Object:
    """Set the deletionTimestamp, or remove the object.  Raises Clash."""
    kind, meta = write.kind, dict(old["metadata"])
    grace, had = kind.strategy.grace(old, wanted.get("gracePeriodSeconds")), meta.get("deletionGracePeriodSeconds", 0)
    finalizers, policy = meta.pop("finalizers", None) or [], wanted.get("propagationPolicy")
    if policy is not None:
        finalizers = [name for name in finalizers if name not in (ORPHAN, FOREGROUND)]
        finalizers += {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(policy, [])
    if "deletionTimestamp" not in meta and meta.get("generation"):
        meta["generation"] += 1
    if "deletionTimestamp" not in meta or grace < had:
        meta["deletionTimestamp"] = timestamps.time(registry.clock.now() + grace)
        meta["deletionGracePeriodSeconds"] = grace
    new = {**old, "metadata": {**meta, **({"finalizers": finalizers} if finalizers else {})}}
    if kind.resource == NAMESPACES:
        new["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
    if not write.options.dry_run and new != old:
        new = registry.commit(kind, entry, new)
    if ended(new):
        return old if kind.resource == PODS else _status(kind, old)
    return new


def _status(kind: Kind, obj: Object) -> Object:
    """The Status of a deletion that is complete."""
    res, meta = kind.resource, obj["metadata"]
    details = {"name": meta["name"], **({"group": res.group} if res.group else {}), "kind": res.plural}
    return {**SUCCESS, "details": {**details, "uid": meta["uid"]}}


async def delete_all(registry: Registry, writes: Iterable[Write], wanted: Object) -> Outcome:
    """DELETE of a collection, one object after the other; one that is gone meanwhile is no error."""
    outcome = Outcome(dict(SUCCESS))
    for write in writes:
        try:
            outcome.warnings += (await delete(registry, write, wanted)).warnings
        except Refused as refused:
            if refused.code != http.client.NOT_FOUND:
                raise
    return outcome
