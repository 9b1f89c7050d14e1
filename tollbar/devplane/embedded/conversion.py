"""Conversion between an object as it is stored and as a version of its kind.

The versions of a kind differ only in apiVersion, except core Events, which are stored as events.k8s.io Events and have
other names for the same fields.
"""

from typing import Any, Final

import orjson

from tollbar.devplane.embedded.builtin import CORE_EVENTS
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.storage import Entry
from tollbar.model.objects import Object

_NEW_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
    "source": "deprecatedSource",
    "count": "deprecatedCount",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
}
_OLD_NAMES: Final = {new: old for old, new in _NEW_NAMES.items()}
_SHOWN_AS_NULL: Final = ("firstTimestamp", "lastTimestamp")


def stored(kind: Kind, obj: Object) -> Object:
    """A kind's object as it is stored."""
    renamed = _renamed(obj, _NEW_NAMES) if kind.resource == CORE_EVENTS else obj
    return {**renamed, "apiVersion": kind.stored.api_version, "kind": kind.stored.kind}


def presented(kind: Kind, obj: Object) -> Object:
    """A stored object as a version of its kind."""
    found = {**obj, "apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
    if kind.resource != CORE_EVENTS:
        return found
    return {**dict.fromkeys(_SHOWN_AS_NULL), **_renamed(found, _OLD_NAMES)}


def decoded(kind: Kind, entry: Entry) -> Object:
    """A copy of a stored object as a version of its kind."""
    return presented(kind, entry.decoded())


def encoded(kind: Kind, entry: Entry, *, headless: bool = False) -> bytes:
    """The JSON of a stored object; `headless` leaves out apiVersion and kind, as lists of built-in kinds do."""
    if kind.resource == CORE_EVENTS:
        return orjson.dumps(decoded(kind, entry))
    return entry.raw if headless and not kind.custom else head(kind) + entry.raw[1:]


def head(kind: Kind) -> bytes:
    """The beginning of the JSON of an object of the kind."""
    return b'{"kind":"%b","apiVersion":"%b",' % (kind.resource.kind.encode(), kind.resource.api_version.encode())


def _renamed(obj: Object, names: dict[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in obj.items()}
