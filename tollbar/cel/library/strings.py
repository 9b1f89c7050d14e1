"""String functions: those of CEL, and of version 2 of cel-go's strings extension.

Positions count code points.  format() has a module of its own, as regular expressions have.
"""

import re
from typing import Any, Final

from tollbar.cel.core.limits import CALL_STEPS, CHARACTERS_PER_STEP, ESCAPE_STEPS, SHORT, CostTracker, Fault
from tollbar.cel.library.functions import overload

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_SHORT: Final = 32
_NAIVE: Final = 128
ESCAPES: Final = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}
"""Escapes with a letter, which string literals of CEL and Go have in common."""
_BACKSLASH_FIRST: Final = sorted(ESCAPES.items(), reverse=True, key=lambda escape: escape[0] == "\\")
"""In the order in which texts are replaced: no backslash of an escape is escaped again."""
_SPECIAL: Final = re.compile(r'["\\]|[^\x20-\x7e]')
_CHARACTERS_SEARCHED_PER_STEP: Final = 8
_PART_STEPS: Final = 8
"""For a part that join() checks."""
_QUOTE_STEPS: Final = 2
"""For each character that quote() looks at."""
_ENCODED_PER_STEP: Final = 2
"""Characters of a text with others than those of ASCII, encoded and decoded again."""


def contains(cost: CostTracker, text: str, part: str) -> bool:
    _search(cost, text, part)
    return part in text


def starts_with(cost: CostTracker, text: str, prefix: str) -> bool:
    if len(prefix) >= SHORT:
        cost.charge(CALL_STEPS + len(prefix) // CHARACTERS_PER_STEP)
    return text.startswith(prefix)


def ends_with(cost: CostTracker, text: str, suffix: str) -> bool:
    if len(suffix) >= SHORT:
        cost.charge(CALL_STEPS + len(suffix) // CHARACTERS_PER_STEP)
    return text.endswith(suffix)


def index_of(cost: CostTracker, text: str, part: str, start: int = 0) -> int:
    _search(cost, text, part)
    _no_negative(start)
    return text.find(part, start) if part else min(start, len(text))


def last_index_of(cost: CostTracker, text: str, part: str, start: int | None = None) -> int:
    _search(cost, text, part)
    if start is None:
        return _last(text, part)
    _no_negative(start)
    if not part:
        return min(start, len(text))
    return _last(text[: start + len(part)], part) if start < len(text) else -1


def _last(text: str, part: str) -> int:
    """text.rfind(part), for which Python takes quadratic time, as a search in reversed strings."""
    if len(part) < _SHORT:
        return text.rfind(part)
    if len(part) > len(text):
        return -1
    found = text[::-1].find(part[::-1])
    return found if found < 0 else len(text) - found - len(part)


def _search(cost: CostTracker, text: str, part: str) -> None:
    """Charges for a search; Python compares up to some hundred characters of the part naively."""
    work = len(text) * (1 + min(len(part), _NAIVE) // _SHORT)
    cost.charge(CALL_STEPS + work // _CHARACTERS_SEARCHED_PER_STEP)


def _no_negative(index: int) -> None:
    if index < 0:
        raise Fault("index out of range")


def substring(cost: CostTracker, text: str, start: int, end: int | None = None) -> str:
    if end is None:
        end = len(text)
    elif start > end:
        raise Fault("invalid substring range")
    if not 0 <= start <= end <= len(text):
        raise Fault("index out of range")
    cost.new_string(end - start)
    return text[start:end]


def char_at(_: CostTracker, text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise Fault("index out of range")
    return text[index : index + 1]


def replace(cost: CostTracker, text: str, old: str, new: str, limit: int = -1) -> str:
    _search(cost, text, old)
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    cost.new_string(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, count)


def split(cost: CostTracker, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    _search(cost, text, separator)
    count = text.count(separator) + 1 if separator else max(len(text), 1)
    pieces = count if limit < 0 else min(count, limit)
    cost.new_list(pieces)
    cost.new_string(len(text))
    if separator:
        return text.split(separator, pieces - 1)
    return [*text[: pieces - 1], text[pieces - 1 :]] if text else []


def join(cost: CostTracker, parts: list[Any], separator: str = "") -> str:
    cost.charge(len(parts) * _PART_STEPS)
    if any(type(part) is not str for part in parts):
        raise Fault("join() takes a list of strings")
    cost.new_string(sum(map(len, parts)) + len(separator) * max(len(parts) - 1, 0))
    return separator.join(parts)


def quote(cost: CostTracker, text: str) -> str:
    """The text as a string literal of CEL, with no other escapes than those with a letter."""
    cost.new_string(2 * len(text) + 2)
    cost.charge(len(text) * _QUOTE_STEPS)
    for character, escape in _BACKSLASH_FIRST:
        text = text.replace(character, escape)  # str.translate takes up to four times as long
    return f'"{text}"'


def go_quoted(text: str) -> str:
    """The text as a string literal of Go; %q.  A surrogate escape stands for a byte that is not UTF-8."""
    if text.isascii() and text.isprintable():
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    else:
        text = _SPECIAL.sub(_go_escaped, text)
    return f'"{text}"'


def charge_quoted(cost: CostTracker, text: str) -> None:
    """Charges for go_quoted(), before it is made."""
    cost.new_string(2 * len(text) + 2)
    cost.charge(ESCAPE_STEPS * special(text))


def special(text: str) -> int:
    """How many characters of the text may have to be escaped."""
    return text.count('"') + text.count("\\") if text.isascii() and text.isprintable() else len(text)


def _go_escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character in ESCAPES:
        return ESCAPES[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80 or 0xDC80 <= code < 0xDD00:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def lower_ascii(cost: CostTracker, text: str) -> str:
    return _encoded(cost, text).lower().decode(errors="surrogatepass")


def upper_ascii(cost: CostTracker, text: str) -> str:
    return _encoded(cost, text).upper().decode(errors="surrogatepass")


def _encoded(cost: CostTracker, text: str) -> bytes:
    """The text in UTF-8, of which bytes() changes the case of ASCII letters alone."""
    cost.new_string(len(text))
    if not text.isascii():
        cost.charge(len(text) // _ENCODED_PER_STEP)
    return text.encode(errors="surrogatepass")


def _trim(cost: CostTracker, text: str) -> str:
    cost.new_string(len(text))
    return text.strip(_SPACE)


OVERLOADS: Final = (
    overload("string.startsWith(string) -> bool", starts_with, 20),
    overload("string.endsWith(string) -> bool", ends_with, 20),
    overload("string.contains(string) -> bool", contains, 20),
    overload("string.indexOf(string) -> int", index_of, 28),
    overload("string.indexOf(string, int) -> int", index_of, 28),
    overload("string.lastIndexOf(string) -> int", last_index_of, 34),
    overload("string.lastIndexOf(string, int) -> int", last_index_of, 34),
    overload("string.substring(int) -> string", substring, 18),
    overload("string.substring(int, int) -> string", substring, 18),
    overload("string.charAt(int) -> string", char_at),
    overload("string.replace(string, string) -> string", replace, 60),
    overload("string.replace(string, string, int) -> string", replace, 60),
    overload("string.split(string) -> list<string>", split, 75),
    overload("string.split(string, int) -> list<string>", split, 75),
    overload("list<string>.join() -> string", join, 75),
    overload("list<string>.join(string) -> string", join, 75),
    overload("string.lowerAscii() -> string", lower_ascii, 36),
    overload("string.upperAscii() -> string", upper_ascii, 36),
    overload("string.trim() -> string", _trim),
    overload(".strings.quote(string) -> string", quote, 60),
)
