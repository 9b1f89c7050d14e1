"""Watches as byte streams: the events of a resource from a revision on.

A watch has no queue but follows the history of its resource (see `storage`), so that a slow client costs nothing, and
one that falls behind the history gets 410 in its stream.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from tollbar.devplane.embedded import conversion, errors, tables
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.selectors import Predicate
from tollbar.devplane.embedded.storage import Change, Compacted, Entry, Storage, at_revision
from tollbar.model.objects import Key, Object
from tollbar.runtime.clock import Clock

BOOKMARK_SECONDS: Final = 60.0
_LAST_BOOKMARK: Final = 2.0
"""Seconds before its end at which a watch sends its last bookmark."""
_BATCH: Final = 500
_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Watch:
    """What a client watches.  `revision` None starts with ADDED for all objects; `seconds` is how long it lasts."""

    kind: Kind
    namespace: str
    matches: Predicate
    revision: int | None
    seconds: float
    bookmarks: bool = False
    initial_end: bool = False
    """Whether a bookmark marks the end of the initial events (sendInitialEvents, KEP-3157)."""
    as_table: bool = False


async def stream(storage: Storage, clock: Clock, watch: Watch) -> AsyncIterator[bytes]:
    """Lines of JSON, several at a time, until the watch times out, its kind is removed or its revision is compacted."""
    loop = asyncio.get_running_loop()
    end = loop.time() + watch.seconds
    marks = _marks(loop.time(), end) if watch.bookmarks else iter(())
    stored, revision, mark = watch.kind.stored, watch.revision, next(marks, end)
    if revision is None:
        revision = storage.revision
        for batch in _existing(storage, clock, watch):
            yield batch
        if watch.initial_end:
            yield _bookmark(watch.kind, revision, {_INITIAL_END: "true"})
    while storage.served(stored):
        try:
            changes = storage.since(stored, revision)
        except Compacted:
            yield _expired(revision, storage.revision)
            return
        for start in range(0, len(changes), _BATCH):
            lines = b"".join(_lines(watch, changes[start : start + _BATCH], clock))
            if lines:
                yield lines
        if changes:
            revision = changes[-1].revision
            continue
        if await storage.changed(stored, revision, min(mark, end) - loop.time()):
            continue
        if mark < end or watch.bookmarks:
            yield _bookmark(watch.kind, max(revision, storage.revision), {})
        if loop.time() >= end:
            return
        mark = next(marks, end)


def _marks(start: float, end: float) -> Iterator[float]:
    """The times at which bookmarks are due, without the one at the end."""
    due = start + BOOKMARK_SECONDS
    while due < end - _LAST_BOOKMARK:
        yield due
        due += BOOKMARK_SECONDS
    if end - _LAST_BOOKMARK > start:
        yield end - _LAST_BOOKMARK


def _existing(storage: Storage, clock: Clock, watch: Watch) -> Iterator[bytes]:
    """ADDED for every object, as of the moment of the first."""
    entries = storage.list(watch.kind.stored, watch.namespace, watch.matches).entries
    for start in range(0, len(entries), _BATCH):
        yield b"".join(_line(watch, "ADDED", entry, clock) for entry in entries[start : start + _BATCH])


def _lines(watch: Watch, changes: Sequence[Change], clock: Clock) -> Iterator[bytes]:
    for change in changes:
        if watch.namespace and change.key.namespace != watch.namespace:
            continue
        before, after = (_matching(watch, change.key, entry) for entry in (change.before, change.after))
        if after is not None:
            yield _line(watch, "MODIFIED" if before is not None else "ADDED", after, clock)
        elif before is not None:
            # It no longer matches the selector without being deleted: the old state with the new resourceVersion.
            last = change.last or at_revision(before, change.revision)
            yield _line(watch, "DELETED", last, clock)


def _matching(watch: Watch, key: Key, entry: Entry | None) -> Entry | None:
    return entry if entry is not None and watch.matches(key, entry) else None


def _line(watch: Watch, type_: str, entry: Entry, clock: Clock) -> bytes:
    if watch.as_table:
        meta: Object = {"resourceVersion": str(entry.revision)}
        shown = orjson.dumps(tables.table(watch.kind, [conversion.decoded(watch.kind, entry)], meta, clock.now()))
    else:
        shown = conversion.encoded(watch.kind, entry)
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), shown)


def _bookmark(kind: Kind, revision: int, annotations: Object) -> bytes:
    meta: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
    obj: Object = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version, "metadata": meta}
    if annotations:
        meta["annotations"] = annotations
    return orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n"


def _expired(revision: int, current: int) -> bytes:
    refused = errors.expired(f"too old resource version: {revision} ({current})")
    return orjson.dumps({"type": "ERROR", "object": refused.status()}) + b"\n"
