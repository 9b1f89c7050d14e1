"""Work that can be paused: a search that would hold an event loop for too long gives others a turn in between."""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""A generator that yields wherever others may run, and returns its result."""


def result_of(steps: Steps[T]) -> T:
    """The result of the steps, all made at once.  Raises what they raise."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
