"""Random well-typed expressions with random inputs, the same for the same seed."""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel.forms import FORMS, LITERALS, Form

VARIABLES: Final[Mapping[str, str]] = {
    "i": "int",
    "j": "int",
    "d": "double",
    "b": "bool",
    "s": "string",
    "t": "string",
    "ints": "list<int>",
    "strings": "list<string>",
    "doubles": "list<double>",
    "counts": "map<int>",
    "labels": "map<string>",
    "lists": "map<list<int>>",
    "x": "dyn",
    "object": "dyn",
}
"""The variables of every generated expression."""

ANY: Final = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration", "list<int>", "list<string>",
              "map<int>", "map<string>", "quantity", "semver", "ip")  # fmt: skip
ORDERED: Final = ("int", "uint", "double", "string", "bool", "bytes", "timestamp", "duration")
RESULTS: Final = ("bool", "bool", "bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration",
                  "list<int>", "list<string>", "list<double>", "map<int>", "map<string>", "optional<int>",
                  "list<list<int>>", "quantity", "dyn", "type", "ip", "cidr", "semver")  # fmt: skip

TEXTS: Final = frozenset(
    {"key", "truth", "numeral", "moment", "span", "amount", "version", "address", "network", "link"}
)
"""Strings that functions expect; sometimes any other string is used instead."""


@dataclass(frozen=True, slots=True)
class Case:
    """An expression and one set of inputs."""

    expression: str
    type: str
    inputs: Mapping[str, Any]


def cases(seed: int, count: int, start: int = 0) -> Iterator[Case]:
    """So many random cases, from number `start`; case n of a seed is always the same."""
    for number in range(start, start + count):
        rng = random.Random(seed * 1_000_003 + number)
        result = rng.choice(RESULTS)
        weights = rng.choice(WEIGHTS)
        expression = Writer(rng, weights=weights).write(result, rng.choice(weights.depths))
        yield Case(expression, result, inputs(rng))


@dataclass(frozen=True, slots=True)
class Weights:
    """How an expression is drawn.

    `depths` to choose from; how often a part is of any other type (`wrong`) or a leaf (`leaves`), and how often a
    variable is named from the root.
    """

    depths: tuple[int, ...] = (1, 2, 2, 3, 3, 4)
    wrong: float = 0.0
    leaves: float = 0.12
    root: float = 0.05


WEIGHTS: Final = (
    *(Weights(),) * 4,
    Weights(depths=(1, 1, 2), wrong=0.1),
    Weights(wrong=0.02),
    Weights(depths=(4, 5, 6), leaves=0.3, root=0.2),
    Weights(depths=(2, 3), leaves=0.02),
)


class Writer:
    """Writes one expression."""

    def __init__(
        self,
        rng: random.Random,
        variables: Mapping[str, str] = VARIABLES,
        room: int = 40,
        weights: Weights = WEIGHTS[0],
    ) -> None:
        self._rng = rng
        self._weights = weights
        self._scope = dict(variables)
        self._room = room

    def write(self, type_: str, depth: int) -> str:
        """An expression of the type, so many forms deep; shallower once it has become long."""
        self._room -= 1
        if type_ in TEXTS and depth > 0 and self._rng.random() < 0.2:
            type_ = "string"
        elif type_ == "index" and self._rng.random() < 0.1:
            type_ = "int"
        if self._weights.wrong and self._rng.random() < self._weights.wrong:
            type_ = self._rng.choice((*RESULTS, "null", "dyn"))
        if depth <= 0 or self._room <= 0 or self._rng.random() < self._weights.leaves:
            return self._leaf(type_)
        fitting = _fitting(type_)
        if not fitting:
            return self._leaf(type_)
        form = self._rng.choice(fitting)
        text = self._fill(form, _unify(form.result, type_) or {}, depth - 1)
        # Without brackets now and then, so that precedence matters as well.
        return text if self._rng.random() < 0.1 else f"({text})"

    def _fill(self, form: Form, bound: dict[str, str], depth: int) -> str:
        bound = {name: self._rng.choice(ANY) for name in ("A", "B")} | {"ordered": self._rng.choice(ORDERED)} | bound
        before = dict(self._scope)
        pieces = [form.pieces[0]]
        late: dict[str, str] = {}
        for operand, text in zip(form.pieces[1::2], form.pieces[2::2], strict=True):
            variable, of, type_ = operand.rpartition(" of ")
            type_ = _substituted(type_, bound)
            if of:
                name = self._rng.choice((variable, f"{variable}{len(before)}"))
                # What a name is bound to cannot refer to it yet.
                (late if form.pieces[0] == "cel.bind(" else self._scope)[name] = type_
                pieces += [name, text]
            else:
                pieces += [self.write(type_, depth), text]
                self._scope |= late
        self._scope = before
        return "".join(pieces)

    def _leaf(self, type_: str) -> str:
        names = [name for name, known in self._scope.items() if known == type_]
        if names and self._rng.random() < 0.6:
            name = self._rng.choice(names)
            return f".{name}" if name in VARIABLES and self._rng.random() < self._weights.root else name
        if type_ == "dyn":
            return f"dyn({self._leaf(self._rng.choice((*ANY, 'null')))})"
        kind, _, inner = type_.removesuffix(">").partition("<")
        match kind:
            case "list":
                return f"[{', '.join(self._leaf(inner) for _ in range(self._rng.choice((0, 1, 2, 3))))}]"
            case "map":
                keys = self._rng.sample(('"a"', '"b"', '"c"', '"é"'), self._rng.choice((0, 1, 2)))
                return f"{{{', '.join(f'{key}: {self._leaf(inner)}' for key in keys)}}}"
            case "optional":
                return f"optional.of({self._leaf(inner)})" if self._rng.random() < 0.7 else "optional.none()"
            case _:
                return self._rng.choice(LITERALS[type_])


