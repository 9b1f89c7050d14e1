"""string.format(): the clauses of version 2 of cel-go's strings extension, in its en_US locale.

As there, %f groups thousands, %e writes its exponent in superscripts, and the precision of %e is a minimum width.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from tollbar.cel.core.limits import MAX_VALUE_DEPTH, CostTracker, Fault
from tollbar.cel.core.values import KINDS, KUBERNETES, TYPE_NAMES, kind
from tollbar.cel.library.basics import DOUBLE_STEPS, decode, shortest, to_int
from tollbar.cel.library.functions import overload
from tollbar.cel.library.strings import charge_quoted, go_quoted
from tollbar.cel.library.times import TEXT_STEPS, duration_text, timestamp_text

MAX_PRECISION: Final = 100
_DEFAULT_PRECISION: Final = 6
_SHORT: Final = 256
"""Characters of a template whose clauses are kept."""
_TEMPLATE_STEPS: Final = 130
_CLAUSE_STEPS: Final = 200
_FIXED_STEPS: Final = 80
_LARGE_STEPS: Final = 1_200
"""For a double with the most digits before its point."""
_LARGE: Final = 1e17
_ITEM_STEPS: Final = 115
"""For the text of an element, a key or a value."""
_CLAUSE: Final = re.compile(r"%(?:(?P<percent>%)|(?P<precision>\.[0-9]*)?(?P<verb>.)?)", re.DOTALL)
_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "+")

_TEXT: Final = frozenset(TYPE_NAMES) - KUBERNETES - {"pattern", "optional_type"}
_TEXT_NAMES: Final = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"
_TAKES: Final[dict[str, tuple[frozenset[str], str]]] = {
    "s": (_TEXT, f"string clause can only be used on {_TEXT_NAMES}"),
    "d": (frozenset({"int", "uint"}), "decimal clause can only be used on integers"),
    "f": (frozenset({"double", "string"}), "fixed-point clause can only be used on doubles"),
    "e": (frozenset({"double", "string"}), "scientific clause can only be used on doubles"),
    "b": (frozenset({"int", "uint", "bool"}), "only integers and bools can be formatted as binary"),
    "x": (
        frozenset({"int", "uint", "string", "bytes"}),
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (frozenset({"int", "uint"}), "octal clause can only be used on integers"),
}
_TAKES["X"] = _TAKES["x"]
"""The kinds that a clause accepts, and its error for others."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One `%...` of a template, from `start` to `end`; the verb is empty for a literal percent sign."""

    start: int
    end: int
    verb: str
    precision: int


def clauses(template: str) -> Iterator[Clause]:
    """The clauses of a template; Fault at the first invalid one."""
    for found in _CLAUSE.finditer(template):
        verb, precision = found["verb"] or "", found["precision"]
        if found["percent"]:
            yield Clause(found.start(), found.end(), "", 0)
            continue
        if not verb and precision is None:
            raise Fault("unexpected end of string")
        if not verb or precision == "." or len(precision or "") > len(str(MAX_PRECISION)) + 1:
            raise Fault("could not parse formatting clause: error while parsing precision")
        places = int(precision[1:]) if precision else _DEFAULT_PRECISION
        if places > MAX_PRECISION:
            raise Fault("could not parse formatting clause: error while parsing precision")
        if verb not in _TAKES:
            raise Fault("could not parse formatting clause: unrecognized formatting clause")
        yield Clause(found.start(), found.end(), verb, places)


@lru_cache(maxsize=256)
def _kept(template: str) -> tuple[Clause, ...] | None:
    """All clauses of a template; None for one with an invalid clause, whose valid ones may fail first."""
    try:
        return tuple(clauses(template))
    except Fault:
        return None


def check(template: str, kinds: list[str]) -> str | None:
    """The error of a literal template for arguments of these kinds (`dyn` fits everywhere), or None."""
    try:
        verbs = [clause.verb for clause in clauses(template) if clause.verb]
    except Fault as fault:
        return fault.message
    for position, verb in enumerate(verbs):
        if position >= len(kinds):
            return f"index {position} out of range"
        if kinds[position] != "dyn" and kinds[position] not in _TAKES[verb][0]:
            return _refusal(verb, kinds[position])
    if len(kinds) > len(verbs):
        return f"too many arguments supplied to string.format (expected {len(verbs)}, got {len(kinds)})"
    return None


def format_(cost: CostTracker, template: str, arguments: list[Any]) -> str:
    """The template with its clauses replaced; superfluous arguments are ignored."""
    cost.charge(_TEMPLATE_STEPS)
    cost.read(len(template))
    pieces: list[str] = []
    last = used = 0
    kept = _kept(template) if len(template) <= _SHORT else None
    for clause in clauses(template) if kept is None else kept:
        cost.charge(_CLAUSE_STEPS)
        pieces.append(template[last : clause.start])
        last = clause.end
        if not clause.verb:
            pieces.append("%")
            continue
        if used >= len(arguments):
            raise Fault(f"index {used} out of range")
        pieces.append(_formatted(cost, clause, arguments[used]))
        used += 1
    pieces.append(template[last:])
    cost.new_string(sum(map(len, pieces)))
    return "".join(pieces)


