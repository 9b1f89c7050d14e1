"""How much an expression, and one evaluation of it, may cost.

Every limit is checked before the work is done, so a rule cannot take the process down with it: the parser sees only
text that passed the source limits, and evaluation pays from a Budget before each step and each allocation.
A step is one visited node, about half a microsecond; work on data is charged in steps by its length.
"""

from typing import Final

from tollbar.cel.core.interface import BUDGET, RUNTIME, Kind

# Of an expression.
MAX_SOURCE: Final = 10 * 1024
"""Bytes in UTF-8, what Kubernetes allows a CEL expression in a device selector."""
MAX_TERMS: Final = 1_000
"""Names and literals."""
MAX_TOKENS: Final = 4_000
"""Words, signs and brackets: bounds the time that the parser takes."""
MAX_DEPTH: Final = 60
"""Of brackets, and of nested operations."""
MAX_PATTERN: Final = 1024
"""Characters in a regular expression."""
MAX_PATTERNS: Final = 32
"""Literal regular expressions; some take milliseconds to compile."""
MAX_INSTRUCTIONS: Final = 32_768
"""Of all of them, compiled; half a megabyte that lives as long as the program."""
MAX_NUMBER: Final = 64
"""Characters in a number, duration, timestamp or time zone, as literal or as data."""
PATTERN_MEMORY: Final = 256 * 1024
"""Bytes for a compiled regular expression and its cache."""

# Of one evaluation.
MAX_STEPS: Final = 10_000
MAX_STRING: Final = 64 * 1024
MAX_LIST: Final = 10_000
MAX_ALLOCATION: Final = 1024 * 1024
MAX_VALUE_DEPTH: Final = 64
"""Levels of nested lists and maps that a comparison follows."""

CHARACTERS_PER_STEP: Final = 64
CHARACTERS_MADE_PER_STEP: Final = 256
ELEMENTS_MADE_PER_STEP: Final = 16
PATTERN_WORK_PER_STEP: Final = 64
"""Characters times pattern instructions: what the slowest matcher of RE2 does in the time of a step."""
PARSE_STEPS: Final = 20
"""For reading a quantity, version, timestamp or duration."""
ZONE_STEPS: Final = 200
"""For a named time zone, which may have to be read from the zone database."""
MATCH_STEPS: Final = 10
"""For one match, whatever its length."""
PATTERN_STEPS: Final = 1_000
"""For compiling a regular expression that is not a literal."""
PATTERN_STEPS_PER_CHARACTER: Final = 10
PATTERN_STEPS_PER_CLASS: Final = 200
"""For a Unicode class in it, which has hundreds of ranges."""
INSTRUCTIONS_PER_STEP: Final = 2
"""Of what it is compiled to, which is known only then."""

# Of an answer.
MAX_QUOTED: Final = 64
"""Characters of the expression that a message repeats."""


class Fault(Exception):
    """A failure whose place in the expression its raiser does not know.  Becomes a CelError at the node."""

    def __init__(self, message: str, kind: Kind = RUNTIME) -> None:
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind
        self.final = kind == BUDGET
        """Whether nothing can absorb it."""


class Budget:
    """What one evaluation may still spend.  Not shared: every evaluation has its own."""

    __slots__ = ("allocation", "steps")

    def __init__(self, spent: int = 0) -> None:
        self.steps = MAX_STEPS - spent
        self.allocation = MAX_ALLOCATION

    def spend(self, steps: int) -> None:
        self.steps -= steps
        if self.steps < 0:
            raise Fault("evaluation needs too many steps", BUDGET)

    def read(self, length: int) -> None:
        """For looking at so many characters or elements of something that exists."""
        self.spend(length // CHARACTERS_PER_STEP)

    def new_string(self, length: int) -> None:
        """Before making a string of so many characters."""
        if length > MAX_STRING:
            raise Fault("string becomes too large", BUDGET)
        self._allocate(length, length // CHARACTERS_MADE_PER_STEP)

    def new_list(self, length: int) -> None:
        """Before making a list, or a map, of so many elements."""
        if length > MAX_LIST:
            raise Fault("list becomes too large", BUDGET)
        self._allocate(length * 8, length // ELEMENTS_MADE_PER_STEP)

    def _allocate(self, size: int, steps: int) -> None:
        self.spend(steps)
        self.allocation -= size
        if self.allocation < 0:
            raise Fault("evaluation needs too much memory", BUDGET)


def shortened(text: str) -> str:
    """A part of the expression for a message."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def quoted(text: str) -> str:
    return f"'{shortened(text)}'"
