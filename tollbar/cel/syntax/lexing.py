"""A linear scan of an expression before it is parsed: checks the limits of the source, and decodes its strings.

cel-python's string terminals backtrack exponentially on an unterminated string with a few dozen escapes.  So strings
are found and decoded here, in linear time, and the parser gets the same text with every character inside of strings
replaced: nothing is left to backtrack over, and lines and columns stay the same.
"""

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from tollbar.cel.core.interface import COMPILE, CelError
from tollbar.cel.core.limits import MAX_DEPTH, MAX_NUMBER, MAX_SOURCE, MAX_TERMS, MAX_TOKENS, quoted

_TOKEN: Final = re.compile(
    r"""(?P<space>[\t\n\f\r ]+|//[^\n]*)
    |(?P<string>(?P<bytes>[bB]?)(?P<raw>[rR]?)(?P<quote>\"{3}|'{3}|["']))
    |(?P<name>[_a-zA-Z][_a-zA-Z0-9]*|`[_a-zA-Z0-9./\ -]+`)
    |(?P<number>(?:0x[0-9a-fA-F]+|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[uU]?)
    |(?P<open>[(\[{])
    |(?P<close>[)\]}])
    |(?P<operator>&&|\|\||[=!<>]=|[-+*/%!<>?:.,])""",
    re.VERBOSE,
)
# Possessive quantifiers, so that a string without an end fails in linear time.
_REST: Final = {
    '"': re.compile(r'((?:[^\\"\n\r]|\\.)*+)"'),
    "'": re.compile(r"((?:[^\\'\n\r]|\\.)*+)'"),
    '"""': re.compile(r'((?:[^\\"]|\\.|"(?!""))*+)"""', re.DOTALL),
    "'''": re.compile(r"((?:[^\\']|\\.|'(?!''))*+)'''", re.DOTALL),
}
_RAW_REST: Final = {
    '"': re.compile(r'([^"\n\r]*+)"'),
    "'": re.compile(r"([^'\n\r]*+)'"),
    '"""': re.compile(r'((?:[^"]|"(?!""))*+)"""'),
    "'''": re.compile(r"((?:[^']|'(?!''))*+)'''"),
}
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\?\"'`])|[xX](?P<x>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})"
    r"|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})|(?P<bad>.?))",
    re.DOTALL,
)
SYNONYMS: Final = {
    "and": "&&",
    "or": "||",
    "not": "!",
    "len": "size",
    "length": "size",
    "count": "size",
    "toLower": "lowerAscii",
    "toLowerCase": "lowerAscii",
    "toUpper": "upperAscii",
    "toUpperCase": "upperAscii",
    "hasPrefix": "startsWith",
    "hasSuffix": "endsWith",
    "any": "exists",
    "some": "exists",
    "every": "all",
    "object": "pod",
    "namespace": "namespaceObject",
}
"""Words of other languages and environments, and what CEL has in their place; for suggestions."""
_SIMPLE: Final = dict(zip("abfnrtv\\?\"'`", "\a\b\f\n\r\t\v\\?\"'`", strict=True))


@dataclass(frozen=True, slots=True)
class Scanned:
    """`text` has the length and line breaks of the source; `strings` maps the offset of each literal to its value."""

    text: str
    strings: dict[int, str | bytes]


def place(source: str, offset: int) -> tuple[int, int]:
    """Line and column of the character at `offset`; both count from 1, the column in characters."""
    return source.count("\n", 0, offset) + 1, offset - source.rfind("\n", 0, offset)


def scan(source: str) -> Scanned:
    """Raises CelError of kind COMPILE if the source exceeds a limit or has an invalid token."""
    if len(source) > MAX_SOURCE or len(source.encode(errors="replace")) > MAX_SOURCE:
        raise CelError(f"expression is longer than {MAX_SOURCE} bytes", 1, 1, COMPILE)
    return _Scanner(source).run()


