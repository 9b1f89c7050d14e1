"""Static types of expressions, and the fields that API objects have.

A type is a string: a kind (`string`, `int`, `dyn`, ...), `list<T>`, `map<T>`, or the name of an API type of
schema.json, whose values are maps with known keys.  `dyn` is anything: nothing is ever refused about it.  The file
is read on first use; scripts/generate_schema.py writes it.
"""

import json
from functools import cache
from importlib import resources
from typing import cast


@cache
def types() -> dict[str, dict[str, str]]:
    """Field types by field, by API type."""
    text = resources.files("tollbar.cel").joinpath("schema.json").read_text(encoding="utf-8")
    return cast("dict[str, dict[str, str]]", json.loads(text))


def fields(type_: str) -> dict[str, str] | None:
    """The fields of an API type; None for any other type."""
    return types().get(type_)


def kind(type_: str) -> str:
    """The kind that values of the type have at run time, or `dyn`."""
    if type_.startswith("list<"):
        return "list"
    return "map" if type_.startswith("map<") or type_ in types() else type_


def element(type_: str) -> str:
    """The type of the elements of a list, or of the values of a map; `dyn` when it is not known."""
    return type_[type_.index("<") + 1 : -1] if type_.endswith(">") else "dyn"


def common(a: str, b: str) -> str:
    """The type of a value that is one or the other."""
    return a if a == b else "dyn"
