"""A decision as a chain: short functions whose order is the specification.

Each gets the same case and returns None if it does not apply; the first one that returns an answer decides.
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
