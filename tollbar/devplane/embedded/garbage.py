"""The garbage collector: deletes the dependents of deleted owners, by the propagation policy of the deletion.

Owners are looked up in storage each time, so that the order of events does not matter.  An owner of a kind that is not
served counts as existing.
"""

import asyncio
from collections import defaultdict

from tollbar.devplane.embedded.deletion import FOREGROUND, ORPHAN
from tollbar.devplane.embedded.storage import Delta
from tollbar.devplane.embedded.writes import Writer
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import Resource

_Place = tuple[Resource, Key]


class GarbageCollector:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._dependents: dict[str, set[_Place]] = defaultdict(set)
        self._places: dict[str, _Place] = {}
        self._queue: asyncio.Queue[_Place] = asyncio.Queue()

    def observe(self, stored: Resource, delta: Delta) -> None:
        """A change of anything."""
        place = (stored, delta.key)
        for owner in _owners(delta.before):
            self._dependents.get(owner["uid"], set()).discard(place)
        for owner in _owners(delta.after):
            self._dependents[owner["uid"]].add(place)
        if delta.after is None:
            self._forget(delta.before or {})
            return
        self._places[uid_of(delta.after)] = place
        if _owners(delta.after) or metadata(delta.after).get("deletionTimestamp"):
            self._queue.put_nowait(place)

    def _forget(self, gone: Object) -> None:
        """Queue its dependents, and the owners that wait for its end."""
        self._places.pop(uid_of(gone), None)
        for place in self._dependents.pop(uid_of(gone), ()):
            self._queue.put_nowait(place)
        for owner in _owners(gone):
            if owner["uid"] in self._places:
                self._queue.put_nowait(self._places[owner["uid"]])

    async def run(self) -> None:
        while True:
            stored, key = await self._queue.get()
            obj = self._writer.get(stored, key)
            if obj is not None:
                await self._reconcile(stored, obj)

    async def _reconcile(self, stored: Resource, obj: Object) -> None:
        finalizers = metadata(obj).get("finalizers") or ()
        if metadata(obj).get("deletionTimestamp") and ORPHAN in finalizers:
            await self._orphan(stored, obj)
        elif metadata(obj).get("deletionTimestamp") and FOREGROUND in finalizers:
            await self._delete_dependents(stored, obj)
        elif _owners(obj):
            await self._delete_if_orphaned(stored, obj)

    async def _orphan(self, stored: Resource, owner: Object) -> None:
        for place, dependent in self._dependents_of(owner):
            await self._remove_owners(place, dependent, {uid_of(owner)})
        await self._remove_finalizer(stored, owner, ORPHAN)

    async def _delete_dependents(self, stored: Resource, owner: Object) -> None:
        blocking = [
            (place, dependent)
            for place, dependent in self._dependents_of(owner)
            if any(each["uid"] == uid_of(owner) and each.get("blockOwnerDeletion") for each in _owners(dependent))
        ]
        for place, dependent in blocking:
            if not metadata(dependent).get("deletionTimestamp"):
                await self._writer.delete(place, dependent, propagationPolicy="Foreground")
        if not blocking:
            await self._remove_finalizer(stored, owner, FOREGROUND)

    async def _delete_if_orphaned(self, stored: Resource, obj: Object) -> None:
        gone = {each["uid"] for each in _owners(obj) if self._is_gone(each, metadata(obj).get("namespace") or "")}
        if not gone:
            return
        if len(gone) == len(_owners(obj)):
            if not metadata(obj).get("deletionTimestamp"):
                await self._writer.delete(stored, obj, propagationPolicy="Background")
        else:
            await self._remove_owners(stored, obj, gone)

    def _is_gone(self, owner: Object, namespace: str) -> bool:
        kind = self._writer.registry.kinds.of(owner["apiVersion"], owner["kind"])
        if kind is None or (kind.resource.namespaced and not namespace):
            return False
        found = self._writer.get(kind.stored, Key(namespace if kind.resource.namespaced else "", owner["name"]))
        return found is None or uid_of(found) != owner["uid"]

    def _dependents_of(self, owner: Object) -> list[tuple[Resource, Object]]:
        """The dependents in the owner's namespace, or in all namespaces for a cluster-scoped owner."""
        namespace, known = key_of(owner).namespace, self._dependents.get(uid_of(owner), set())
        places = sorted((place for place in known if namespace in ("", place[1].namespace)), key=str)
        return [(stored, obj) for stored, key in places if (obj := self._writer.get(stored, key)) is not None]

    async def _remove_owners(self, stored: Resource, obj: Object, uids: set[str]) -> None:
        def without(found: Object) -> Object:
            kept = [each for each in _owners(found) if each["uid"] not in uids]
            return {"metadata": {"ownerReferences": kept or None}}

        await self._writer.edit(stored, obj, without)

    async def _remove_finalizer(self, stored: Resource, obj: Object, finalizer: str) -> None:
        await self._writer.edit(stored, obj, lambda found: without_finalizer(found, finalizer))


def without_finalizer(obj: Object, finalizer: str) -> Object | None:
    """The merge patch that removes a finalizer; None when the object does not have it."""
    there = metadata(obj).get("finalizers") or []
    kept = [each for each in there if each != finalizer]
    return None if kept == there else {"metadata": {"finalizers": kept or None}}


def _owners(obj: Object | None) -> list[Object]:
    return metadata(obj or {}).get("ownerReferences") or []
