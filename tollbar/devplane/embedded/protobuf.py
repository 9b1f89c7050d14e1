"""Decoding of the few kinds that kubectl sends as protobuf: its typed clients prefer it since 1.32.

Answers are always JSON, which those clients accept too.  Field numbers are those of the generated.proto files of
k8s.io/api, types those of OpenAPI.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from tollbar.devplane.embedded import shapes
from tollbar.devplane.embedded.errors import bad_request, not_implemented
from tollbar.devplane.embedded.shapes import Shape
from tollbar.model.objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\0"
_VARINT, _BYTES = 0, 2

_FIELDS: Final[Mapping[str, Mapping[int, str]]] = {
    "ObjectMeta": {1: "name", 2: "generateName", 3: "namespace", 11: "labels", 12: "annotations", 14: "finalizers"},
    "Namespace": {},
    "ServiceAccount": {},
    "ConfigMap": {2: "data", 4: "immutable"},
    "SelfSubjectReview": {},
    "SelfSubjectAccessReview": {2: "spec"},
    "SelfSubjectAccessReviewSpec": {1: "resourceAttributes", 2: "nonResourceAttributes"},
    "ResourceAttributes": dict(
        enumerate(("namespace", "verb", "group", "version", "resource", "subresource", "name"), 1)
    ),
    "NonResourceAttributes": {1: "path", 2: "verb"},
    "TokenRequest": {2: "spec"},
    "TokenRequestSpec": {1: "audiences", 4: "expirationSeconds"},
}
"""By type, the names of the fields that are decoded, by field number; other fields are ignored."""


def decode(body: bytes) -> Object:
    """The object of a request.  Raises Refused: 400 for malformed protobuf, 501 for other kinds."""
    try:
        if not body.startswith(_MAGIC):
            raise ValueError("no magic number")
        envelope = dict(_fields(body[len(_MAGIC) :]))
        api_version, kind = (value.decode() for _, value in _fields(envelope[1]))
        if kind not in _FIELDS:
            raise not_implemented(f"protobuf for {kind}: send JSON")
        group, _, version = api_version.rpartition("/")
        fields = {1: "metadata", **_FIELDS[kind]}
        message = _message(envelope[2], fields, shapes.described(group, version, kind))
        return {"apiVersion": api_version, "kind": kind, **message}
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


def _message(data: bytes, fields: Mapping[int, str], shape: Shape) -> Object:
    """The object of a message, without empty fields: Go writes every field that is not a pointer."""
    found: Object = {}
    for number, value in _fields(data):
        child = shape.child(fields.get(number, ""))
        if child is None:
            continue
        if child.type == "array":
            found.setdefault(fields[number], []).append(value.decode())
        elif child.is_map:
            entry = {key: each.decode() for key, each in _fields(value)}
            found.setdefault(fields[number], {})[entry.get(1, "")] = entry.get(2, "")
        elif child.type == "object":
            found[fields[number]] = _message(value, _FIELDS[child.name], child)
        elif value and child.type == "string":
            found[fields[number]] = value.decode()
        elif value:
            found[fields[number]] = bool(value) if child.type == "boolean" else value
    return found
