"""All functions, methods and operators of the language, in one table.

Equality, order, `in`, indexing and the logical operators are not here: they are defined for all kinds at once, see
values and operations.
"""

from typing import Final

from tollbar.cel import (
    conversions,
    formats,
    formatting,
    kubernetes,
    lists,
    network,
    operators,
    optionals,
    patterns,
    strings,
    times,
    urls,
)
from tollbar.cel.functions import Library, library

LIBRARY: Final[Library] = library(
    (
        *operators.OVERLOADS,
        *conversions.OVERLOADS,
        *strings.OVERLOADS,
        *formatting.OVERLOADS,
        *patterns.OVERLOADS,
        *lists.OVERLOADS,
        *times.OVERLOADS,
        *optionals.OVERLOADS,
        *kubernetes.OVERLOADS,
        *network.OVERLOADS,
        *urls.OVERLOADS,
        *formats.OVERLOADS,
    )
)
_BASIC: Final = frozenset({"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"})
CONSTRUCTORS: Final = _BASIC | {"quantity", "semver", "url", "ip", "cidr"}
"""Functions of literals alone that are computed, and refused, when the expression is compiled."""
