"""Objects in a tenth of the memory that they take decoded, as compressed JSON that is decoded when it is read.

Objects that are much alike, such as the Pods of one Deployment, take less again: the first of them, the model, is the
dictionary with which the others are compressed (RFC 1950, deflateSetDictionary).

Invariants: what is read equals what was stored; every read may be another copy, so identity means nothing; the model of
a stored object lives as long as the object.

Hazard: text that nothing compresses, such as certificates, takes its full length.
"""

import zlib
from collections.abc import Callable, Hashable, Iterator, MutableMapping
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from tollbar.model import timestamps
from tollbar.model.objects import Key, Object, metadata

WINDOW: Final = 1 << zlib.MAX_WBITS
"""Bytes that deflate looks back.  Longer texts are no models, and are not compressed with one."""
ALIKE: Final = 4
"""A text that its model compresses to more than 1 / ALIKE of its length becomes the model of those that come next."""
MODELS: Final = 1024
"""At most so many models are known; then all are forgotten, so that those of workloads that are gone do not stay."""
RECENT_BYTES: Final = 512 * 1024
"""The objects that were read or written last stay decoded, as many as have so many bytes of text in all, but none that
has more than a sixteenth of that: what was read is soon written, and what was written is soon written again or gone.
With 64 reconciles at one time, an object is written after some 128 others have been read or written."""
_RAW: Final = -zlib.MAX_WBITS
_SHORT: Final = 7 * 1024
"""Bytes of a text and its model for which a window of 8 KiB (13 bits) and little memory will do.  zlib prepares its
memory anew for each text, which takes as long as to compress a short one."""


class _Text(NamedTuple):
    """Compressed; `created` in epoch seconds; `model` is another object's text, which is compressed without a model."""

    text: bytes
    model: bytes | None
    created: float


class _Plain(NamedTuple):
    """The text of an object that stays decoded for now, which is compressed later; `kind` is what `alike` returned."""

    text: bytes
    kind: Hashable
    created: float


class Packed(MutableMapping[Key, Object]):
    """Objects by key; `alike` returns the same for objects that are much alike.

    Raises TypeError for an object that is nested more deeply than 254 levels, which Pods cannot be.
    """

    def __init__(self, alike: Callable[[Object], Hashable]) -> None:
        self._alike = alike
        self._texts: dict[Key, _Text | _Plain] = {}
        self._models: dict[Hashable, bytes] = {}
        self._recent: dict[Key, tuple[Object, int]] = {}
        """Each with the length of its text; those decoded or written last are at the end."""
        self._recent_bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._texts)

    def __contains__(self, key: object) -> bool:
        return key in self._texts

    def __getitem__(self, key: Key) -> Object:
        recent = self._recent.get(key)
        if recent is not None:
            return recent[0]
        packed = self._texts[key]
        text = packed.text if isinstance(packed, _Plain) else _inflated(packed.text, packed.model)
        obj: Object = orjson.loads(text)
        self._remember(key, obj, len(text))
        return obj

    def __setitem__(self, key: Key, obj: Object) -> None:
        text = orjson.dumps(obj)
        plain = _Plain(text, self._alike(obj), created_at(obj))
        self._forget(key)
        self._texts[key] = plain
        self._remember(key, obj, len(text))

    def __delitem__(self, key: Key) -> None:
        del self._texts[key]
        self._forget(key)

    def created(self, key: Key) -> float:
        """As `created_at`, without decoding the object."""
        return self._texts[key].created

    def _compressed(self, text: bytes, kind: Hashable) -> tuple[bytes, bytes | None]:
        """The compressed text, and the model with which it was compressed."""
        if len(text) > WINDOW:
            return _deflated(text), None
        model = self._models.get(kind)
        if model is not None:
            compressed = _deflated(text, _dictionary(model))
            if len(compressed) * ALIKE <= len(text):
                return compressed, model
        compressed = _deflated(text)
        if len(self._models) >= MODELS:
            self._models.clear()
        self._models[kind] = compressed
        return compressed, None

    def _remember(self, key: Key, obj: Object, length: int) -> None:
        if length > RECENT_BYTES // 16:
            self._compress(key)
            return
        self._recent[key] = obj, length
        self._recent_bytes += length
        while self._recent_bytes > RECENT_BYTES:
            oldest = next(iter(self._recent))
            self._forget(oldest)
            self._compress(oldest)

    def _forget(self, key: Key) -> None:
        _, length = self._recent.pop(key, (None, 0))
        self._recent_bytes -= length

    def _compress(self, key: Key) -> None:
        kept = self._texts[key]
        if isinstance(kept, _Plain):
            self._texts[key] = _Text(*self._compressed(kept.text, kept.kind), kept.created)


def created_at(obj: Object) -> float:
    """When it was created, in epoch seconds; infinity where it does not say."""
    created = metadata(obj).get("creationTimestamp")
    return timestamps.parse(str(created)) if created else float("inf")


def _deflated(text: bytes, dictionary: bytes = b"") -> bytes:
    is_short = len(text) + len(dictionary) <= _SHORT
    bits, memory = (-13, 5) if is_short else (_RAW, zlib.DEF_MEM_LEVEL)
    stream = zlib.compressobj(zlib.Z_BEST_SPEED, zlib.DEFLATED, bits, memory, zdict=dictionary)
    return stream.compress(text) + stream.flush()


def _inflated(compressed: bytes, model: bytes | None) -> bytes:
    if model is None:
        return zlib.decompress(compressed, _RAW)
    return zlib.decompressobj(_RAW, zdict=_dictionary(model)).decompress(compressed)


@lru_cache(maxsize=64)
def _dictionary(model: bytes) -> bytes:
    """The text of a model, not decompressed anew for each object: those that are alike are read together."""
    return zlib.decompress(model, _RAW)
