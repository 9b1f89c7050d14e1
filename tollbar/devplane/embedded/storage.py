"""Objects and their recent history, by resource: etcd and the watch cache of this API server.

Synchronous and for one event loop: between two awaits of a caller nothing changes, so compare-and-swap is a comparison.

Objects are kept as JSON bytes without apiVersion and kind: they are small and cannot be mutated, and lists and watch
events are concatenations.  One revision counts the writes of all resources.  A watch has no buffer but a position in
the history of its resource, which is bounded: a watch that falls behind gets `Compacted` (410) and its client relists.
"""

import asyncio
import base64
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import orjson

from tollbar.model.objects import Key, Object, key_of, text_at
from tollbar.model.resources import Resource

HISTORY: Final = 10_000
"""Changes kept per resource, at least; at most twice as many."""
NEWEST: Final = 0
"""In the place of a revision: the one of now."""


class Compacted(Exception):
    """The history does not reach back to that revision."""


class Clash(Exception):
    """Compare-and-swap failed: the object has changed since it was read."""


class Entry:
    """One version of one object.  Immutable."""

    __slots__ = ("labels", "paths", "raw", "revision", "texts")

    def __init__(
        self, raw: bytes, revision: int, labels: Mapping[str, str], paths: Sequence[str], texts: Sequence[str]
    ) -> None:
        self.raw = raw
        self.revision = revision
        self.labels = labels
        self.paths = paths
        """The paths that field selectors use, and what is there (`texts`)."""
        self.texts = texts

    def decoded(self) -> Object:
        """A copy of the object, without apiVersion and kind."""
        return dict(orjson.loads(self.raw))

    def field(self, path: str) -> str:
        """The value at a dotted path as field selectors compare it; "" when it is absent."""
        if path in self.paths:
            return self.texts[self.paths.index(path)]
        return text_at(self.decoded(), path)


class Delta(NamedTuple):
    """A change as controllers see it: the object before and after, None where there is none.

    The objects are as they are stored, without apiVersion and kind.
    """

    key: Key
    before: Object | None
    after: Object | None


class Change(NamedTuple):
    """One write: the versions before and after, None where there is none.

    `last` is the version that a DELETED event shows: the old one with the revision of its deletion.
    """

    revision: int
    key: Key
    before: Entry | None
    after: Entry | None
    last: Entry | None = None

    def decoded(self) -> Delta:
        before, after = (None if entry is None else entry.decoded() for entry in (self.before, self.after))
        return Delta(self.key, before, after)


class Page(NamedTuple):
    """A part of a list, in the order of namespace and name.  `following` is the first key of the rest, if any."""

    entries: Sequence[Entry]
    revision: int
    following: Key | None
    remaining: int


