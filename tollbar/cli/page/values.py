"""What the page shows, as values: texts and numbers, in the order in which they are shown."""

from dataclasses import dataclass

from tollbar.explain.values import PodExplanation


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
    """The time of a Pod, or of several with equal outcomes; `text` says the same in words."""

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

    `state` is placed, pending, held or refused.  `answer` is the id of the explanation, empty if there is none.
    """

    label: str
    count: int
    origin: str
    state: str
    admission: str
    rules: str
    node: str
    devices: str
    pending: str
    answer: str


@dataclass(frozen=True, slots=True)
class Pods:
    rows: tuple[PodRow, ...]
    left_out: str = ""


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


@dataclass(frozen=True, slots=True)
class MatrixRow:
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


@dataclass(frozen=True, slots=True)
class Answer:
    """Why a Pod waits, and how many wait like it."""

    id: str
    count: int
    found: PodExplanation


@dataclass(frozen=True, slots=True)
class Page:
    """`notes` are sentences about what is known and what is not; `tolerations` are those that rules gave."""

    title: str
    headline: str
    subtitle: str
    figures: tuple[Figure, ...]
    timeline: Timeline
    pods: Pods
    matrix: Matrix
    devices: Devices
    tolerations: tuple[Given, ...]
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()
