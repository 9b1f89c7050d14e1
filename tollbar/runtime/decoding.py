"""JSON as the API server sends it, which is more than orjson reads.

Where a field takes any JSON (`parameters` of a ResourceClaim, `fieldsV1` of the manager of an object), whoever may
write the object may write ten thousand levels, halves of surrogate pairs, and bytes that are no UTF-8 (encoding/json of
Go), and the API server sends them on.  One object that cannot be read would keep the whole list from its readers.

Invariants: what orjson reads is read by it alone, at its cost; of the rest, texts are what Go's decoder makes of them,
with U+FFFD for each byte and each half of a pair that is no character; what is nested more deeply than `LEVELS` is
null.  Only a text that is nested too deeply is gone through in Python.

Hazard: an object of which something was cut must not be written back.  `LEVELS` is more than orjson writes (254), so it
cannot be: `orjson.dumps` raises TypeError.
"""

import re
from typing import Any, Final

import orjson

LEVELS: Final = 512
"""Few enough for CPython to compare two values of that depth (sys.getrecursionlimit)."""

_REPLACEMENT: Final = "\ufffd"
_NO_UTF8: Final = re.compile("[\udc80-\udcff]")
"""What the error handler `surrogateescape` makes of each byte that is no UTF-8, and of nothing else."""
_FIRST: Final = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_SECOND: Final = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF: Final = re.compile(rb"%b(?!%b)|%b(?<!%b%b)" % (_FIRST, _SECOND, _SECOND, _FIRST, _SECOND))
"""Half of a surrogate pair without the other one, in a text of which each backslash begins an escape."""

_TOKEN: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string that does not end is one to the end of the text: else each of its quotes would be tried as the first one."""


def decoded(text: bytes) -> Any:
    """The value.  Raises orjson.JSONDecodeError for what Go's decoder does not read either."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        whole = _with_whole_characters(text)
    try:
        return orjson.loads(whole)
    except orjson.JSONDecodeError:
        shallow = _shallow(whole)
        if shallow == whole:
            raise
    return orjson.loads(shallow)


def _with_whole_characters(text: bytes) -> bytes:
    """The text with U+FFFD for what is no character."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = _NO_UTF8.sub(_REPLACEMENT, text.decode(errors="surrogateescape")).encode()
    # An escaped backslash as an escape of another form: each backslash that is left begins an escape.
    return _HALF.sub(_REPLACEMENT.encode(), text.replace(rb"\\", rb"\u005c"))


def _shallow(text: bytes) -> bytes:
    """The text with null for what is nested too deeply."""
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
    return b"".join((*pieces, text[taken:]))
