"""Which of many things have changed, for whoever keeps something about all of them."""

from collections.abc import Collection, Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

MAX_LOG: Final = 1024
"""How many changes are remembered at most, at least half of them."""


class ChangeLog(Generic[K]):
    """Things are known by what stands for them; `version` grows with every change."""

    def __init__(self) -> None:
        self._changes: list[K] = []
        self._start = 0

    @property
    def version(self) -> int:
        return self._start + len(self._changes)

    def since(self, version: int) -> Collection[K] | None:
        """What has changed since then, each once; None for everything."""
        return set(self._changes[version - self._start :]) if version >= self._start else None

    def note(self, changed: K) -> None:
        """This has changed."""
        if len(self._changes) >= MAX_LOG:
            self._start += MAX_LOG // 2
            del self._changes[: MAX_LOG // 2]
        self._changes.append(changed)

    def note_all(self) -> None:
        """Anything may have changed, or be known by another name."""
        self._start = self.version + 1
        self._changes.clear()
