"""The garbage collector: dependents go after, before or without their owners, as a deletion asks.

Run by `controllers`, which tells it of every change.  Owners are looked up by uid in storage whenever it matters, so
that no order of events can mislead it.  An owner of a kind that is not served counts as there.
"""

import asyncio
from collections import defaultdict

from tollbar.devplane.embedded.deletion import FOREGROUND, ORPHAN
from tollbar.devplane.embedded.following import Seen
from tollbar.devplane.embedded.writes import Writer
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import Resource

_Place = tuple[Resource, Key]


class Garbage:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._dependents: dict[str, set[_Place]] = defaultdict(set)
        self._places: dict[str, _Place] = {}
        self._queue: asyncio.Queue[_Place] = asyncio.Queue()

    def note(self, stored: Resource, seen: Seen) -> None:
        """A change of anything."""
        place = (stored, seen.key)
        for owner in _owners(seen.before):
            self._dependents.get(owner["uid"], set()).discard(place)
        for owner in _owners(seen.after):
            self._dependents[owner["uid"]].add(place)
        if seen.after is None:
            self._forget(seen.before or {})
            return
        self._places[uid_of(seen.after)] = place
        if _owners(seen.after) or metadata(seen.after).get("deletionTimestamp"):
            self._queue.put_nowait(place)

    def _forget(self, gone: Object) -> None:
        """Look at those that depended on it and at those that waited for its end."""
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
                await self._look_at(stored, obj)

    async def _look_at(self, stored: Resource, obj: Object) -> None:
        finalizers = metadata(obj).get("finalizers") or ()
        if metadata(obj).get("deletionTimestamp") and ORPHAN in finalizers:
            await self._orphan(stored, obj)
        elif metadata(obj).get("deletionTimestamp") and FOREGROUND in finalizers:
            await self._dependents_first(stored, obj)
        elif _owners(obj):
            await self._after_owners(stored, obj)

    async def _orphan(self, stored: Resource, owner: Object) -> None:
        for place, dependent in self._dependents_of(owner):
            await self._disown(place, dependent, {uid_of(owner)})
        await self._release(stored, owner, ORPHAN)

    async def _dependents_first(self, stored: Resource, owner: Object) -> None:
        blocking = [
            (place, dependent)
            for place, dependent in self._dependents_of(owner)
            if any(each["uid"] == uid_of(owner) and each.get("blockOwnerDeletion") for each in _owners(dependent))
        ]
        for place, dependent in blocking:
            if not metadata(dependent).get("deletionTimestamp"):
                await self._writer.delete(place, dependent, propagationPolicy="Foreground")
        if not blocking:
            await self._release(stored, owner, FOREGROUND)

    async def _after_owners(self, stored: Resource, obj: Object) -> None:
        gone = {each["uid"] for each in _owners(obj) if self._is_gone(each, metadata(obj).get("namespace") or "")}
        if not gone:
            return
        if len(gone) == len(_owners(obj)):
            if not metadata(obj).get("deletionTimestamp"):
                await self._writer.delete(stored, obj, propagationPolicy="Background")
        else:
            await self._disown(stored, obj, gone)

    def _is_gone(self, owner: Object, namespace: str) -> bool:
        kind = self._writer.registry.kinds.of(owner["apiVersion"], owner["kind"])
        if kind is None or (kind.resource.namespaced and not namespace):
            return False
        found = self._writer.get(kind.stored, Key(namespace if kind.resource.namespaced else "", owner["name"]))
        return found is None or uid_of(found) != owner["uid"]

    def _dependents_of(self, owner: Object) -> list[tuple[Resource, Object]]:
        """Of its own namespace, when it is in one."""
        namespace, known = key_of(owner).namespace, self._dependents.get(uid_of(owner), set())
        places = sorted((place for place in known if namespace in ("", place[1].namespace)), key=str)
        return [(stored, obj) for stored, key in places if (obj := self._writer.get(stored, key)) is not None]

    async def _disown(self, stored: Resource, obj: Object, uids: set[str]) -> None:
        def without(found: Object) -> Object:
            kept = [each for each in _owners(found) if each["uid"] not in uids]
            return {"metadata": {"ownerReferences": kept or None}}

        await self._writer.edit(stored, obj, without)

    async def _release(self, stored: Resource, obj: Object, finalizer: str) -> None:
        await self._writer.edit(stored, obj, lambda found: without_finalizer(found, finalizer))


def without_finalizer(obj: Object, finalizer: str) -> Object | None:
    """The merge patch that takes one away; None when it is not there."""
    there = metadata(obj).get("finalizers") or []
    kept = [each for each in there if each != finalizer]
    return None if kept == there else {"metadata": {"finalizers": kept or None}}


def _owners(obj: Object | None) -> list[Object]:
    return metadata(obj or {}).get("ownerReferences") or []
