"""How functions of the library are declared: a signature in CEL's own terms, and an implementation.

For example `overload("list<A>.first() -> optional_type<A>", first)`.  The implementation is called with the cost
tracker of the evaluation and the arguments; it charges before it does the work, and fails with Fault.  Evaluation, type
checks and suggestions all use the same declarations.

Types in signatures are those of `tollbar.cel.core.schema`: a kind, `list<T>`, `map<T>` (with any keys),
`optional_type<T>`.  A single capital letter is a type variable; `any` accepts every type without binding a variable.
A dot after a type makes a method; a name in a namespace starts with a dot: `.ip.isCanonical(string) -> bool`.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final, TypeAlias

from tollbar.cel.core import schema
from tollbar.cel.core.limits import CALL_STEPS, CostTracker, Fault
from tollbar.cel.core.values import KINDS

Implementation: TypeAlias = Callable[..., Any]

_TYPE: Final = r"\w+(?:<[\w<>]+>)?"
_SIGNATURE: Final = re.compile(
    rf"(?:(?P<receiver>{_TYPE})\.|\.(?=\w+\.))?(?P<name>[^\s(]+)"
    rf"\((?P<parameters>[\w<>, ]*)\) -> (?P<result>{_TYPE})"
)
_SIMILAR: Final = 25
"""Steps by which the prices of overloads may differ that are charged in advance, whichever is called."""
_VARIABLE: Final = re.compile(r"\b[A-Z]\b")


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature; for a method the first parameter is the receiver.

    `types` are the parameters as declared, `parameters` their kinds (`any` takes every kind).  `steps` is the cost of a
    call, apart from what the implementation charges.
    """

    name: str
    method: bool
    types: tuple[str, ...]
    parameters: tuple[str, ...]
    result: str
    implementation: Implementation
    steps: int

    def result_for(self, types: tuple[str, ...]) -> str | None:
        """The result type for arguments of these static types; None if they do not fit.

        A type variable is what is most general of its arguments, as in cel-go's checker.
        """
        bound: dict[str, str] = {}
        if len(types) != len(self.types) or not all(map(_binder(bound), self.types, types)):
            return None
        bound |= {declared: "dyn" for declared, given in zip(self.types, types, strict=True) if given == "dyn"}
        return _VARIABLE.sub(lambda variable: bound.get(variable[0], "dyn"), self.result)


@dataclass(frozen=True, slots=True)
class Library:
    """Overloads by (name, is a method), and implementations by that and the Python types of the arguments."""

    groups: dict[tuple[str, bool], tuple[Overload, ...]]
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]]

    def names(self) -> list[str]:
        """The names of functions and methods, without the operators."""
        return sorted({name for name, _ in self.groups if name[0].isalpha()})

    def result_type(self, name: str, method: bool, types: tuple[str, ...]) -> str | None:
        """The type of a call with arguments of these static types; None if no overload fits, dyn if several do."""
        found = {item.result_for(types) for item in self.groups.get((name, method), ())} - {None}
        return (found.pop() if len(found) == 1 else "dyn") if found else None

    def steps(self, name: str, method: bool) -> int:
        """The cost of a call, apart from what implementations charge."""
        return self.groups[name, method][0].steps

    def typed(self, name: str, method: bool, types: tuple[str, ...]) -> dict[tuple[type, ...], Implementation]:
        """`exact` for arguments of these static types.

        It matters where values do not tell their types: the sum of an empty list of doubles is 0.0.
        """
        fitting = [item for item in self.groups[name, method] if item.result_for(types) is not None]
        return library(fitting).exact.get((name, method), {})


def overload(signature: str, implementation: Implementation, steps: int = CALL_STEPS) -> Overload:
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
        steps,
    )


def parses(parse: Callable[..., object]) -> Callable[..., bool]:
    """The function that tells whether the parser accepts its arguments."""

    def check(cost: CostTracker, *arguments: Any) -> bool:
        try:
            parse(cost, *arguments)
        except Fault as fault:
            if fault.final:
                raise
            return False
        return True

    return check


def library(overloads: Iterable[Overload]) -> Library:
    groups: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    exact: dict[tuple[str, bool], dict[tuple[type, ...], Implementation]] = {}
    overloads = tuple(overloads)
    for item in overloads:
        key = item.name, item.method
        item = _leveled(item, [other.steps for other in overloads if (other.name, other.method) == key])
        groups[key] = (*groups.get(key, ()), item)
        for types in product(*map(_types, item.parameters)):
            exact.setdefault(key, {}).setdefault(types, item.implementation)
    return Library(groups, exact)


def _leveled(item: Overload, steps: list[int]) -> Overload:
    """The overload at the price that its group has in common; it charges what it costs more when it is called."""
    common = max(each for each in steps if each <= min(steps) + _SIMILAR)
    if item.steps <= common:
        return replace(item, steps=common)
    more, implementation = item.steps - common, item.implementation

    def charged(cost: CostTracker, *arguments: Any) -> Any:
        cost.charge(more)
        return implementation(cost, *arguments)

    return replace(item, steps=common, implementation=charged)


def _types(parameter: str) -> list[type]:
    """The Python types of the values that a parameter takes."""
    return [type_ for type_, kind in KINDS.items() if parameter in (kind, "any")]


def _binder(bound: dict[str, str]) -> Callable[[str, str], bool]:
    """A function that tells whether a type fits a declared one, and binds type variables in `bound`."""

    def fits(declared: str, given: str) -> bool:
        if _VARIABLE.fullmatch(declared):
            return _alike(bound.setdefault(declared, given), given)
        if "dyn" in (declared, given) or declared == "any":
            return True
        if schema.kind(declared) != schema.kind(given):
            return False
        return not declared.endswith(">") or fits(schema.element(declared), schema.element(given))

    return fits


def _alike(a: str, b: str) -> bool:
    """Whether two static types can be the same; `dyn` can be anything."""
    if a == b or "dyn" in (a, b):
        return True
    return a.endswith(">") and schema.kind(a) == schema.kind(b) and _alike(schema.element(a), schema.element(b))
