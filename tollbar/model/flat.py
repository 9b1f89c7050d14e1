"""Decoded JSON in a fraction of its memory: names and nesting once for all objects that are alike, of each its values.

A dict takes 64 bytes and 16 to 40 for each member, a Pod has a dozen of them.  A flat object is one tuple: first its
layout, which it shares with every object of the same members, then its values, of which short texts that are equal are
one.  To make one takes some 10 µs, to read it less.

Invariants: what is read equals what was given, in the same order of members, and is not changed by who reads it; reads
that follow one another may return one object, others return another copy, but for its `whole` parts.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""Names of members from the outside to the inside; `*` stands for every member of an object or entry of a list."""
Flat: TypeAlias = tuple[Any, ...]

DEPTH: Final = 8
"""Levels that are taken apart; what is nested more deeply is kept as it is."""
SHORT: Final = 32
"""Longer texts are not compared with others."""
WIDEST: Final = 128
"""Members of an object, or entries of a list, that is taken apart; a slice has as many devices at most."""
LONGEST: Final = 2048
"""Characters in the names of all members of an object that is taken apart.  Layouts stay in memory when the object is
gone, so this bounds what somebody who makes up names leaves there; those of fields come to some hundred characters."""
KEPT: Final = 8192
"""So many texts, and as many layouts, are known; then it starts anew, so that what never comes again does not stay."""
_NOTHING: Final[frozenset[Path]] = frozenset()
_WHOLE: Final = None
"""The layout of a value that is kept as it is.  That of an object has the names of its members, that of a list None,
and then those of what is in it."""

_layouts: Final[dict[Any, Any]] = {}
_texts: Final[dict[str, str]] = {}
_last: tuple[Any, frozenset[Path], Flat] = ({}, _NOTHING, (((), ()),))
"""What was given last: several caches keep an object when it comes, and should keep one tuple."""
_read: tuple[Flat, Any] = ((), None)
"""What was read last: who is told of a change reads one object several times."""


def flat(obj: Any, whole: frozenset[Path] = _NOTHING) -> Flat:
    """The object, flat; what is at the paths `whole` is not taken apart, because others have it, too."""
    global _last
    given, paths, made = _last
    if given is not obj or paths is not whole:
        values: list[Any] = [None]
        values[0] = _layout(obj, whole, DEPTH, values)
        made = tuple(values)
        _last = (obj, whole, made)
    return made


def unfolded(made: Flat) -> Any:
    """What was given to `flat`."""
    global _read
    given, _, last = _last
    if made is last:
        return given
    read, built = _read
    if made is not read:
        values = iter(made)
        built = _built(next(values), values)
        _read = (made, built)
    return built


def one_text(text: str) -> str:
    """A short text, as the one object that has been known for a while."""
    if len(text) > SHORT:
        return text
    if len(_texts) >= KEPT:
        _texts.clear()
    return _texts.setdefault(text, text)


def _layout(value: Any, whole: frozenset[Path], depth: int, values: list[Any]) -> Any:
    """The layout of a value; adds the values that are left to `values`."""
    if depth and () not in whole:
        if type(value) is dict and len(value) <= WIDEST and len("".join(value)) <= LONGEST:
            inside = tuple([_layout(each, inner(name, whole), depth - 1, values) for name, each in value.items()])
            return _known((tuple(value), inside))
        if type(value) is list and len(value) <= WIDEST:
            of_each = inner("*", whole)
            return _known((None, tuple([_layout(each, of_each, depth - 1, values) for each in value])))
    values.append(one_text(value) if type(value) is str else value)
    return _WHOLE


def _known(layout: Any) -> Any:
    if len(_layouts) >= KEPT:
        _layouts.clear()
    return _layouts.setdefault(layout, layout)


def _built(layout: Any, values: Iterator[Any]) -> Any:
    if layout is _WHOLE:
        return next(values)
    names, inside = layout
    if names is None:
        return [_built(each, values) for each in inside]
    return {name: _built(each, values) for name, each in zip(names, inside, strict=True)}


@lru_cache(maxsize=1024)
def inner(name: str, paths: frozenset[Path]) -> frozenset[Path]:
    """The paths as seen from a member of this name; those of `*` count for each."""
    return frozenset([path[1:] for path in paths if path and path[0] in (name, "*")]) if paths else paths
