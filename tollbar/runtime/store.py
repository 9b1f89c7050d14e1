"""A cache of one kind: its objects, their indexes, and handlers for changes.

One reflector fills it; `assume` adds what this process wrote itself.  Everything here is synchronous, so a reader never
sees half a change.

Of an assumed object the store holds two versions, as kube-scheduler's assume cache does: the latest, which is read, and
the one that list and watch showed last (the API version), to which `restore` goes back.  Where the latest is a change
in memory of an answer that they have yet to show, the store holds that answer, too.  What is equal in these versions is
kept once, and where the latest is a stub, so are the others.

Invariants: stored objects are never mutated; events are applied in the order of the watch, except those that are not
newer than an assumed version; handlers are called once for each change, after store and indexes have it; an object of
the same name with another uid is a deletion and an addition; what makes stubs (`Keep.most`) takes no more memory than
the store's budget leaves it.

Hazards: while its reflector is interrupted the store returns the last known state.  Where objects are packed or flat
(`tollbar.runtime.packed`, `tollbar.runtime.flattened`), every object is decoded when it is read, unless it was the last
one that was read: ask for keys where keys will do.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, MutableMapping, Set
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from tollbar.model import resourceversion
from tollbar.model.flat import Flat
from tollbar.model.objects import Key, Object, is_stub, key_of, metadata, uid_of
from tollbar.model.resources import Resource
from tollbar.runtime.budget import Budget
from tollbar.runtime.flattened import Flattened
from tollbar.runtime.packed import Packed, created_at
from tollbar.runtime.projection import UNCOUNTED, Keep, Projection, Weight, drop_managed_fields
from tollbar.runtime.source import Channel, Delta

_MISSING: Final = object()
_NO_KEYS: Final[dict[Key, None]] = {}

Indexer: TypeAlias = Callable[[Object], Iterable[Hashable]]


@dataclass(slots=True)
class _Assumed:
    """What is assumed of an object: which version the store has, and the earlier ones, projected, to go back to."""

    version: int
    """The resourceVersion of the one that the store has, the latest."""
    written: bool
    """Whether the API server has the latest; otherwise it is a change in memory that is yet to be written."""
    api: Object | None
    """The one that list and watch showed last; None for what this process created and they have yet to show."""
    created: int = 0
    """The resourceVersion with which this process created it; 0 when list or watch had shown it before."""
    answer: Object | None = None
    """The one that the API server has, where the latest is a change in memory of an answer that is yet to be shown."""


class Store:
    """Objects by key.

    `project` keeps of each object at least its identity and resourceVersion.  Only objects that `accepts` lets in are
    stored; one that it no longer accepts is removed.  With `alike` they are packed, and it is equal for those of which
    the text is much alike; with `flat`, those of which it returns something are kept as that.  Where `project` makes
    stubs, all that is kept counts in `budget`; without one, only what is too large by itself becomes a stub.
    """

    def __init__(
        self,
        resource: Resource,
        *,
        project: Projection = drop_managed_fields,
        indexers: Mapping[str, Indexer] | None = None,
        accepts: Callable[[Object], bool] | None = None,
        alike: Callable[[Object], Hashable] | None = None,
        flat: Callable[[Object], Flat | None] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.resource_version = ""
        """The latest resourceVersion of list and watch; empty when a list is due."""
        self.served = True
        """Whether the API server serves this API in a version that is read; otherwise the store is empty and synced."""
        self.stubs = 0
        """Objects of which the store has only a stub."""
        self._project = project
        self._budget = budget or Budget()
        self._limiting = _limiting(project)
        """The projection, if it makes stubs."""
        self._accepts = accepts
        self._indexers = dict(indexers or {})
        self._objects: MutableMapping[Key, Object] = {}
        if alike is not None:
            self._objects = Packed(alike)
        elif flat is not None:
            self._objects = Flattened(flat)
        self._indexes: dict[str, dict[Hashable, dict[Key, None]]] = {name: {} for name in self._indexers}
        self._assumed: dict[Key, _Assumed] = {}
        self._changes: Channel[Delta] = Channel(resource.kind)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> Object | None:
        return self._objects.get(key)

    def keys(self) -> Iterator[Key]:
        """Iterate over them without awaiting."""
        return iter(self._objects)

    def values(self) -> list[Object]:
        return list(self._objects.values())

    def by_index(self, name: str, value: Hashable) -> list[Object]:
        """The objects for which the indexer of this name yields the value.  KeyError for an unknown index."""
        return [self._objects[key] for key in self.keys_by_index(name, value)]

    def keys_by_index(self, name: str, value: Hashable) -> Set[Key]:
        """Their keys.  Iterate over them without awaiting."""
        return self._indexes[name].get(value, _NO_KEYS).keys()

    def values_of_index(self, name: str) -> Set[Any]:
        """What the indexer of this name yields for the stored objects.  Iterate over them without awaiting."""
        return self._indexes[name].keys()

    def created(self, key: Key) -> float:
        """When the stored object was created, in epoch seconds; infinity where it does not say."""
        objects = self._objects
        return objects.created(key) if isinstance(objects, Packed) else created_at(objects[key])

    def widen(self, project: Projection, indexers: Mapping[str, Indexer]) -> None:
        """Also keep what this projection keeps, and add these indexes.

        Raises ValueError when there are objects already, or when the two projections cannot be united.
        """
        if self._objects:
            raise ValueError(f"the store of {self.resource.plural} is in use")
        if isinstance(project, Keep) and isinstance(self._project, Keep):
            self._project = self._project | project
        elif project != self._project:
            raise ValueError(f"two projections of {self.resource.plural}")
        self._limiting = _limiting(self._project)
        self._indexers.update(indexers)
        self._indexes = {name: {} for name in self._indexers}

    def subscribe(self, handler: Callable[[Delta], None]) -> None:
        """Call the handler with every change from now on.  It must return quickly and not write to the store."""
        self._changes.subscribe(handler)

    def replay(self, handler: Callable[[Delta], None]) -> None:
        """Call the handler with every stored object, as initial additions."""
        for key in list(self._objects):
            self._changes.call(handler, Delta(None, self._objects[key], initial=True))

    def apply(self, obj: Object, *, initial: bool = False) -> None:
        """Add or update an object from a list or a watch, unless it is not newer than an assumed version."""
        key = key_of(obj)
        if self._accepts is not None and not self._accepts(obj):
            self.discard(key)
        elif key not in self._assumed or self._is_newer(key, obj):
            self._set(key, *self._limited(self._kept(obj)), initial=initial)

    def remove(self, obj: Object) -> None:
        """Remove an object after a DELETED event.  Does nothing when the store has another object of that name."""
        key = key_of(obj)
        held = self._objects.get(key)
        if held is not None and uid_of(held) == uid_of(obj):
            self._drop(key, held, initial=False)

    def replace(self, objects: Iterable[Object], resource_version: str = "") -> None:
        """Make the store equal to a complete list."""
        seen: set[Key] = set()
        for obj in objects:
            seen.add(key_of(obj))
            self.apply(obj, initial=True)
        for key in self.absent(seen, resource_version):
            self.discard(key)
        self.resource_version = resource_version
        self.synced.set()

    def absent(self, seen: Collection[Key], resource_version: str) -> list[Key]:
        """The stored objects that a complete list of this version lacks, except those created after it."""
        version = resourceversion.number(resource_version) or 0
        return [
            key
            for key in self._objects
            if key not in seen and (key not in self._assumed or self._assumed[key].created <= version)
        ]

    def discard(self, key: Key) -> None:
        """Remove an object that a complete list lacks, or that `accepts` no longer lets in."""
        held = self._objects.get(key)
        if held is not None:
            self._drop(key, held, initial=True)

    def assume(self, obj: Object, *, created: bool = False) -> None:
        """Store the answer to a write of this process before the watch confirms it.

        Does nothing when the stored object is newer, or a stub of this version, which a list brings back; any other one
        of this version is a change in memory that is about to be written.  An object that is not stored is added only
        when this process has just `created` it: any other has left the selector or was deleted, and no event would ever
        remove it.
        """
        key = key_of(obj)
        held, version = self._objects.get(key), _version(obj)
        if held is None:
            is_over = version < (resourceversion.number(self.resource_version) or 0)
            if not created or is_over or (self._accepts is not None and not self._accepts(obj)):
                return
            new, weight = self._limited(self._kept(obj))
            self._assumed[key] = _Assumed(version, written=True, api=None, created=version)
        elif uid_of(held) != uid_of(obj) or version < _version(held):
            return
        else:
            written = version > _version(held)
            kept = self._kept(obj)
            if not written and (is_stub(held) or _same(held, kept)):
                return
            new, weight = self._limited(kept)
            if self._limiting is not None:
                new = _sharing_parts(new, held)
            before = self._assumed.setdefault(key, _Assumed(version, written, held))
            if written:
                before.answer = None
            elif before.written and before.version == version:
                before.answer = held
            before.version, before.written = version, written
        self._set(key, new, weight, initial=False)

    def is_ahead(self, key: Key) -> bool:
        """Whether this version is an answer of the API server that list and watch have yet to show."""
        return key in self._assumed and self._assumed[key].written

    def restore(self, key: Key) -> None:
        """Drop the assumed version of this object and go back to the one that list and watch showed last.

        A change in memory of an answer that they are yet to show goes back to that answer.
        """
        assumed = self._assumed.pop(key, None)
        if assumed is None:
            return
        if assumed.answer is not None:
            self._assumed[key] = _Assumed(assumed.version, written=True, api=assumed.api, created=assumed.created)
            self._go_back(key, assumed.answer)
        elif assumed.api is not None:
            self._go_back(key, assumed.api)
        else:
            self._drop(key, self._objects[key], initial=False)

    def forget_assumed(self) -> None:
        """Accept every next event, because in another API version the same resourceVersion has other contents."""
        self._assumed.clear()

    def leave_out(self, key: Key) -> None:
        """Keep only a stub of this object, until it comes again and there is room for it."""
        if self._limiting is not None:
            held = self._objects[key]
            self._change(key, held, self._limiting.stub(held), initial=False)

    @property
    def would_keep_more(self) -> bool:
        """Whether there is room by now for an object that was left out, so that another list would bring it back."""
        return self._budget.would_keep_more(self)

    def _kept(self, obj: Object) -> Object:
        """As `Keep.kept`, where there is a limit: what is kept of an object unless it is too large."""
        return self._project(obj) if self._limiting is None else self._limiting.kept(obj)

    def _limited(self, kept: Object) -> tuple[Object, Weight]:
        """As `Keep.limited`: what was kept, or its stub if that is too large; and the weight of this."""
        return (kept, UNCOUNTED) if self._limiting is None else self._limiting.limited(kept)

    def _set(self, key: Key, new: Object, weight: Weight, *, initial: bool) -> None:
        """Store what is kept of an object as far as there is room.  What has only another version is no change."""
        held = self._objects.get(key)
        if held is not None and uid_of(held) != uid_of(new):
            self._change(key, held, None, initial=initial)
            held = None
        new = self._fitted(key, new, weight)
        if held is not None and _same(held, new):
            # Others refer to parts of the object that is stored, which an equal copy would keep in memory twice.
            self._objects[key] = {**held, "metadata": metadata(new)}
            return
        try:
            self._change(key, held, new, initial=initial)
        except Exception:  # of an indexer
            if held is None:
                self._budget.forget((self, key))  # or it would be told to leave out what it has not got
            raise

    def _drop(self, key: Key, held: Object, *, initial: bool) -> None:
        self._assumed.pop(key, None)
        self._change(key, held, None, initial=initial)

    def _change(self, key: Key, old: Object | None, new: Object | None, *, initial: bool) -> None:
        """Put the new object in the place of the old one, in indexes and store, and tell the handlers.

        Where the new one is a stub, so are the earlier versions of an assumed object from then on.
        """
        self._reindex(key, old, new)
        is_left_out = new is not None and is_stub(new)
        self.stubs += is_left_out - (old is not None and is_stub(old))
        if is_left_out:
            self._leave_out_earlier(key)
        if new is None:
            del self._objects[key]
            if self._limiting is not None:
                self._budget.forget((self, key))
        else:
            self._objects[key] = new
        if self._changes:
            self._changes.send(Delta(old, new, initial))

    def _reindex(self, key: Key, old: Object | None, new: Object | None) -> None:
        """All indexers first: where one raises, no index has half a change."""
        values = zip(self._indexes.values(), self._indexed_values(old), self._indexed_values(new), strict=True)
        changed = [(index, set(before), set(after)) for index, before, after in values if before != after]
        for index, before, after in changed:
            for value in before - after:
                del index[value][key]
                if not index[value]:
                    del index[value]
            for value in after - before:
                index.setdefault(value, {})[key] = None

    def _indexed_values(self, obj: Object | None) -> list[list[Hashable]]:
        """What each indexer yields for the object."""
        return [list(indexer(obj)) if obj is not None else [] for indexer in self._indexers.values()]

    def _is_newer(self, key: Key, obj: Object) -> bool:
        """Whether list or watch show a newer version than the assumed one.

        Once they have reached that, nothing is assumed any more; what they show before is kept to go back to.
        """
        version, assumed = _version(obj), self._assumed[key]
        if version > assumed.version or (version == assumed.version and assumed.written):
            del self._assumed[key]
        elif uid_of(obj) == uid_of(self._objects[key]):
            assumed.api = self._earlier(self._project(obj), self._objects[key])
            if assumed.answer is not None and version >= _version(assumed.answer):
                assumed.answer = None
        return version > assumed.version  # an object of the same version is stored already

    def _earlier(self, version: Object, latest: Object) -> Object:
        """What is kept of an earlier version of an assumed object."""
        if self._limiting is None:
            return version
        return self._limiting.stub(version) if is_stub(latest) else _sharing_parts(version, latest)

    def _go_back(self, key: Key, version: Object) -> None:
        """Store this earlier version of an assumed object again, as the one that readers get."""
        held = self._objects[key]
        if is_stub(held) and is_stub(version):  # it is left out, and counts as that
            self._change(key, held, version, initial=False)
        else:
            weight = UNCOUNTED if self._limiting is None else self._limiting.weigh(version)
            self._set(key, version, weight, initial=False)

    def _fitted(self, key: Key, new: Object, weight: Weight) -> Object:
        """The object, or its stub where the budget has no room for it; others may become stubs to make room."""
        limiting, fitted = self._limiting, new
        if limiting is None:
            return new
        for holder, each in self._budget.keep((self, key), weight.spares, weight.stub):
            if (holder, each) == (self, key):
                fitted = limiting.stub(new)
            else:
                holder.leave_out(each)
        return fitted

    def _leave_out_earlier(self, key: Key) -> None:
        """Keep only stubs of the earlier versions of an assumed object."""
        assumed, limiting = self._assumed.get(key), self._limiting
        if assumed is not None and limiting is not None:
            assumed.api = assumed.api and limiting.stub(assumed.api)
            assumed.answer = assumed.answer and limiting.stub(assumed.answer)


def _same(old: Object, new: Object) -> bool:
    """Whether nothing but the resourceVersion differs; false for what is nested too deeply to be compared."""
    old_meta, new_meta = metadata(old), metadata(new)
    if len(old) != len(new) or len(old_meta) != len(new_meta):
        return False
    for name, value in new_meta.items():
        if name != "resourceVersion" and old_meta.get(name, _MISSING) != value:
            return False
    try:
        return all(name == "metadata" or old.get(name, _MISSING) == value for name, value in new.items())
    except RecursionError:
        return False


def _version(obj: Object) -> int:
    return resourceversion.of(obj) or 0


def _sharing_parts(new: Object, old: Object) -> Object:
    """The new version of an object, which has members and metadata that are equal in common with the old one."""
    meta = {name: _old_if_equal(value, metadata(old).get(name)) for name, value in metadata(new).items()}
    return {name: meta if name == "metadata" else _old_if_equal(value, old.get(name)) for name, value in new.items()}


def _old_if_equal(value: Any, other: Any) -> Any:
    try:
        return other if value == other else value
    except RecursionError:
        return value


def _limiting(project: Projection) -> Keep | None:
    """The projection, if it makes stubs, else None."""
    return project if isinstance(project, Keep) and project.most is not None else None
