"""Programs that are kept while they are in use, within a bound on the memory that they may take together.

Called by the rule set for device selectors, which claims bring: as many, and as large, as their authors like.  What
is left out is compiled again when it is asked for again.  Not for threads: one dictionary, no lock.
"""

from collections.abc import Callable
from typing import Final

from tollbar.cel.core.interface import CelError, Program
from tollbar.cel.core.limits import MAX_PATTERNS, PATTERN_MEMORY

MEMORY: Final = 64 * 1024 * 1024
"""Bytes that all programs of a memo may take: some hundred thousand characters of selectors."""
_A_CHARACTER: Final = 512
"""Bytes that a program takes for each of its source, at most: `1==2||` becomes a tree and a closure for each node."""
_PATTERN_FUNCTIONS: Final = ("matches", "find")


def size(source: str) -> int:
    """Bytes that a program may take, or the error of a source that is none: an estimate from above."""
    patterns = min(sum(map(source.count, _PATTERN_FUNCTIONS)), MAX_PATTERNS)
    return len(source) * _A_CHARACTER + patterns * PATTERN_MEMORY


class Memo:
    """Programs, or why there is none, by source; those used last are kept."""

    def __init__(self, compile_: Callable[[str], Program | CelError], memory: int = MEMORY) -> None:
        self._compile = compile_
        self._memory = memory
        self._taken = 0
        self._kept: dict[str, Program | CelError] = {}

    def get(self, source: str) -> Program | CelError:
        found = self._kept.pop(source, None)
        if found is None:
            found = _bare(self._compile(source))
            self._taken += size(source)
        self._kept[source] = found  # behind all others
        while self._taken > self._memory:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._taken -= size(oldest)
        return found


def _bare(found: Program | CelError) -> Program | CelError:
    """An error without its traceback, which would keep all that the compiler had made so far."""
    return CelError(found.message, found.line, found.column, found.kind) if isinstance(found, CelError) else found
