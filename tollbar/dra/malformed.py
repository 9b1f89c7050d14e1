"""Objects of the API server that cannot be read: nothing stops because of them, and the log has each of them once."""

import logging
from typing import Final

from tollbar.model.objects import Key

_log: Final = logging.getLogger(__name__)

ERRORS: Final = (AttributeError, KeyError, TypeError, ValueError)
"""What reading an object raises that the API server would refuse."""


class Malformed:
    """The objects of all kinds that are left out now."""

    def __init__(self) -> None:
        self._problems: dict[tuple[str, Key], str] = {}

    def __len__(self) -> int:
        return len(self._problems)

    def add(self, kind: str, key: Key, error: Exception) -> None:
        problem = f"{type(error).__name__}: {error}"
        if self._problems.get((kind, key)) != problem:
            _log.warning("a malformed object is left out", extra={"kind": kind, "object": str(key), "error": problem})
        self._problems[kind, key] = problem

    def discard(self, kind: str, key: Key) -> None:
        """The object can be read, or is gone."""
        self._problems.pop((kind, key), None)
