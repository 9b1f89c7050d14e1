"""Constraints of a claim on the attributes of its devices: `matchAttribute` and `distinctAttribute`.

A constraint is monotonic: once it refuses a device, more devices do not make it accept that one.  Source: constraint.go
in k8s.io/dynamic-resource-allocation/structured.
"""

from collections.abc import Collection
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

from tollbar.dra.slices import Content
from tollbar.model.objects import Object

_SINGLE: Final = ("string", "int", "bool", "version")
_LISTS: Final = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}

Values: TypeAlias = frozenset[tuple[str, object]]
"""Values of an attribute, each with its type: one, or those of a list; none for a type that is not known."""


class Constraint(Protocol):
    """What it has to know of the devices that a claim has so far is a set of values, or None while there are none."""

    def with_device(self, content: Content, so_far: Values | None) -> Values | None:
        """What it has to know once the claim has this device, too; None if it refuses the device."""
        ...


class MatchAttribute:
    """All devices have the attribute, with one value in common: it has to know which values all have."""

    def __init__(self, name: str, *, lists: bool) -> None:
        self._attribute = (name, lists)
        self._lists = lists

    def with_device(self, content: Content, so_far: Values | None) -> Values | None:
        values = content.memo.get(self._attribute) or _values(content, self._attribute)
        if values is None:
            return None
        if so_far is None:
            return values if values or not self._lists else None
        common = so_far if values is so_far else values & so_far
        return common or None


class DistinctAttribute:
    """All devices have the attribute, and no two of them have a value in common: it has to know all values."""

    def __init__(self, name: str, *, lists: bool) -> None:
        self._attribute = (name, lists)
        self._lists = lists

    def with_device(self, content: Content, so_far: Values | None) -> Values | None:
        values = content.memo.get(self._attribute) or _values(content, self._attribute)
        if values is None:
            return None
        if so_far is None:
            return values if values or not self._lists else None
        return values | so_far if values and values.isdisjoint(so_far) else None


def applies(names: Collection[str], request: str, full_name: str) -> bool:
    """Whether a constraint or config for the requests of these names is for this one; no names stand for all.

    `request` is the request's name; for an alternative of a prioritized list `full_name` is `request/alternative`.
    """
    return not names or request in names or full_name in names


def make(given: Object, *, lists: bool) -> Constraint | None:
    """The constraint of an entry of `spec.devices.constraints`; None for a kind that is not known."""
    if given.get("matchAttribute") is not None:
        return MatchAttribute(given["matchAttribute"], lists=lists)
    if given.get("distinctAttribute") is not None:
        return DistinctAttribute(given["distinctAttribute"], lists=lists)
    return None


def _values(content: Content, asked: tuple[str, bool]) -> Values | None:
    """The values of the attribute of this name, with those of lists or without; None if the device has no such one."""
    found: Values | None = content.memo.get(asked)
    if found is None and asked not in content.memo:
        name, lists = asked
        attribute = content.attribute(name)
        found = None if attribute is None else _typed(attribute, lists)
        content.remember(asked, found)
    return found


def _typed(attribute: Object, lists: bool) -> Values:
    for name in _SINGLE:
        if attribute.get(name) is not None:
            return _one(name, attribute[name])
    if lists:
        for name, of in _LISTS.items():
            if attribute.get(name):
                return frozenset((of, value) for value in attribute[name])
    return frozenset()


@lru_cache(maxsize=4096)
def _one(kind: str, value: object) -> Values:
    """Devices with the same value share it, so that comparing two of them costs nothing."""
    return frozenset(((kind, value),))
