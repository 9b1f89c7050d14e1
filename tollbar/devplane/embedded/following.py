"""The controllers' view of storage: what changes, one change after the other.

Called by everything here that acts by itself.  Hazard: a follower that is slower than the history is long lists anew
and has not seen what came and went meanwhile.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from tollbar.devplane.embedded.storage import Compacted, Entry, Storage
from tollbar.model.objects import Key, Object
from tollbar.runtime.resources import Resource


class Seen(NamedTuple):
    """An object before and after a change, without apiVersion and kind; None where it is not there."""

    key: Key
    before: Object | None
    after: Object | None


async def follow(storage: Storage, stored: Resource) -> AsyncIterator[Seen]:
    """What is there, then every change, until the resource is dropped."""
    while storage.served(stored):
        revision = storage.revision
        for key, entry in storage.items(stored):
            yield Seen(key, None, entry.decoded())
        try:
            while True:
                for change in storage.since(stored, revision):
                    revision = change.revision
                    yield Seen(change.key, _decoded(change.before), _decoded(change.after))
                await storage.changed(stored, revision)
        except Compacted:
            continue


def _decoded(entry: Entry | None) -> Object | None:
    return None if entry is None else entry.decoded()
