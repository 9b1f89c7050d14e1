"""Limits of an expression and of one evaluation, and how an evaluation is charged for its cost.

Expressions and data both come from users, so every limit is checked before the work is done: the parser sees only text
within the source limits, and an evaluation is charged before each step and each allocation.  The unit of cost is the
step: one visited node, about half a microsecond.  Work on data is charged by its length.
"""

from typing import Final

from tollbar.cel.core.interface import BUDGET, RUNTIME, Kind

# Limits of an expression.
MAX_SOURCE: Final = 10 * 1024
"""Bytes in UTF-8, what Kubernetes allows a CEL expression in a device selector."""
MAX_TERMS: Final = 1_000
"""Names and literals."""
MAX_TOKENS: Final = 4_000
"""Words, signs and brackets; bounds the time of parsing."""
MAX_DEPTH: Final = 60
"""Nested brackets, and nested operations."""
MAX_PATTERN: Final = 1024
"""Characters in a regular expression."""
MAX_PATTERNS: Final = 32
"""Literal regular expressions in an expression; some take milliseconds to compile."""
MAX_INSTRUCTIONS: Final = 32_768
"""RE2 instructions of all literal regular expressions together; half a megabyte that lives as long as the program."""
MAX_NUMBER: Final = 64
"""Characters of a number, duration, timestamp or time zone, as a literal or as data."""
PATTERN_MEMORY: Final = 256 * 1024
"""Bytes of a compiled regular expression and its cache."""

# Limits and prices of one evaluation.
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
"""Characters times RE2 instructions: what the slowest matcher of RE2 does in the time of a step."""
PARSE_STEPS: Final = 20
"""For parsing a quantity, version, timestamp or duration."""
ZONE_STEPS: Final = 200
"""For a named time zone, which may have to be read from the zone database."""
MATCH_STEPS: Final = 10
"""For one search, whatever the length of the text."""
PATTERN_STEPS: Final = 1_000
"""For compiling a regular expression that is not a literal."""
PATTERN_STEPS_PER_CHARACTER: Final = 10
PATTERN_STEPS_PER_CLASS: Final = 200
"""For each Unicode class in it, which has hundreds of ranges."""
INSTRUCTIONS_PER_STEP: Final = 2
"""RE2 instructions of the compiled expression, charged once their number is known."""

# Limits of a message.
MAX_QUOTED: Final = 64
"""Characters of the expression that a message repeats."""


class Fault(Exception):
    """A failure without a place in the expression; the engine turns it into a CelError at the node."""

    def __init__(self, message: str, kind: Kind = RUNTIME) -> None:
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind
        self.final = kind == BUDGET
        """Whether it ends the evaluation, where && || exists all absorb other failures."""


class CostTracker:
    """What is left of the limits of one evaluation.  Every evaluation has its own."""

    __slots__ = ("bytes_left", "steps_left")

    def __init__(self, charged: int = 0) -> None:
        self.steps_left = MAX_STEPS - charged
        self.bytes_left = MAX_ALLOCATION

    @property
    def charged(self) -> int:
        """Steps so far, including those of the operation that exceeded the limit."""
        return MAX_STEPS - self.steps_left

    def charge(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise Fault(f"evaluation exceeds the cost limit of {MAX_STEPS} steps", BUDGET)

    def read(self, length: int) -> None:
        """Charges for looking at so many characters or elements of an existing value."""
        self.charge(length // CHARACTERS_PER_STEP)

    def new_string(self, length: int) -> None:
        """Charges for a string of so many characters, before it is made."""
        if length > MAX_STRING:
            raise Fault("string becomes too large", BUDGET)
        self._allocate(length, length // CHARACTERS_MADE_PER_STEP)

    def new_list(self, length: int) -> None:
        """Charges for a list, or a map, of so many elements, before it is made."""
        if length > MAX_LIST:
            raise Fault("list becomes too large", BUDGET)
        self._allocate(length * 8, length // ELEMENTS_MADE_PER_STEP)

    def _allocate(self, size: int, steps: int) -> None:
        self.charge(steps)
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise Fault("evaluation needs too much memory", BUDGET)


def shortened(text: str) -> str:
    """A part of the expression, cut to fit a message."""
    return text if len(text) <= MAX_QUOTED else f"{text[:MAX_QUOTED]}…"


def quoted(text: str) -> str:
    return f"'{shortened(text)}'"