def _formatted(cost: CostTracker, clause: Clause, value: Any) -> str:
    kind_ = kind(value)
    if type(value) is int:
        to_int(value)  # inputs may have larger ones, of any number of digits
    if kind_ not in _TAKES[clause.verb][0]:
        raise Fault(_refusal(clause.verb, kind_))
    return _VERBS[clause.verb](cost, value, clause)


def _refusal(verb: str, kind_: str) -> str:
    return f"error during formatting: {_TAKES[verb][1]}, was given {TYPE_NAMES.get(kind_, kind_)}"


def _double(value: Any, verb: str) -> float:
    """The argument of %f or %e; strings may name the three doubles that have no literal."""
    if type(value) is str:
        if value not in _WORDS:
            raise Fault(_refusal(verb, "string"))
        return _WORDS[value]
    return float(value) or 0.0  # no negative zero


def _infinite(value: float) -> str | None:
    if math.isfinite(value):
        return None
    return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"


def _fixed(cost: CostTracker, value: Any, clause: Clause) -> str:
    cost.new_string(600)  # what the largest double takes
    number = _double(value, "f")
    _charge_fixed(cost, number)
    return _infinite(number) or f"{number:,.{clause.precision}f}"


def _charge_fixed(cost: CostTracker, number: float) -> None:
    cost.charge(_FIXED_STEPS if abs(number) < _LARGE else _LARGE_STEPS)


def _scientific(cost: CostTracker, value: Any, clause: Clause) -> str:
    cost.charge(_FIXED_STEPS)
    number = _double(value, "e")
    text = _infinite(number)
    if text is None:
        mantissa, _e, exponent = f"{number:.{_DEFAULT_PRECISION}e}".partition("e")
        text = f"{mantissa}×10{exponent.translate(_SUPERSCRIPT)}"
    return text.rjust(clause.precision)


def _hexadecimal(cost: CostTracker, value: Any, clause: Clause) -> str:
    if isinstance(value, str | bytes):
        cost.new_string(2 * len(value))
        text = (value.encode(errors="replace") if isinstance(value, str) else value).hex()
    else:
        text = f"{value:x}"
    return text.upper() if clause.verb == "X" else text


_VERBS: Final[dict[str, Callable[[CostTracker, Any, Clause], str]]] = {
    "s": lambda cost, value, _: text_of(cost, value),
    "d": lambda _, value, __: int.__str__(value),
    "f": _fixed,
    "e": _scientific,
    "b": lambda _, value, __: f"{int(value):b}",
    "x": _hexadecimal,
    "X": _hexadecimal,
    "o": lambda _, value, __: f"{int(value):o}",
}


def text_of(cost: CostTracker, value: Any, depth: int = 0) -> str:
    """The text of a value for %s."""
    match kind(value):
        case "string":
            text = str(value)
        case "bytes":
            text = decode(cost, value)
        case "bool":
            text = "true" if value else "false"
        case "null_type":
            text = "null"
        case "int":
            text = str(to_int(value))
        case "uint":
            text = int.__str__(value)
        case "double":
            cost.charge(DOUBLE_STEPS)
            text = shortest(value)
        case "timestamp":
            cost.charge(TEXT_STEPS)
            text = timestamp_text(value)
        case "duration":
            cost.charge(TEXT_STEPS)
            text = duration_text(value)
        case "type":
            text = value.name
        case "list":
            text = f"[{', '.join(_items(cost, value, depth))}]"
        case "map":
            text = f"{{{', '.join(_entries(cost, value, depth))}}}"
        case other:
            raise Fault(_refusal("s", other))
    cost.new_string(len(text))
    return text


def _items(cost: CostTracker, items: list[Any], depth: int) -> list[str]:
    cost.new_list(len(items))
    return [_literal(cost, item, depth) for item in items]


def _entries(cost: CostTracker, entries: dict[Any, Any], depth: int) -> list[str]:
    """Sorted by the text of the key."""
    cost.new_list(len(entries))
    pairs = sorted((_literal(cost, key, depth), _literal(cost, value, depth)) for key, value in entries.items())
    return [f"{key}:{value}" for key, value in pairs]


def _literal(cost: CostTracker, value: Any, depth: int) -> str:
    """The text of a value within a list or a map, which is nearly a literal of CEL."""
    if depth > MAX_VALUE_DEPTH:
        raise Fault("values are nested too deeply to format")
    cost.charge(_ITEM_STEPS)
    if type(value) is float:
        _charge_fixed(cost, value)
        return f'"{shortest(value)}"' if not math.isfinite(value) else f"{value:.{_DEFAULT_PRECISION}f}"
    text = text_of(cost, value, depth + 1)
    match KINDS[type(value)]:
        case "string":
            charge_quoted(cost, text)
            return go_quoted(text)
        case "bytes":
            charge_quoted(cost, text)
            return f"b{go_quoted(text)}"
        case "timestamp" | "duration" as name:
            return f'{name}("{text}")'
        case _:
            return text


OVERLOADS: Final = (overload("string.format(list<dyn>) -> string", format_),)
