"""Regular expressions: matches(), and Kubernetes' find() and findAll().

The engine is RE2, where one search takes time linear in the text, whatever the pattern.  How far a search looks beyond
its match is not known, so each is charged for all that is left of the text.  A literal pattern is compiled with the
expression (Pattern); any other is compiled, and charged, at each call.
"""

import re
from functools import lru_cache, partial
from typing import Any, Final

import re2

from tollbar.cel.core.limits import MAX_PATTERN, PATTERN_MEMORY, CostTracker, Fault
from tollbar.cel.core.values import Pattern
from tollbar.cel.library.functions import overload

_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""`\\C`, one byte of a character: Go's regular expressions do not have it."""
_WORK_PER_STEP: Final = 2
"""Characters times RE2 instructions: what the slowest matcher of RE2 does in the time of a step."""
_BYTES_PER_STEP: Final = 2
"""For finding the places of a match in the text."""
_MATCH_STEPS: Final = 330
"""For one search, whatever the length of the text."""
_FOUND_STEPS: Final = 280
"""For the text of a match."""
_PATTERN_STEPS: Final = 100_000
"""For compiling a regular expression that is not a literal."""
_PATTERN_STEPS_PER_CHARACTER: Final = 500
_PATTERN_STEPS_PER_CLASS: Final = 10_000
_STEPS_PER_INSTRUCTION: Final = 25
"""For RE2 instructions of the compiled expression, charged once their number is known."""
_CACHED: Final = 256
_SHORT: Final = 128
"""Characters of a text whose result is cached: calling RE2 takes longer than most matches."""


def compiled(text: str) -> Pattern:
    """The pattern; Fault if it is invalid, too long, or too large when compiled."""
    if len(text) > MAX_PATTERN:
        raise Fault(f"regular expression is longer than {MAX_PATTERN} characters")
    if _BYTE.search(text):
        raise Fault("invalid regular expression")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.never_capture = True
    options.log_errors = False  # RE2 would write the pattern to standard error
    try:
        regexp = re2.compile(text, options)
    except (re2.error, UnicodeError):
        raise Fault("invalid regular expression") from None
    return Pattern(regexp, regexp.programsize, lru_cache(maxsize=_CACHED)(partial(_found, regexp)))


def unicode_classes(pattern: str) -> int:
    """How many classes by Unicode property the pattern has; each has hundreds of ranges."""
    return pattern.count(r"\p") + pattern.count(r"\P")


def _found(regexp: Any, text: str) -> bool:
    return regexp.search(text) is not None


def _prepared(cost: CostTracker, pattern: Pattern | str) -> Pattern:
    if isinstance(pattern, Pattern):
        return pattern
    classes = _PATTERN_STEPS_PER_CLASS * unicode_classes(pattern)
    cost.charge(_PATTERN_STEPS + _PATTERN_STEPS_PER_CHARACTER * len(pattern) + classes)
    found = compiled(pattern)
    cost.charge(found.size * _STEPS_PER_INSTRUCTION)
    return found


def _charge(cost: CostTracker, length: int, pattern: Pattern) -> None:
    """Charges for one search in a text of so many bytes."""
    cost.charge(_MATCH_STEPS + length * pattern.size // _WORK_PER_STEP + length // _BYTES_PER_STEP)


def _searched(cost: CostTracker, text: str, pattern: Pattern) -> int:
    """Charges for the first search in the text, and returns its length in UTF-8, which is what RE2 reads."""
    _charge(cost, len(text), pattern)
    if text.isascii():
        return len(text)
    try:
        length = len(text.encode())
    except UnicodeError:
        raise Fault("string is not valid Unicode") from None
    cost.charge((length - len(text)) * pattern.size // _WORK_PER_STEP)
    return length


def matches(cost: CostTracker, text: str, pattern: Pattern | str) -> bool:
    pattern = _prepared(cost, pattern)
    _searched(cost, text, pattern)
    return pattern.found_in_short(text) if len(text) <= _SHORT else _found(pattern.regexp, text)


def find(cost: CostTracker, text: str, pattern: Pattern | str) -> str:
    pattern = _prepared(cost, pattern)
    _searched(cost, text, pattern)
    cost.charge(_FOUND_STEPS)
    found = pattern.regexp.search(text)
    return found[0] if found else ""


def find_all(cost: CostTracker, text: str, pattern: Pattern | str, limit: int = -1) -> list[str]:
    """All matches; as in Go, an empty match directly after another match does not count."""
    pattern = _prepared(cost, pattern)
    rest = _searched(cost, text, pattern)
    searches = pattern.regexp.finditer(text)
    found: list[str] = []
    end = 0
    while not 0 <= limit <= len(found) and (match := next(searches, None)) is not None:
        rest -= len(text[end : match.end()].encode())
        behind, end = end, match.end()
        _charge(cost, rest, pattern)
        cost.charge(_FOUND_STEPS)
        if found and match.start() == end == behind:
            continue
        cost.new_list(1)
        cost.new_string(len(match[0]))
        found.append(match[0])
    return found


OVERLOADS: Final = (
    overload("string.matches(string) -> bool", matches),
    overload("string.matches(pattern) -> bool", matches),
    overload("matches(string, string) -> bool", matches),
    overload("matches(string, pattern) -> bool", matches),
    overload("string.find(string) -> string", find),
    overload("string.find(pattern) -> string", find),
    overload("string.findAll(string) -> list<string>", find_all),
    overload("string.findAll(pattern) -> list<string>", find_all),
    overload("string.findAll(string, int) -> list<string>", find_all),
    overload("string.findAll(pattern, int) -> list<string>", find_all),
)
PATTERN_ARGUMENT: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is compiled with the expression if it is a literal."""