class _Scanner:
    def __init__(self, source: str) -> None:
        self.source = source
        self.parts: list[str] = []
        self.strings: dict[int, str | bytes] = {}
        self.depth = 0
        self.tokens = 0
        self.terms = 0
        self.after_operand = False
        self.prefixes = 0

    def run(self) -> Scanned:
        offset = 0
        while offset < len(self.source):
            token = _TOKEN.match(self.source, offset)
            if token is None:
                self.refuse(f"unexpected character {self.source[offset]!a}{self.hint(offset)}", offset)
            self.tokens += not token["space"]
            if self.tokens > MAX_TOKENS:
                self.refuse(f"expression has more than {MAX_TOKENS} tokens", offset)
            offset = self.string(token) if token["string"] else self.other(token)
        return Scanned("".join(self.parts), self.strings)

    def hint(self, offset: int) -> str:
        """A suggestion for operators of other languages."""
        meant = {"=": "==", "&": "&&", "|": "||"}.get(self.source[offset])
        return f"; did you mean '{meant}'?" if meant else ""

    def other(self, token: re.Match[str]) -> int:
        text = token.group()
        if token["name"] or token["number"]:
            self.word(token)
        elif token["open"]:
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.refuse(f"brackets are nested deeper than {MAX_DEPTH}", token.start())
        if token["close"]:
            self.depth -= 1
            self.after_operand = True
        elif token["open"] or token["operator"]:
            self.after_operand = False
        self.prefix(token)
        # A comment may contain anything, which the parser must not see.
        self.parts.append(" " * len(text) if text.startswith("//") else text)
        return token.end()

    def prefix(self, token: re.Match[str]) -> None:
        """Limits the number of signs in a row, which are nested operations and slow to parse."""
        if token["operator"] not in ("!", "-"):
            self.prefixes = self.prefixes if token["space"] else 0
            return
        self.prefixes += 1
        if self.prefixes > MAX_DEPTH:
            self.refuse(f"operations are nested deeper than {MAX_DEPTH}", token.start())

    def word(self, token: re.Match[str]) -> None:
        text = token.group()
        if text == "in" and self.after_operand:
            self.after_operand = False
            return
        if token["number"] and len(text) > MAX_NUMBER:
            self.refuse(f"number is longer than {MAX_NUMBER} characters", token.start())
        self.operand(quoted(text), token.start())

    def string(self, token: re.Match[str]) -> int:
        rest = (_RAW_REST if token["raw"] else _REST)[token["quote"]].match(self.source, token.end())
        if rest is None:
            self.refuse("string is not terminated", token.start())
        self.operand("string", token.start())
        start, content = token.end(), rest[1]
        self.strings[token.start()] = (
            self.decode_bytes(content, start, bool(token["raw"]))
            if token["bytes"]
            else self.decode(content, start, bool(token["raw"]))
        )
        self.parts += (token.group(), re.sub(r"[^\n]", "_", content), token["quote"])
        return rest.end()

    def operand(self, what: str, offset: int) -> None:
        # Also keeps the parser from taking `a inside` for `a in side`.
        if self.after_operand:
            meant = SYNONYMS.get(what.strip("'"), "")
            self.refuse(f"unexpected {what}" + (f"; did you mean '{meant}'?" if meant in ("&&", "||") else ""), offset)
        self.after_operand = True
        self.terms += 1
        if self.terms > MAX_TERMS:
            self.refuse(f"expression has more than {MAX_TERMS} names and literals", offset)

    def decode(self, content: str, start: int, raw: bool) -> str:
        def replaced(escape: re.Match[str]) -> str:
            if escape["simple"]:
                return _SIMPLE[escape["simple"]]
            code = self.code(escape, start)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self.refuse("escape is not a Unicode character", start + escape.start())
            return chr(code)

        text = content if raw else _ESCAPE.sub(replaced, content)
        if not text.isprintable() and any("\ud800" <= character <= "\udfff" for character in text):
            self.refuse("string is not valid Unicode", start)
        return text

    def decode_bytes(self, content: str, start: int, raw: bool) -> bytes:
        if raw:
            return content.encode(errors="replace")
        parts: list[bytes] = []
        done = 0
        for escape in _ESCAPE.finditer(content):
            parts.append(content[done : escape.start()].encode(errors="replace"))
            if escape["u"] or escape["U"]:
                self.refuse("bytes have no Unicode escapes", start + escape.start())
            simple = _SIMPLE.get(escape["simple"] or "")
            parts.append(simple.encode() if simple else bytes([self.code(escape, start)]))
            done = escape.end()
        parts.append(content[done:].encode(errors="replace"))
        return b"".join(parts)

    def code(self, escape: re.Match[str], start: int) -> int:
        if escape["octal"]:
            return int(escape["octal"], 8)
        digits = escape["x"] or escape["u"] or escape["U"]
        if not digits:
            self.refuse("invalid escape", start + escape.start())
        return int(digits, 16)

    def refuse(self, message: str, offset: int) -> NoReturn:
        line, column = place(self.source, offset)
        raise CelError(message, line, column, COMPILE)
