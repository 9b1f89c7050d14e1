"""Pods that quotas charge, in lines: what is decided about one Pod of a line mostly holds for those behind it."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import Final

from tollbar.model.objects import Key


@dataclass(frozen=True, slots=True)
class Charge:
    """What one Pod takes of the quotas of these names; `amounts` are positive."""

    pod: Key
    quotas: tuple[str, ...]
    amounts: Mapping[str, Decimal]
    priority: int = 0
    created: float = 0.0
    """In epoch seconds."""

    @property
    def age(self) -> tuple[float, Key]:
        """Sorts the oldest Pod first."""
        return self.created, self.pod

    @property
    def line(self) -> Hashable:
        """Equal for Pods that no quota can tell apart but by their age."""
        return self.pod.namespace, self.quotas, self.priority, tuple(sorted(self.amounts.items()))


_AGE: Final = attrgetter("age")


class Lines:
    """Each Pod once.  Those of one line are told apart by their age alone, and the oldest is the first."""

    def __init__(self, charges: Iterable[Charge] = ()) -> None:
        self._lines: dict[Hashable, list[Charge]] = {}
        for charge in charges:
            self.add(charge)

    def __iter__(self) -> Iterator[Sequence[Charge]]:
        """The lines, none of which is empty."""
        return iter(self._lines.values())

    def add(self, charge: Charge) -> None:
        insort(self._lines.setdefault(charge.line, []), charge, key=_AGE)

    def remove(self, charge: Charge) -> None:
        """KeyError for one that is not there."""
        key = charge.line
        line = self._lines[key]
        place = bisect_left(line, charge.age, key=_AGE)
        if place == len(line) or line[place].pod != charge.pod:
            raise KeyError(charge.pod)
        del line[place]
        if not line:
            del self._lines[key]
