"""The string functions: those of CEL, of cel-go's strings extension, and Kubernetes' find() and findAll().

Positions count characters.  Patterns are RE2: linear in the text, whatever the pattern.
"""

from typing import Any, Final

import re2

from tollbar.cel.functions import overload
from tollbar.cel.limits import (
    MATCH_STEPS,
    MAX_PATTERN,
    PATTERN_MEMORY,
    PATTERN_STEPS,
    PATTERN_STEPS_PER_CHARACTER,
    PATTERN_WORK_PER_STEP,
    Budget,
    Fault,
)
from tollbar.cel.values import Pattern

_LOWER: Final = {ord(character): character.lower() for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER: Final = {ord(character): character.upper() for character in "abcdefghijklmnopqrstuvwxyz"}
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


def compiled(text: str) -> Pattern:
    """A pattern; Fault if it is none, too long, or too large when compiled."""
    if len(text) > MAX_PATTERN:
        raise Fault(f"regular expression is longer than {MAX_PATTERN} characters")
    options = re2.Options()
    options.max_mem = PATTERN_MEMORY
    options.never_capture = True
    options.log_errors = False  # RE2 would write the pattern to standard error
    try:
        return Pattern(re2.compile(text, options))
    except (re2.error, UnicodeError):
        raise Fault("invalid regular expression") from None


def _pattern(budget: Budget, pattern: Pattern | str) -> Any:
    if isinstance(pattern, str):
        budget.spend(PATTERN_STEPS + PATTERN_STEPS_PER_CHARACTER * len(pattern))
        pattern = compiled(pattern)
    return pattern.regexp


def _prepared(budget: Budget, text: str, pattern: Pattern | str) -> Any:
    """The compiled pattern, with the matching of the text paid for."""
    regexp = _pattern(budget, pattern)
    budget.spend(MATCH_STEPS + len(text) * regexp.programsize // PATTERN_WORK_PER_STEP)
    try:
        text.isascii() or text.encode()
    except UnicodeError:
        raise Fault("string is not valid Unicode") from None
    return regexp


def matches(budget: Budget, text: str, pattern: Pattern | str) -> bool:
    return _prepared(budget, text, pattern).search(text) is not None


def find(budget: Budget, text: str, pattern: Pattern | str) -> str:
    found = _prepared(budget, text, pattern).search(text)
    return found[0] if found else ""


def find_all(budget: Budget, text: str, pattern: Pattern | str, limit: int = -1) -> list[str]:
    found: list[str] = []
    for match in _prepared(budget, text, pattern).finditer(text):
        if 0 <= limit <= len(found):
            break
        budget.spend(MATCH_STEPS)
        budget.new_list(1)
        budget.new_string(len(match[0]))
        found.append(match[0])
    return found


def contains(budget: Budget, text: str, part: str) -> bool:
    budget.read(len(text))
    return part in text


def index_of(budget: Budget, text: str, part: str, start: int = 0) -> int:
    budget.read(len(text))
    if start < 0:
        raise Fault("index out of range")
    return text.find(part, start) if part else start


def last_index_of(budget: Budget, text: str, part: str, start: int | None = None) -> int:
    budget.read(len(text))
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise Fault("index out of range")
    if not part:
        return start
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def substring(budget: Budget, text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise Fault("index out of range")
    budget.new_string(end - start)
    return text[start:end]


def char_at(_: Budget, text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise Fault("index out of range")
    return text[index : index + 1]


def replace(budget: Budget, text: str, old: str, new: str, limit: int = -1) -> str:
    budget.read(len(text))
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    budget.new_string(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(budget: Budget, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    budget.read(len(text))
    count = text.count(separator) + 1 if separator else max(len(text), 1)
    pieces = count if limit < 0 else min(count, limit)
    budget.new_list(pieces)
    if separator:
        return text.split(separator, pieces - 1)
    return [*text[: pieces - 1], text[pieces - 1 :]] if text else []


def join(budget: Budget, parts: list[Any], separator: str = "") -> str:
    budget.spend(len(parts))
    if any(type(part) is not str for part in parts):
        raise Fault("join() takes a list of strings")
    budget.new_string(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


def _translated(table: dict[int, str]) -> Any:
    def translate(budget: Budget, text: str) -> str:
        budget.new_string(len(text))
        return text.translate(table)

    return translate


def _trim(budget: Budget, text: str) -> str:
    budget.new_string(len(text))
    return text.strip(_SPACE)


def _starts(budget: Budget, text: str, prefix: str) -> bool:
    budget.read(len(prefix))
    return text.startswith(prefix)


def _ends(budget: Budget, text: str, suffix: str) -> bool:
    budget.read(len(suffix))
    return text.endswith(suffix)


OVERLOADS: Final = (
    overload("string.startsWith(string) -> bool", _starts),
    overload("string.endsWith(string) -> bool", _ends),
    overload("string.contains(string) -> bool", contains),
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
    overload("string.indexOf(string) -> int", index_of),
    overload("string.indexOf(string, int) -> int", index_of),
    overload("string.lastIndexOf(string) -> int", last_index_of),
    overload("string.lastIndexOf(string, int) -> int", last_index_of),
    overload("string.substring(int) -> string", substring),
    overload("string.substring(int, int) -> string", substring),
    overload("string.charAt(int) -> string", char_at),
    overload("string.replace(string, string) -> string", replace),
    overload("string.replace(string, string, int) -> string", replace),
    overload("string.split(string) -> list<string>", split),
    overload("string.split(string, int) -> list<string>", split),
    overload("list.join() -> string", join),
    overload("list.join(string) -> string", join),
    overload("string.lowerAscii() -> string", _translated(_LOWER)),
    overload("string.upperAscii() -> string", _translated(_UPPER)),
    overload("string.trim() -> string", _trim),
)
PATTERN_ARGUMENT: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument, when a literal, is compiled with the expression."""
