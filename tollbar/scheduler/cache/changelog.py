"""Which Nodes of a snapshot have changed, for whoever keeps something about all of them."""

from collections.abc import Collection
from typing import Final

MAX_LOG: Final = 1024
"""How many changes are remembered."""


class ChangeLog:
    """Nodes are known by their place in the snapshot; `version` grows with every change."""

    def __init__(self) -> None:
        self._places: list[int] = []
        self._start = 0

    @property
    def version(self) -> int:
        return self._start + len(self._places)

    def since(self, version: int) -> Collection[int] | None:
        """The places of the Nodes that have changed since then, each once; None for all of them."""
        return set(self._places[version - self._start :]) if version >= self._start else None

    def note(self, place: int) -> None:
        """The Node at this place has changed."""
        if len(self._places) >= MAX_LOG:
            self.note_all()
        self._places.append(place)

    def note_all(self) -> None:
        """Any Node may have changed, or have another place."""
        self._start = self.version + 1
        self._places.clear()
