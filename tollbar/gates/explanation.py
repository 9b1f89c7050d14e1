"""What `tollbar explain` shows for a Pod that a gate class holds: the answer of the class on a copy of the cluster.

The class is asked once; nothing is written.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tollbar.decide.gates.answers import Answer
from tollbar.runtime.caches import Cached
from tollbar.runtime.store import Store


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """`store` has the kinds that the class declares (`Gate.reads`, `Gate.explain_reads`); `now` is in epoch seconds."""

    store: Callable[[Cached], Store]
    now: float


@dataclass(frozen=True, slots=True)
class Section:
    """A table: each row has as many texts as there are heads."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class GateExplanation:
    """The answer for the Pod on the copy, and tables that explain it, the most important one first."""

    answer: Answer
    sections: tuple[Section, ...] = ()
