"""All functions, methods and operators of the language, in one table.

Equality, order, `in`, indexing and the logical operators are not here: they are defined for all kinds at once, see
values and operations.
"""

from typing import Final

from tollbar.cel.library import (
    conversions,
    lists,
    named_formats,
    network,
    operators,
    optionals,
    patterns,
    quantities,
    string_format,
    strings,
    times,
    urls,
)
from tollbar.cel.library.functions import Library, library

LIBRARY: Final[Library] = library(
    (
        *operators.OVERLOADS,
        *conversions.OVERLOADS,
        *strings.OVERLOADS,
        *string_format.OVERLOADS,
        *patterns.OVERLOADS,
        *lists.OVERLOADS,
        *times.OVERLOADS,
        *optionals.OVERLOADS,
        *quantities.OVERLOADS,
        *network.OVERLOADS,
        *urls.OVERLOADS,
        *named_formats.OVERLOADS,
    )
)
NAMESPACED: Final = frozenset(name for name, _ in LIBRARY.groups if "." in name)
"""Functions whose names have a namespace, such as `optional.of`."""
_BASIC: Final = frozenset({"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"})
CONSTRUCTORS: Final = _BASIC | {"quantity", "semver", "url", "ip", "cidr"}
"""Functions of literals alone that are computed, and refused, when the expression is compiled."""