@dataclass(slots=True)
class _Table:
    """One resource's objects and history."""

    oldest: int
    paths: tuple[str, ...]
    entries: dict[Key, Entry] = field(default_factory=dict)
    order: list[Key] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set with every change, and then replaced by a new one."""


class Storage:
    """All objects.  `history` is the number of changes that are kept per resource."""

    def __init__(self, history: int = HISTORY) -> None:
        self.revision = 1
        self._history = history
        self._tables: dict[Resource, _Table] = {}
        self.listeners: list[Callable[[Resource, Change], None]] = []
        """Called with every change, within its write; they may write."""

    def open(self, stored: Resource, paths: Sequence[str] = ()) -> None:
        """Store objects of a resource from now on; `paths` are those that field selectors use."""
        if stored not in self._tables:
            self._tables[stored] = _Table(self.revision, tuple(paths))

    def drop(self, stored: Resource) -> None:
        """Remove a resource with all its objects; its watches end."""
        table = self._tables.pop(stored, None)
        if table is not None:
            table.changed.set()

    def get(self, stored: Resource, key: Key) -> Entry | None:
        table = self._tables.get(stored)
        return table.entries.get(key) if table else None

    def items(self, stored: Resource, namespace: str = "") -> Iterator[tuple[Key, Entry]]:
        """The objects in order of their keys, of all namespaces when none is given; none of an unknown resource."""
        table = self._tables.get(stored) or _Table(0, ())
        keys = table.order if not namespace else table.order[slice(*_range(table.order, namespace))]
        return iter([(key, table.entries[key]) for key in keys])

    def write(self, stored: Resource, obj: Object, expected: Entry | None) -> Entry:
        """Create (`expected` None) or replace an object; its resourceVersion is set.  Raises Clash."""
        key = key_of(obj)
        table = self._expecting(stored, key, expected)
        entry = _entry(obj, self.revision, table.paths)
        table.entries[key] = entry
        if expected is None:
            insort(table.order, key)
        self._record(stored, table, Change(self.revision, key, expected, entry))
        return entry

    def delete(self, stored: Resource, key: Key, expected: Entry) -> Entry:
        """Remove an object; its last version, with the revision of the deletion.  Raises Clash."""
        table = self._expecting(stored, key, expected)
        last = at_revision(expected, self.revision)
        del table.entries[key]
        del table.order[bisect_left(table.order, key)]
        self._record(stored, table, Change(self.revision, key, expected, None, last))
        return last

    def _expecting(self, stored: Resource, key: Key, expected: Entry | None) -> _Table:
        """The table, if the object is still the `expected` one; raises the revision.  Raises Clash."""
        table = self._tables.get(stored)
        if table is None or table.entries.get(key) is not expected:
            raise Clash(key)
        self.revision += 1
        return table

    def list(
        self,
        stored: Resource,
        namespace: str,
        matches: Callable[[Key, Entry], bool],
        limit: int = 0,
        revision: int = NEWEST,
        start: Key | None = None,
    ) -> Page:
        """A page of the objects at a revision, from the key `start` on.  Raises Compacted."""
        table = self._tables.get(stored) or _Table(0, ())
        at = revision or self.revision
        if at < table.oldest:
            raise Compacted(at)
        undone = _undone(table, at)
        keys = sorted({*table.order, *undone}) if undone else table.order
        first, end = _range(keys, namespace) if namespace else (0, len(keys))
        first = max(first, bisect_left(keys, start)) if start else first
        found: list[Entry] = []
        for index in range(first, end):
            key = keys[index]
            entry = undone[key] if key in undone else table.entries[key]
            if entry is None or not matches(key, entry):
                continue
            if limit and len(found) == limit:
                hidden = sum(1 for each in keys[index:end] if each in undone and undone[each] is None)
                return Page(found, at, key, end - index - hidden)
            found.append(entry)
        return Page(found, at, None, 0)

    def since(self, stored: Resource, revision: int) -> Sequence[Change]:
        """The changes after a revision, oldest first.  Raises Compacted, also when the resource is gone."""
        table = self._tables.get(stored)
        if table is None or revision < table.oldest:
            raise Compacted(revision)
        changes = table.changes
        if not changes or changes[-1].revision <= revision:
            return ()
        return changes[bisect_right(changes, revision, key=lambda change: change.revision) :]

    async def changed(self, stored: Resource, revision: int, timeout: float | None = None) -> bool:
        """Wait until the resource has a change after the revision, or is dropped; False when the time was over."""
        table = self._tables.get(stored)
        if table is None or (table.changes and table.changes[-1].revision > revision):
            return True
        change = table.changed
        try:
            async with asyncio.timeout(timeout):
                return await change.wait()
        except TimeoutError:
            # A change may have come in the same turn of the loop: it comes before any bookmark.
            return change.is_set()

    def served(self, stored: Resource) -> bool:
        """Whether objects of the resource are kept."""
        return stored in self._tables

    def version(self, stored: Resource) -> int:
        """The revision of the newest change of a resource; 0 when there is none."""
        changes = self._tables[stored].changes
        return changes[-1].revision if changes else 0

    def _record(self, stored: Resource, table: _Table, change: Change) -> None:
        table.changes.append(change)
        if len(table.changes) > 2 * self._history:
            table.oldest = table.changes[self._history - 1].revision
            del table.changes[: self._history]
        table.changed.set()
        table.changed = asyncio.Event()
        for listener in self.listeners:
            listener(stored, change)


def _range(keys: Sequence[Key], namespace: str) -> tuple[int, int]:
    return bisect_left(keys, Key(namespace, "")), bisect_left(keys, Key(namespace + "\0", ""))


def _undone(table: _Table, revision: int) -> dict[Key, Entry | None]:
    """What differs at an older revision: entries as they were, None for those that did not exist."""
    found: dict[Key, Entry | None] = {}
    for change in reversed(table.changes):
        if change.revision <= revision:
            break
        found[change.key] = change.before
    return found


def _entry(obj: Object, revision: int, paths: Sequence[str]) -> Entry:
    body = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}
    body["metadata"] = {**obj["metadata"], "resourceVersion": str(revision)}
    texts = tuple(text_at(obj, path) for path in paths)
    # The bytes that orjson returns keep a buffer several times their size; a copy does not.
    raw = bytes(memoryview(orjson.dumps(body)))
    return Entry(raw, revision, obj["metadata"].get("labels") or {}, paths, texts)


def at_revision(entry: Entry, revision: int) -> Entry:
    """The same content under another resourceVersion."""
    return _entry(entry.decoded(), revision, entry.paths)


def token(revision: int, following: Key) -> str:
    """A continue token: the first key of the next page, and the revision of the list."""
    return base64.urlsafe_b64encode(orjson.dumps([revision, *following])).decode()


def position(text: str) -> tuple[int, Key]:
    """Revision and first key of a continue token.  Raises ValueError for other texts."""
    try:
        revision, namespace, name = orjson.loads(base64.urlsafe_b64decode(text.encode()))
        return int(revision), Key(str(namespace), str(name))
    except (ValueError, TypeError) as error:
        raise ValueError("not a continue token") from error
