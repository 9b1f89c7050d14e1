"""Static types of expressions, and the fields that API objects have.

A type is a string: a kind (`string`, `int`, `dyn`, ...), `list<T>`, `map<T>`, `optional_type<T>`, or the name of an
API type of schema.json, whose values are maps with known keys: of Pods, claims, classes and namespaces those that a
package has.  `dyn` is anything: nothing is ever refused about it.
The file is read on first use; scripts/generate_schema.py writes it.
"""

import json
from functools import cache
from importlib import resources
from typing import Final, cast


@cache
def types() -> dict[str, dict[str, str]]:
    """Field types by field, by API type."""
    text = resources.files("tollbar.cel.core").joinpath("schema.json").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, str]]", json.loads(text))


def fields(type_: str) -> dict[str, str] | None:
    """The fields of an API type; None for any other type."""
    return types().get(type_)


def kind(type_: str) -> str:
    """The kind that values of the type have at run time, or `dyn`."""
    bare = type_.partition("<")[0]
    return "map" if bare in types() else bare


def element(type_: str) -> str:
    """The type of the elements of a list, of the values of a map, of an optional's value; `dyn` if not known."""
    return type_[type_.index("<") + 1 : -1] if type_.endswith(">") else "dyn"


def common(a: str, b: str) -> str:
    """The type of a value that is one or the other."""
    return a if a == b else "dyn"


def alike(a: str, b: str) -> bool:
    """Whether a value can be of both types; what is not known can be anything, and an API object can be null."""
    if a == b or "dyn" in (a, b):
        return True
    if "null_type" in (a, b):
        other = b if a == "null_type" else a
        return other in types() or kind(other) in NULLABLE
    if a.endswith(">") and b.endswith(">"):
        return kind(a) == kind(b) and alike(element(a), element(b))
    # A literal map may be compared with an API object.
    return kind(a) == kind(b) == "map"


NULLABLE: Final = frozenset(
    {"timestamp", "duration", "optional_type", "quantity", "semver", "url", "ip", "cidr", "format"}
)
"""Kinds that the type checker of CEL lets stand beside null, API objects aside."""
