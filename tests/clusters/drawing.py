"""For strategies that draw a lot: Hypothesis takes longer to look at a new strategy than to draw from a known one."""

from collections.abc import Sequence
from functools import cache
from typing import TypeVar

from hypothesis import strategies as st

T = TypeVar("T")


def pick(draw: st.DrawFn, choices: Sequence[T]) -> T:
    """One of the choices, as from `sampled_from`, which would have to be made for these."""
    return choices[draw(_up_to(len(choices) - 1))]


@cache
def _up_to(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most)
