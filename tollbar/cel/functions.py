"""What a function of the CEL library is, and how the library's modules declare theirs.

A declaration is a signature in CEL's own terms and its implementation, which gets the budget and the arguments:
`overload("string.startsWith(string) -> bool", starts_with)`.  An implementation pays before it works, and fails with
Fault.  The same table drives evaluation, arity checks, result types and suggestions.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from tollbar.cel.values import KINDS

Implementation: TypeAlias = Callable[..., Any]

_SIGNATURE: Final = re.compile(
    r"(?:(?P<receiver>\w+)\.)?(?P<name>[^\s.(]+)\((?P<parameters>[\w, ]*)\) -> (?P<result>\S+)"
)


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature; for a method the first parameter is the receiver.  The parameter `any` takes every kind."""

    name: str
    method: bool
    parameters: tuple[str, ...]
    result: str
    implementation: Implementation

    def accepts(self, kinds: tuple[str, ...]) -> bool:
        """Whether arguments of these kinds fit; `dyn` is a kind not known yet and always fits."""
        return len(kinds) == len(self.parameters) and all(
            parameter in (given, "any") or given == "dyn"
            for parameter, given in zip(self.parameters, kinds, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Library:
    """Overloads by (name, is method); implementations by that and the Python types of the arguments."""

    groups: dict[tuple[str, bool], tuple[Overload, ...]]
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]]

    def names(self) -> list[str]:
        """Of functions and methods, without the operators."""
        return sorted({name for name, _ in self.groups if name[0].isalpha()})


def overload(signature: str, implementation: Implementation) -> Overload:
    form = _SIGNATURE.fullmatch(signature)
    if form is None:
        raise ValueError(f"not a signature: {signature}")
    parameters = [part.strip() for part in form["parameters"].split(",") if part.strip()]
    receiver = [form["receiver"]] if form["receiver"] else []
    return Overload(form["name"], bool(receiver), (*receiver, *parameters), form["result"], implementation)


def library(overloads: Iterable[Overload]) -> Library:
    groups: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]] = {}
    for item in overloads:
        key = item.name, item.method
        groups[key] = (*groups.get(key, ()), item)
        for types in product(*map(_types, item.parameters)):
            exact.setdefault(key, {})[types] = item.implementation
    return Library(groups, exact)


def _types(parameter: str) -> list[type]:
    """The Python types of the values that a parameter takes."""
    return [type_ for type_, kind in KINDS.items() if parameter in (kind, "any")]
