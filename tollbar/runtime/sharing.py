"""Parts of cached objects that are equal are kept in memory once.

What a decoder returns shares nothing, while objects of one kind are much alike: the claims of one template have one
spec, the devices of one model most of their attributes.  Cached objects are never changed, so they may share parts.
"""

from functools import lru_cache
from typing import Any, Final

import orjson

from tollbar.model.flat import Path

LONGEST: Final = 2048
"""Longer parts, in bytes of JSON, are not shared: somebody may make many of them that all differ."""
KEPT: Final = 4096
"""At most so many parts are known; then all are forgotten, so that those of objects that are gone do not stay."""
known: Final[dict[bytes, Any]] = {}


def sharing(value: Any, paths: frozenset[Path]) -> Any:
    """The decoded JSON, or a copy of it that has what is at these paths in common with earlier values, where equal."""
    if () in paths:
        try:
            written = orjson.dumps(value)
        except TypeError:
            return value  # nested too deeply for the encoder
        if len(written) > LONGEST:
            return value
        if written not in known:
            if len(known) >= KEPT:
                known.clear()
            known[bytes(memoryview(written))] = value  # what orjson returns takes 4 KiB at least
        return known[written]
    if isinstance(value, list):
        inner = _inside("*", paths)
        return [sharing(each, inner) for each in value] if inner else value
    if not isinstance(value, dict):
        return value
    copy = dict(value)
    if any_member := _inside("*", paths):
        for name, each in value.items():
            copy[name] = sharing(each, any_member)
    for name in _names(paths):
        if name in value:
            copy[name] = sharing(value[name], _inside(name, paths))
    return copy


@lru_cache(maxsize=256)
def _names(paths: frozenset[Path]) -> frozenset[str]:
    return frozenset(path[0] for path in paths)


@lru_cache(maxsize=256)
def _inside(name: str, paths: frozenset[Path]) -> frozenset[Path]:
    return frozenset([path[1:] for path in paths if path[0] == name])
