"""Regular expressions: matches(), and Kubernetes' find() and findAll().

Patterns are RE2: linear in the text, whatever the pattern.  A pattern that is a literal is compiled with the
expression (Pattern); others are compiled at each call, and paid for.
"""

import re
from functools import lru_cache, partial
from typing import Any, Final

import re2

from tollbar.cel.functions import overload
from tollbar.cel.limits import (
    INSTRUCTIONS_PER_STEP,
    MATCH_STEPS,
    MAX_PATTERN,
    PATTERN_MEMORY,
    PATTERN_STEPS,
    PATTERN_STEPS_PER_CHARACTER,
    PATTERN_STEPS_PER_CLASS,
    PATTERN_WORK_PER_STEP,
    Budget,
    Fault,
)
from tollbar.cel.values import Pattern

_BYTE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""`\\C`, one byte of a character: Go's expressions do not have it."""
_REMEMBERED: Final = 256
_SHORT: Final = 128
"""Characters of a text that is remembered: the way into RE2 takes longer than most matches."""


def compiled(text: str) -> Pattern:
    """A pattern; Fault if it is none, too long, or too large when compiled."""
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
    return Pattern(regexp, regexp.programsize, lru_cache(maxsize=_REMEMBERED)(partial(_found, regexp)))


def _found(regexp: Any, text: str) -> bool:
    return _valid(regexp, text).search(text) is not None


def _valid(regexp: Any, text: str) -> Any:
    try:
        text.isascii() or text.encode()
    except UnicodeError:
        raise Fault("string is not valid Unicode") from None
    return regexp


def _prepared(budget: Budget, text: str, pattern: Pattern | str) -> Any:
    """The compiled pattern, with the matching of the text paid for."""
    if isinstance(pattern, str):
        classes = pattern.count(r"\p") + pattern.count(r"\P")
        budget.spend(PATTERN_STEPS + PATTERN_STEPS_PER_CHARACTER * len(pattern) + PATTERN_STEPS_PER_CLASS * classes)
        pattern = compiled(pattern)
        budget.spend(pattern.size // INSTRUCTIONS_PER_STEP)
    budget.spend(MATCH_STEPS + len(text) * pattern.size // PATTERN_WORK_PER_STEP)
    return _valid(pattern.regexp, text)


def matches(budget: Budget, text: str, pattern: Pattern | str) -> bool:
    if type(pattern) is Pattern and len(text) <= _SHORT:
        budget.spend(MATCH_STEPS + len(text) * pattern.size // PATTERN_WORK_PER_STEP)
        return pattern.remembered(text)
    return _prepared(budget, text, pattern).search(text) is not None


def find(budget: Budget, text: str, pattern: Pattern | str) -> str:
    found = _prepared(budget, text, pattern).search(text)
    return found[0] if found else ""


def find_all(budget: Budget, text: str, pattern: Pattern | str, limit: int = -1) -> list[str]:
    """All matches; like in Go, an empty match right behind another match is none."""
    found: list[str] = []
    end = -1
    for match in _prepared(budget, text, pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        budget.spend(MATCH_STEPS)
        if match.start() == match.end() == end:
            continue
        end = match.end()
        budget.new_list(1)
        budget.new_string(len(match[0]))
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
"""Functions whose second argument, when a literal, is compiled with the expression."""
