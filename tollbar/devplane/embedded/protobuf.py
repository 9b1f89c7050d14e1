"""The few objects that kubectl sends as protobuf, as JSON objects: its typed clients prefer it since 1.32.

Called by the server for bodies of `application/vnd.kubernetes.protobuf`; answers are always JSON, which those clients
accept too.  Field numbers are those of the generated.proto files of k8s.io/api.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from tollbar.devplane.embedded.errors import bad_request, not_implemented
from tollbar.model.objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_VARINT, _BYTES = 0, 2

Message: TypeAlias = Mapping[int, tuple[str, Any]]
"""Name and type by field number; a type is a message, "text", "number", "flag", "texts" or "map"."""

_META: Final[Message] = {
    1: ("name", "text"),
    2: ("generateName", "text"),
    3: ("namespace", "text"),
    11: ("labels", "map"),
    12: ("annotations", "map"),
    14: ("finalizers", "texts"),
}
_RESOURCE: Final[Message] = dict(
    enumerate(
        [(name, "text") for name in ("namespace", "verb", "group", "version", "resource", "subresource", "name")], 1
    )
)
_ACCESS: Final[Message] = {
    1: ("resourceAttributes", _RESOURCE),
    2: ("nonResourceAttributes", {1: ("path", "text"), 2: ("verb", "text")}),
}
_BOUND_TO: Final[Message] = {1: ("kind", "text"), 2: ("apiVersion", "text"), 3: ("name", "text"), 4: ("uid", "text")}
_TOKEN: Final[Message] = {
    1: ("audiences", "texts"),
    3: ("boundObjectRef", _BOUND_TO),
    4: ("expirationSeconds", "number"),
}
_KINDS: Final[Mapping[str, Message]] = {
    "Namespace": {},
    "ServiceAccount": {},
    "ConfigMap": {2: ("data", "map"), 4: ("immutable", "flag")},
    "SelfSubjectReview": {},
    "SelfSubjectAccessReview": {2: ("spec", _ACCESS)},
    "TokenRequest": {2: ("spec", _TOKEN)},
}


def decode(body: bytes) -> Object:
    """The object of a request.  Raises Refused: 400 for what is no protobuf, 501 for what is not known here."""
    try:
        if not body.startswith(_MAGIC):
            raise ValueError("no magic number")
        envelope = dict(_fields(body[len(_MAGIC) :]))
        head = {number: value.decode() for number, value in _fields(envelope[1])}
        message = _KINDS.get(head[2])
        if message is None:
            raise not_implemented(f"protobuf for {head[2]}: send JSON")
        return {"apiVersion": head[1], "kind": head[2], **_message(envelope[2], {1: ("metadata", _META), **message})}
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise bad_request(f"the object provided is unrecognized (must be of type protobuf): {error}") from error


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value, an int or bytes, of every field."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, at = _varint(data, at)
        if tag & 7 == _BYTES and at + number <= len(data):
            yield tag >> 3, data[at : at + number]
            at += number
        elif tag & 7 == _VARINT:
            yield tag >> 3, number
        else:
            raise ValueError(f"wire type {tag & 7}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _message(data: bytes, message: Message) -> Object:
    """What is empty is left out, known or not: Go writes every field that is no pointer."""
    found: Object = {}
    for number, value in _fields(data):
        name, type_ = message.get(number, ("", ""))
        if isinstance(type_, Mapping):
            found[name] = _message(value, type_)
        elif type_ == "texts":
            found.setdefault(name, []).append(value.decode())
        elif type_ == "map":
            entry = {key: each.decode() for key, each in _fields(value)}
            found.setdefault(name, {})[entry.get(1, "")] = entry.get(2, "")
        elif type_ and value:
            found[name] = value.decode() if type_ == "text" else bool(value) if type_ == "flag" else value
    return found
