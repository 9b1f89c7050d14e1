"""The controllers' view of storage: what changed, told in the order of the writes.

Made by `controllers` for every change; read by everything here that acts by itself.
"""

from typing import NamedTuple

from tollbar.devplane.embedded.storage import Change
from tollbar.model.objects import Key, Object


class Seen(NamedTuple):
    """An object before and after a change, without apiVersion and kind; None where it is not there."""

    key: Key
    before: Object | None
    after: Object | None


def seen(change: Change) -> Seen:
    before, after = (None if entry is None else entry.decoded() for entry in (change.before, change.after))
    return Seen(change.key, before, after)
