"""What the page shows, as values: texts and numbers, in the order in which they are shown.

Everything is bounded, and a section that leaves something out says so in `left_out`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tollbar.cli.simulation.report import State
from tollbar.explain.values import Finding, Remedy

_GIVEN: Final = 100
"""Tolerations that rules gave and that are shown."""
NAMED: Final = 8
"""Rules, or devices, that are named in one cell."""
STATES: Final[dict[State, str]] = {
    "pending": "waits",
    "held": "held by a gate",
    "placed": "has a Node",
    "refused": "refused",
    "gone": "preempted",
}


def left_out(count: int, what: str) -> str:
    """That so many are not shown; empty if that is none."""
    return f"Not shown: {count} more {what}." if count > 0 else ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of the summary, and what it counts."""

    value: str
    label: str


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a Pod's time, in seconds since its creation.  `kind` is held, waiting or running."""

    kind: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Bar:
    """The time of the Pods of a row; `text` says the same in words.  `row` is the id of that row."""

    row: str
    label: str
    text: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Moment:
    """`when` is a time as the API server has it."""

    when: str
    what: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Bars over so many seconds, or moments in their order."""

    seconds: float = 0.0
    bars: tuple[Bar, ...] = ()
    moments: tuple[Moment, ...] = ()
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class PodRow:
    """A Pod, or `count` of them with equal outcomes.

    `id` is what bars and the matrix know the row by.  `origin` is what made the Pods, empty if `label` says it.
    `answer` is the id of the explanation, empty if there is none.
    """

    id: str
    label: str
    count: int
    origin: str
    state: State
    admission: str
    rules: str
    node: str
    devices: str
    pending: str
    answer: str

    @property
    def state_text(self) -> str:
        return STATES[self.state]


@dataclass(frozen=True, slots=True)
class Pods:
    rows: tuple[PodRow, ...]
    left_out: str = ""

    @property
    def states(self) -> tuple[tuple[State, str], ...]:
        """Those of the rows, each with its text."""
        found = {row.state for row in self.rows}
        return tuple((state, text) for state, text in STATES.items() if state in found)


@dataclass(frozen=True, slots=True)
class Cell:
    """What a Node says of a Pod: a letter, the class of its colour, and the whole text."""

    letter: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Mark:
    """A line of a legend."""

    letter: str
    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """Nodes that are alike for every Pod of the matrix: the first, and how many there are."""

    label: str
    count: int

    @property
    def more(self) -> int:
        return self.count - 1

    @property
    def title(self) -> str:
        return f"{self.label} and {self.more} more" if self.more else self.label


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """`row` is the id of the row of these Pods, `answer` that of their explanation."""

    row: str
    label: str
    answer: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: tuple[Column, ...]
    rows: tuple[MatrixRow, ...]
    legend: tuple[Mark, ...]
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A device, as everybody sees it and then as each request does: a letter and a text of each view."""

    name: str
    letters: str
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """`note` says why a pool gives no devices, or how many of its devices are not shown."""

    name: str
    tiles: tuple[Tile, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """A Node, or `count` Nodes whose devices stand alike: the pools are those of the first."""

    label: str
    count: int
    taints: tuple[str, ...]
    pools: tuple[Pool, ...]

    @property
    def more(self) -> int:
        return self.count - 1


@dataclass(frozen=True, slots=True)
class Devices:
    """`views` are the titles of what the tiles show: of everybody first, then of requests."""

    views: tuple[str, ...]
    cards: tuple[Card, ...]
    legend: tuple[Mark, ...]
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """A toleration that a rule gave to `count` Pods, some of which are named."""

    rule: str
    toleration: str
    via: str
    count: int
    pods: tuple[str, ...]

    @property
    def more(self) -> int:
        return self.count - len(self.pods)


@dataclass(frozen=True, slots=True)
class Tolerations:
    """Those that rules gave."""

    rows: tuple[Given, ...]
    left_out: str = ""

    @classmethod
    def of(cls, given: Sequence[Given]) -> "Tolerations":
        """The first of these."""
        return cls(tuple(given[:_GIVEN]), left_out(len(given) - _GIVEN, "tolerations"))


@dataclass(frozen=True, slots=True)
class Table:
    """The first rows of a table that has `count`; each has as many texts as there are heads."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    count: int
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """Why a Pod waits, and how many wait like it.

    `helpful` and `others` are what was tried, by whether it helps; `said` is what the scheduler core says.
    """

    id: str
    label: str
    count: int
    findings: tuple[Finding, ...]
    helpful: tuple[Remedy, ...]
    others: tuple[Remedy, ...]
    tables: tuple[Table, ...]
    said: str
    left_out: str = ""

    @property
    def more(self) -> int:
        return self.count - 1


@dataclass(frozen=True, slots=True)
class Page:
    """`notes` are sentences about what is known and what is not; a section that has nothing to show is None."""

    title: str
    headline: str
    subtitle: str
    figures: tuple[Figure, ...]
    pods: Pods
    timeline: Timeline | None
    matrix: Matrix | None
    devices: Devices | None
    tolerations: Tolerations
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
