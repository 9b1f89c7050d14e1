"""A cache of compiled programs that is bounded by the memory that they take together.

It is for device selectors: claims bring as many, and as long ones, as their authors like.
"""

from collections.abc import Callable
from typing import Final

from tollbar.cel.core.interface import CelError, Program
from tollbar.cel.core.limits import MAX_PATTERNS, PATTERN_MEMORY

MEMORY: Final = 64 * 1024 * 1024
"""Bytes for all programs of a cache: some hundred thousand characters of selectors."""
_BYTES_PER_CHARACTER: Final = 512
"""The most that a program takes for a character of its source: `1==2||` becomes a tree and a closure for each node."""
_PATTERN_FUNCTIONS: Final = ("matches", "find")


def size(source: str) -> int:
    """An upper bound of the bytes that the program takes, or the error of an expression that does not compile."""
    patterns = min(sum(map(source.count, _PATTERN_FUNCTIONS)), MAX_PATTERNS)
    return len(source) * _BYTES_PER_CHARACTER + patterns * PATTERN_MEMORY


class ProgramCache:
    """Programs, or compile errors, by source; the least recently used are dropped first.  Not safe for threads."""

    def __init__(self, compile_: Callable[[str], Program | CelError], memory: int = MEMORY) -> None:
        self._compile = compile_
        self._memory = memory
        self._taken = 0
        self._kept: dict[str, Program | CelError] = {}

    def __contains__(self, source: str) -> bool:
        return source in self._kept

    def get(self, source: str) -> Program | CelError:
        found = self._kept.pop(source, None)
        if found is None:
            found = _bare(self._compile(source))
            self._taken += size(source)
        self._kept[source] = found  # now the most recently used
        while self._taken > self._memory:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._taken -= size(oldest)
        return found


def _bare(found: Program | CelError) -> Program | CelError:
    """An error without its traceback, which holds on to everything that the compiler had made."""
    return CelError(found.message, found.line, found.column, found.kind) if isinstance(found, CelError) else found
