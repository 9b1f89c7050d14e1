"""Pods that quotas charge, in lines: what is decided about one Pod of a line mostly holds for those behind it."""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    claims: Mapping[Key, Mapping[str, Decimal]] = field(default_factory=dict)
    """What ResourceClaims take that other Pods may use, too: each counts once, as long as one of its Pods counts."""
    unknown: str = ""
    """What is not there, so that nobody knows how many devices the Pod takes; `amounts` and `claims` lack these."""

    @property
    def age(self) -> tuple[float, Key]:
        """Sorts the oldest Pod first."""
        return self.created, self.pod

    @property
    def line(self) -> Hashable:
        """Equal for Pods that differ in nothing but their age, as far as quotas are concerned."""
        claims = tuple(sorted((key, _sorted(amounts)) for key, amounts in self.claims.items()))
        return self.pod.namespace, self.quotas, self.priority, _sorted(self.amounts), claims, self.unknown


def _sorted(amounts: Mapping[str, Decimal]) -> tuple[tuple[str, Decimal], ...]:
    return tuple(sorted(amounts.items()))


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
        """KeyError, of the Pod, for one that is not there."""
        key = charge.line
        line = self._lines.get(key, [])
        place = bisect_left(line, charge.age, key=_AGE)
        if place == len(line) or line[place].pod != charge.pod:
            raise KeyError(charge.pod)
        del line[place]
        if not line:
            del self._lines[key]