_FITTING: dict[str, list[Form]] = {}


def _fitting(type_: str) -> list[Form]:
    if type_ not in _FITTING:
        _FITTING[type_] = [form for form in FORMS if _unify(form.result, type_) is not None]
    return _FITTING[type_]


_NOT_A_TYPE_OF_ITS_OWN: Final = TEXTS | {
    "small",
    "index",
    "seconds",
    "pattern",
    "zone",
    "name",
    "format",
    "type",
    "null",
}


def _unify(pattern: str, type_: str) -> dict[str, str] | None:
    """The binding of A that makes the pattern this type; None if there is none."""
    if pattern == "A":
        return None if type_ in _NOT_A_TYPE_OF_ITS_OWN else {"A": type_}
    if pattern == "ordered":
        return {"ordered": type_} if type_ in ORDERED else None
    outer, _, inner = pattern.partition("<")
    found, _, element = type_.partition("<")
    if outer != found or bool(inner) != bool(element):
        return None
    return _unify(inner.removesuffix(">"), element.removesuffix(">")) if inner else {}


def _substituted(type_: str, bound: Mapping[str, str]) -> str:
    outer, _, inner = type_.partition("<")
    return f"{outer}<{_substituted(inner.removesuffix('>'), bound)}>" if inner else bound.get(type_, type_)


INTS: Final = (0, 1, -1, 2, 3, 7, 60, 255, 2**53, 2**53 + 1, 2**63 - 1, -(2**63))
DOUBLES: Final = (0.0, -0.0, 1.0, 1.5, -2.25, 1e308, 5e-324, 3.0, 1e15, 9007199254740993.0)
STRINGS: Final = (
    "",
    "a",
    "b",
    "ab",
    "é",
    "😀x",
    "a,b",
    "A b\n",
    "12",
    "1.5",
    "1h",
    "1Gi",
    "1.2.3",
    "10.0.0.1",
    "web-1",
)
_NAMES: Final = ("a", "b", "c", "name", "labels")


def inputs(rng: random.Random) -> dict[str, Any]:
    """A value of its type for each of VARIABLES."""
    return {name: _value(rng, type_, 2) for name, type_ in VARIABLES.items()}


def _value(rng: random.Random, type_: str, depth: int) -> Any:
    kind, _, inner = type_.removesuffix(">").partition("<")
    match kind:
        case "int":
            return rng.choice(INTS)
        case "double":
            return rng.choice(DOUBLES)
        case "bool":
            return rng.random() < 0.5
        case "string":
            return rng.choice(STRINGS)
        case "list":
            return [_value(rng, inner, depth) for _ in range(rng.choice((0, 1, 2, 3)))]
        case "map":
            return {name: _value(rng, inner, depth) for name in rng.sample(_NAMES, rng.choice((0, 1, 2, 3)))}
        case _:
            choices = (
                "int",
                "double",
                "bool",
                "string",
                "null",
                *(("list<dyn>", "map<dyn>", "map<dyn>") if depth else ()),
            )
            found = rng.choice(choices)
            return None if found == "null" else _value(rng, found, depth - 1)
