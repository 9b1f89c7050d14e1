"""All functions, methods and operators of the language, in one table.

Equality, order, `in`, indexing and the logical operators are not here: they are defined for all kinds at once, see
values and evaluator.
"""

from typing import Final

from tollbar.cel import conversions, kubernetes, lists, operators, strings, times
from tollbar.cel.functions import Library, library

LIBRARY: Final[Library] = library(
    (
        *operators.OVERLOADS,
        *conversions.OVERLOADS,
        *strings.OVERLOADS,
        *lists.OVERLOADS,
        *times.OVERLOADS,
        *kubernetes.OVERLOADS,
    )
)
CONSTRUCTORS: Final = frozenset({"quantity", "semver", "duration", "timestamp"})
"""Functions of literals alone that are computed, and refused, when the expression is compiled."""
