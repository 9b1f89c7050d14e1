"""The table of all functions, methods and arithmetic operators of the language.

Equality, order, `in`, indexing and the logical operators are not in it, because they are defined for all kinds at once:
see `tollbar.cel.core.values` and `tollbar.cel.engines.operations`.
"""

from typing import Final

from tollbar.cel.library import (
    basics,
    lists,
    named_formats,
    network,
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
        *basics.OVERLOADS,
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
CONVERSIONS: Final = frozenset({"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp"})
CONSTRUCTORS: Final = CONVERSIONS | {"quantity", "semver", "url", "ip", "cidr"}
"""Functions that are computed when the expression is compiled, if all arguments are literals."""
