"""JSON as the API server sends it, which is more than orjson reads.

Where a field takes any JSON (`parameters` of a ResourceClaim, `fieldsV1` of the manager of an object), whoever may
write the object may write ten thousand levels, halves of surrogate pairs, and bytes that are no UTF-8 (encoding/json of
Go), and the API server sends them on.  One object that cannot be read would keep the whole list from its readers.

Invariants: what orjson reads is read by it alone, at its cost; of the rest, texts are what Go's decoder makes of them,
with U+FFFD for what is no character; what is nested more deeply than `LEVELS` is null.

Hazard: an object of which something was cut must not be written back.  `LEVELS` is more than orjson writes (254), so it
cannot be: `orjson.dumps` raises TypeError.
"""

import re
from typing import Any, Final

import orjson

LEVELS: Final = 512
"""Few enough for CPython to compare two values of that depth (sys.getrecursionlimit)."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string that does not end is one to the end of the text: else each of its quotes would be tried as the first one."""
_ESCAPED: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair of surrogates
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|.)",
    re.DOTALL,
)


def decoded(text: bytes) -> Any:
    """The value.  Raises orjson.JSONDecodeError for what Go's decoder does not read either."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        readable = _readable(text)
        if readable == text:
            raise
        return orjson.loads(readable)


def _readable(text: bytes) -> bytes:
    """The text with U+FFFD for what is no character, and null for what is nested too deeply."""
    text = text.decode(errors="replace").encode()
    pieces: list[bytes] = []
    depth = taken = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in (b"{", b"["):
            depth += 1
            if depth == LEVELS + 1:
                pieces.append(text[taken : found.start()])
        elif token in (b"}", b"]"):
            if depth == LEVELS + 1:
                pieces.append(b"null")
                taken = found.end()
            depth -= 1
        elif depth <= LEVELS and b"\\u" in token:
            pieces += text[taken : found.start()], _ESCAPED.sub(_whole, token)
            taken = found.end()
    return b"".join((*pieces, text[taken:]))


def _whole(escaped: "re.Match[bytes]") -> bytes:
    return rb"\ufffd" if escaped["half"] else escaped[0]
