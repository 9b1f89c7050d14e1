"""What `tollbar explain` says of a Pod that a gate class holds: what the class makes of a copy of the cluster.

The copy is a value: nothing wakes anybody, nothing is written, and the class is asked once.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tollbar.decide.gates.answers import Answer
from tollbar.runtime.caches import Cached
from tollbar.runtime.store import Store


@dataclass(frozen=True, slots=True)
class Copy:
    """`store` has the kinds that the class declares (`Gate.reads`, `Gate.tells_by`); `now` is in epoch seconds."""

    store: Callable[[Cached], Store]
    now: float


@dataclass(frozen=True, slots=True)
class Section:
    """A table: rows have as many texts as there are heads."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Told:
    """The answer for the Pod as the copy has it, and tables of what it was made by, the most important one first."""

    answer: Answer
    sections: tuple[Section, ...] = ()
