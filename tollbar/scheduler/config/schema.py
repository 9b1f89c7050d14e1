"""Decoding by the Go types of the API: unknown fields and wrong types have kube-scheduler's texts.

Source: the strict decoder of k8s.io/apimachinery, and encoding/json.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

_SIZES: Final = {"int32": 2**31, "int64": 2**63}
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART: Final = re.compile(r"(\d+\.?\d*|\.\d+)([^\d.]*)")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type of Go by its name: string, bool, int32, int64, float32; or a Duration, which is decoded into seconds."""

    go: str


@dataclass(frozen=True, slots=True)
class Struct:
    """`go` is the name of the type with its package, such as `v1.ScoringStrategy`."""

    go: str
    fields: "Mapping[str, Type]"


@dataclass(frozen=True, slots=True)
class ListOf:
    element: "Type"

    @property
    def go(self) -> str:
        return f"[]{self.element.go}"


@dataclass(frozen=True, slots=True)
class MapOf:
    """Texts by texts."""

    go: str = "map[string]string"


@dataclass(frozen=True, slots=True)
class Anything:
    """Taken as it is."""

    go: str = ""


Type: TypeAlias = Scalar | Struct | ListOf | MapOf | Anything
STRING: Final = Scalar("string")
BOOL: Final = Scalar("bool")
INT32: Final = Scalar("int32")
INT64: Final = Scalar("int64")
FLOAT32: Final = Scalar("float32")
DURATION: Final = Scalar("Duration")


@dataclass(slots=True)
class Decoder:
    """Decodes one object.  `unknown` and `wrong` collect the paths of unknown fields, and texts about wrong types."""

    unknown: list[str] = field(default_factory=list)
    wrong: list[tuple[str, str]] = field(default_factory=list)

    def decode(self, value: Any, kind: Struct) -> dict[str, Any]:
        """The known fields of an object that have a value of their type."""
        return self._struct(value, kind, "", ())

    def _struct(self, value: dict[str, Any], kind: Struct, path: str, names: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        owner = kind.go.rpartition(".")[2]
        for name, given in value.items():
            below = f"{path}.{name}" if path else name
            if name not in kind.fields:
                self.unknown.append(below)
            elif given is not None:
                decoded = self._value(given, kind.fields[name], below, owner, (*names, name))
                if decoded is not None:
                    found[name] = decoded
        return found

    def _value(self, value: Any, kind: Type, path: str, owner: str, names: tuple[str, ...]) -> Any:
        """None for a value of a wrong type."""
        match kind:
            case Anything():
                return value
            case Struct() if isinstance(value, dict):
                return self._struct(value, kind, path, names)
            case ListOf(element) if isinstance(value, list):
                empty: Any = "" if element is STRING else {}
                items = [
                    self._value(empty if each is None else each, element, f"{path}[{index}]", owner, names)
                    for index, each in enumerate(value)
                ]
                return [each for each in items if each is not None]
            case MapOf() if isinstance(value, dict):
                return {key: each for key, each in value.items() if isinstance(each, str)}
            case Scalar("string") if isinstance(value, str):
                return value
            case Scalar("bool") if isinstance(value, bool):
                return value
            case Scalar("Duration") if isinstance(value, str):
                try:
                    return go_duration(value)
                except ValueError as error:
                    self.wrong.append((path, str(error)))
                    return None
            case Scalar("int32" | "int64") if _is_whole(value) and -_SIZES[kind.go] <= value < _SIZES[kind.go]:
                return int(value)
            case Scalar("float32") if _is_number(value):
                return float(value)
        go = "string" if kind is DURATION else kind.go
        found = _json_kind(value, in_full=go in ("int32", "int64"))
        text = f"json: cannot unmarshal {found} into Go struct field {owner}.{'.'.join(names)} of type {go}"
        self.wrong.append((path, text))
        return None


def go_duration(text: str) -> float:
    """Seconds of a duration as time.ParseDuration reads it, such as `1h30m` or `-1.5s`.  Raises ValueError."""
    rest = text.removeprefix("-").removeprefix("+") if text[:2] not in ("-+", "+-") else ""
    if rest == "0":
        return 0.0
    if not rest or not re.fullmatch(f"(?:{_DURATION_PART.pattern})+", rest):
        raise ValueError(f'time: invalid duration "{text}"')
    seconds = 0.0
    for number, unit in _DURATION_PART.findall(rest):
        if not unit:
            raise ValueError(f'time: missing unit in duration "{text}"')
        if unit not in _UNITS:
            raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
        seconds += float(number) * _UNITS[unit]
    return round(-seconds if text.startswith("-") else seconds, 9)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    return _is_number(value) and value == int(value)


def _json_kind(value: Any, *, in_full: bool) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return f"number {value}" if in_full else "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
