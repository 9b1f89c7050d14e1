"""Limits of an expression and of one evaluation, and how an evaluation is charged for its cost.

Expressions and data both come from users, so every limit is checked before the work is done: the parser sees only text
within the source limits, and an evaluation is charged before each step and each allocation.  The unit of cost is the
step, 10 ns on a machine of 2024: nodes are charged by what they take (`tollbar.cel.engines.prices`), work on data by
its length.
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
MAX_CLASSES: Final = 256
"""Unicode classes (`\\pL`) of all literal regular expressions together; 65 µs each when they are compiled."""
MAX_INSTRUCTIONS: Final = 32_768
"""RE2 instructions of all literal regular expressions together; half a megabyte that lives as long as the program."""
MAX_NUMBER: Final = 64
"""Characters of a number, duration, timestamp or time zone, as a literal or as data."""
PATTERN_MEMORY: Final = 256 * 1024
"""Bytes of a compiled regular expression and its cache."""

# Limits of one evaluation.
MAX_STEPS: Final = 650_000
"""6.5 ms by the price of a step.  The steps that take longest take half as much again: an evaluation ends in 10 ms."""
MAX_STRING: Final = 64 * 1024
MAX_LIST: Final = 10_000
MAX_ALLOCATION: Final = 1024 * 1024
MAX_VALUE_DEPTH: Final = 64
"""Levels of nested lists and maps that a comparison follows."""

# Prices that several modules share, in steps.  Each is what the operation takes at most, as measured with CPython 3.11.
CHARACTERS_PER_STEP: Final = 16
"""Of a text that is compared or hashed."""
SHORT: Final = 64
"""Comparing fewer characters is not charged by length, so that engines may do it in place."""
CHARACTERS_MADE_PER_STEP: Final = 16
ELEMENTS_MADE_PER_STEP: Final = 4
MAKING_STEPS: Final = 17
"""For a string or a list, whatever its length."""
CALL_STEPS: Final = 14
"""For calling a function of the library that does little."""
MEMBER_STEPS: Final = 32
"""For `in` a list, apart from its elements."""
COMPARISON_STEPS: Final = 28
"""For comparing two elements of lists or maps."""
NESTED_STEPS: Final = 65
"""For comparing two lists or maps, apart from their elements."""
OBJECT_STEPS: Final = 25
"""More for two values of a kind that Python does not compare itself, such as timestamps and quantities."""
ORDER_STEPS: Final = 50
"""For the order of two values that are not both integers."""
ESCAPE_STEPS: Final = 18
"""For a character that is not written as it is, in a quoted text."""

# Limits of a message.
MAX_QUOTED: Final = 64
"""Characters of the expression that a message repeats."""


class Fault(Exception):
    """A failure without a place in the expression; the engine turns it into a CelError at the node."""

    def __init__(self, message: str, kind: Kind = RUNTIME) -> None:
        # `args` are set already, by BaseException.__new__.
        self._message = message
        self.kind: Kind = kind
        self.final = kind == BUDGET
        """Whether it ends the evaluation, where && || exists all absorb other failures."""

    @property
    def message(self) -> str:
        return self._message


class CostTracker:
    """What is left of the limits of one evaluation.  Every evaluation has its own."""

    __slots__ = ("_known", "bytes_left", "steps_left")

    def __init__(self, charged: int = 0) -> None:
        self.steps_left = MAX_STEPS - charged
        self.bytes_left = MAX_ALLOCATION
        self._known: set[str] | None = None

    @property
    def charged(self) -> int:
        """Steps so far, including those of the operation that exceeded the limit."""
        return MAX_STEPS - self.steps_left

    def charge(self, steps: int) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise Fault(f"evaluation exceeds the cost limit of {MAX_STEPS} steps", BUDGET)

    def charge_once(self, what: str, steps: int) -> None:
        """Charges for what is read or computed at its first use in the evaluation, and then kept."""
        if self._known is None:
            self._known = set()
        if what not in self._known:
            self.charge(steps)
            self._known.add(what)

    def read(self, length: int) -> None:
        """Charges for looking at so many characters of an existing value; the price of the operation has a few."""
        if length >= SHORT:
            self.charge(length // CHARACTERS_PER_STEP)

    def new_string(self, length: int) -> None:
        """Charges for a string of so many characters, before it is made."""
        if length > MAX_STRING:
            raise Fault("string becomes too large", BUDGET)
        self._allocate(length, MAKING_STEPS + length // CHARACTERS_MADE_PER_STEP)

    def new_list(self, length: int) -> None:
        """Charges for a list, or a map, of so many elements, before it is made."""
        if length > MAX_LIST:
            raise Fault("list becomes too large", BUDGET)
        self._allocate(length * 8, MAKING_STEPS + length // ELEMENTS_MADE_PER_STEP)

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
