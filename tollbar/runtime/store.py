"""A cache of one kind: the objects, their indexes, and who wants to hear about changes.

Written by one reflector (and, for its own updates, by a controller through `assume`); read by everything on the event
loop.  Everything here is synchronous, so a reader never sees half a change.

Invariants: stored objects are never mutated; the watch's order is the truth, except that nothing older than an assumed
update is taken, nor that update a second time; a handler hears of each change once, after store and indexes have it; an
object of the same name with another uid is a deletion and an addition.

Hazard: while its reflector is down the store keeps answering with the last known state.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tollbar.model import resourceversion
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import Resource

_log: Final = logging.getLogger(__name__)
_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Delta:
    """One change: addition (no old), update or deletion (no new).  `initial` when a list found it, not a watch."""

    old: Object | None
    new: Object | None
    initial: bool


Projection: TypeAlias = Callable[[Object], Object]
Indexer: TypeAlias = Callable[[Object], Iterable[Hashable]]
Handler: TypeAlias = Callable[[Delta], None]


def drop_managed_fields(obj: Object) -> Object:
    """The object without `metadata.managedFields`, a good part of its bytes, by which nobody decides."""
    meta = metadata(obj)
    if "managedFields" not in meta:
        return obj
    return {**obj, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}


class Store:
    """Objects by key.  `project` decides what is kept of each: at least its identity and resourceVersion."""

    def __init__(
        self,
        resource: Resource,
        *,
        project: Projection = drop_managed_fields,
        indexers: Mapping[str, Indexer] | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.resource_version = ""
        """How far list and watch have come; empty when a list is due."""
        self._project = project
        self._indexers = dict(indexers or {})
        self._objects: dict[Key, Object] = {}
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in self._indexers}
        self._assumed: dict[Key, int] = {}
        self._handlers: list[Handler] = []

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def keys(self) -> Iterator[Key]:
        """Only to be walked without awaiting."""
        return iter(self._objects)

    def values(self) -> list[Object]:
        return list(self._objects.values())

    def by_index(self, name: str, value: Hashable) -> list[Object]:
        """The objects for which the indexer of this name yields the value.  KeyError for an unknown index."""
        return [self._objects[key] for key in self._indexes[name].get(value, ())]

    def subscribe(self, handler: Handler, *, replay: bool = True) -> None:
        """Call the handler with every change from now on, and at once with what is there, as initial additions.

        Without `replay`, with changes only.  Handlers are quick and do not write to the store.  One that raises is
        logged and the others go on.
        """
        self._handlers.append(handler)
        for obj in self.values() if replay else ():
            self._call(handler, Delta(None, obj, initial=True))

    def apply(self, obj: Object, *, initial: bool = False) -> None:
        """Add or update, from a list or a watch.  What is not newer than an assumed update is ignored."""
        key = key_of(obj)
        if key in self._assumed and not self._is_news(key, obj):
            return
        self._set(key, obj, initial=initial)

    def remove(self, obj: Object) -> None:
        """The watch says that this object left the set.  Ignored when the store has another one of that name."""
        key = key_of(obj)
        held = self._objects.get(key)
        if held is not None and uid_of(held) == uid_of(obj):
            self._drop(key, held, initial=False)

    def assume(self, obj: Object) -> None:
        """Take the answer to an update of our own before the watch confirms it.

        Ignored unless it is newer than what is held of that object.  It never adds an object: one that has left the
        selector of this store would stay for ever, since no event tells about it any more.
        """
        key = key_of(obj)
        held = self._objects.get(key)
        if held is None or uid_of(held) != uid_of(obj) or _version(obj) <= _version(held):
            return
        self._assumed[key] = _version(obj)
        self._set(key, obj, initial=False)

    def forget_assumed(self) -> None:
        """Take whatever comes next: in another version of the API the same resourceVersion says other things."""
        self._assumed.clear()

    def replace(self, objects: Iterable[Object], resource_version: str = "") -> None:
        """Make the store equal to a complete list, as a relist does it page by page."""
        seen: set[Key] = set()
        for obj in objects:
            seen.add(key_of(obj))
            self.apply(obj, initial=True)
        for key in self.absent(seen):
            self.discard(key)
        self.resource_version = resource_version
        self.synced.set()

    def absent(self, seen: Collection[Key]) -> list[Key]:
        """What is held but was not in a complete list."""
        return [key for key in self._objects if key not in seen]

    def discard(self, key: Key) -> None:
        """A list showed that it is gone."""
        held = self._objects.get(key)
        if held is not None:
            self._drop(key, held, initial=True)

    def _drop(self, key: Key, held: Object, *, initial: bool) -> None:
        self._assumed.pop(key, None)
        self._change(key, held, None, initial=initial)

    def _is_news(self, key: Key, obj: Object) -> bool:
        """Whether it says more than the update that was assumed; that one is over when list or watch have caught up."""
        version, assumed = _version(obj), self._assumed[key]
        if version >= assumed:
            del self._assumed[key]
        return version > assumed  # one resourceVersion is one state: an equal one is held already

    def _set(self, key: Key, obj: Object, *, initial: bool) -> None:
        held = self._objects.get(key)
        new = self._project(obj)
        if held is not None and uid_of(held) != uid_of(new):
            self._change(key, held, None, initial=initial)
            held = None
        if held is not None and _same(held, new):
            self._objects[key] = new
            return
        self._change(key, held, new, initial=initial)

    def _change(self, key: Key, old: Object | None, new: Object | None, *, initial: bool) -> None:
        self._reindex(key, old, new)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        if self._handlers:
            delta = Delta(old, new, initial)
            for handler in self._handlers:
                self._call(handler, delta)

    def _reindex(self, key: Key, old: Object | None, new: Object | None) -> None:
        for name, indexer in self._indexers.items():
            listed, relisted = (list(indexer(obj)) if obj is not None else [] for obj in (old, new))
            if listed == relisted:
                continue
            before, after = set(listed), set(relisted)
            index = self._indexes[name]
            for value in before - after:
                del index[value][key]
                if not index[value]:
                    del index[value]
            for value in after - before:
                index.setdefault(value, {})[key] = None

    def _call(self, handler: Handler, delta: Delta) -> None:
        try:
            handler(delta)
        except Exception:
            _log.exception("a handler failed", extra={"kind": self.resource.kind})


def _same(old: Object, new: Object) -> bool:
    """Whether nothing but the resourceVersion differs."""
    old_meta, new_meta = metadata(old), metadata(new)
    if len(old) != len(new) or len(old_meta) != len(new_meta):
        return False
    for name, value in new_meta.items():
        if name != "resourceVersion" and old_meta.get(name, _MISSING) != value:
            return False
    return all(name == "metadata" or old.get(name, _MISSING) == value for name, value in new.items())


def _version(obj: Object) -> int:
    return resourceversion.number(metadata(obj).get("resourceVersion") or "") or 0
