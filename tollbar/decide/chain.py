"""A decision as a chain: short functions whose order is the specification.

Each looks at the same case, and says None where the case is not its business; the first one that answers decides.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

C = TypeVar("C")
A = TypeVar("A")
Chain: TypeAlias = Sequence[Callable[[C], A | None]]


def first_answer(chain: Chain[C, A], case: C) -> A | None:
    """The answer of the first function that has one."""
    for function in chain:
        if (answer := function(case)) is not None:
            return answer
    return None
