"""What a function of the CEL library is, and how the library's modules declare theirs.

A declaration is a signature in CEL's own terms and its implementation, which gets the budget and the arguments:
`overload("list<A>.first() -> optional_type<A>", first)`.  An implementation pays before it works, and fails with
Fault.  The same table drives evaluation, arity checks, result types and suggestions.

Types in signatures are those of `schema`: a kind, `list<T>`, `map<T>` (of any keys), `optional_type<T>`; a single
capital letter stands for any type, the same one wherever it occurs; `any` takes every type and is remembered nowhere.
A dot after a type makes a method; a name in a namespace starts with a dot: `.ip.isCanonical(string) -> bool`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeAlias

from tollbar.cel.core import schema
from tollbar.cel.core.values import KINDS

Implementation: TypeAlias = Callable[..., Any]

_TYPE: Final = r"\w+(?:<[\w<>]+>)?"
_SIGNATURE: Final = re.compile(
    rf"(?:(?P<receiver>{_TYPE})\.|\.(?=\w+\.))?(?P<name>[^\s(]+)"
    rf"\((?P<parameters>[\w<>, ]*)\) -> (?P<result>{_TYPE})"
)
_VARIABLE: Final = re.compile(r"\b[A-Z]\b")


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature; for a method the first parameter is the receiver.

    `types` are the parameters as declared, `parameters` their kinds (`any` takes every kind).
    """

    name: str
    method: bool
    types: tuple[str, ...]
    parameters: tuple[str, ...]
    result: str
    implementation: Implementation

    def result_for(self, types: tuple[str, ...]) -> str | None:
        """The result type for arguments of these static types; None if they do not fit."""
        bound: dict[str, str] = {}
        if len(types) != len(self.types) or not all(map(_binder(bound), self.types, types)):
            return None
        return _VARIABLE.sub(lambda variable: bound.get(variable[0], "dyn"), self.result)


@dataclass(frozen=True, slots=True)
class Library:
    """Overloads by (name, is method); implementations by that and the Python types of the arguments."""

    groups: dict[tuple[str, bool], tuple[Overload, ...]]
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]]

    def names(self) -> list[str]:
        """Of functions and methods, without the operators."""
        return sorted({name for name, _ in self.groups if name[0].isalpha()})

    def result_type(self, name: str, method: bool, types: tuple[str, ...]) -> str | None:
        """The type of a call with arguments of these static types; None if no overload takes them."""
        found = {item.result_for(types) for item in self.groups.get((name, method), ())} - {None}
        return (found.pop() if len(found) == 1 else "dyn") if found else None

    def typed(self, name: str, method: bool, types: tuple[str, ...]) -> dict[tuple[type, ...], Implementation]:
        """`exact` without the overloads that arguments of these static types rule out.

        It matters where a value does not tell its type: the sum of an empty list of doubles is 0.0.
        """
        fitting = [item for item in self.groups[name, method] if item.result_for(types) is not None]
        return library(fitting).exact.get((name, method), {})


def overload(signature: str, implementation: Implementation) -> Overload:
    form = _SIGNATURE.fullmatch(signature)
    if form is None:
        raise ValueError(f"not a signature: {signature}")
    parameters = [part.strip() for part in form["parameters"].split(",") if part.strip()]
    types = ([form["receiver"]] if form["receiver"] else []) + parameters
    return Overload(
        form["name"],
        bool(form["receiver"]),
        tuple(types),
        tuple("any" if _VARIABLE.fullmatch(type_) else type_.partition("<")[0] for type_ in types),
        form["result"],
        implementation,
    )


def library(overloads: Iterable[Overload]) -> Library:
    groups: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]] = {}
    for item in overloads:
        key = item.name, item.method
        groups[key] = (*groups.get(key, ()), item)
        for types in product(*map(_types, item.parameters)):
            exact.setdefault(key, {}).setdefault(types, item.implementation)
    return Library(groups, exact)


def _types(parameter: str) -> list[type]:
    """The Python types of the values that a parameter takes."""
    return [type_ for type_, kind in KINDS.items() if parameter in (kind, "any")]


def _binder(bound: dict[str, str]) -> Callable[[str, str], bool]:
    """Whether a type fits a declared one; remembers in `bound` what the variables stand for."""

    def fits(declared: str, given: str) -> bool:
        if _VARIABLE.fullmatch(declared):
            known = bound.get(declared, "dyn")
            if known == "dyn":
                bound[declared] = given
                return True
            return _alike(known, given)
        if "dyn" in (declared, given) or declared == "any":
            return True
        if schema.kind(declared) != schema.kind(given):
            return False
        return not declared.endswith(">") or fits(schema.element(declared), schema.element(given))

    return fits


def _alike(a: str, b: str) -> bool:
    """Whether two static types can be one; what is not known can be anything."""
    if a == b or "dyn" in (a, b):
        return True
    return a.endswith(">") and schema.kind(a) == schema.kind(b) and _alike(schema.element(a), schema.element(b))
