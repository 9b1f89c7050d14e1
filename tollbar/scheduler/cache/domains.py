"""How many Pods of a kind each topology domain has: counted over all Nodes once, then kept as Pods come and go."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tollbar.scheduler.cache.table import Bools, IdColumn, Ints


def by_domain(domains: IdColumn[str], counts: NDArray[np.int32], eligible: Bools | None = None) -> Ints:
    """Sums of counts by the number of the Node's domain, of all rows or of the eligible ones.

    It has one place more than there are domains, always zero, so that `sums[domains.ids]` works for every row.
    """
    weights = counts if eligible is None else counts * eligible
    sums = np.zeros(domains.size + 1, np.int64)
    sums[:-1] = np.bincount(domains.ids + 1, weights, domains.size + 1)[1:]
    return sums


@dataclass(frozen=True, eq=False, slots=True)
class NodeSet:
    """Some of the Nodes; `mask` is by row.  Each is equal to itself alone, so that it can be a key."""

    mask: Bools


class DomainSums:
    """The Pods in each domain of one topology key; `sums` is as `by_domain` makes it, for the domains in `column`.

    Pods on Nodes that are not `eligible` do not count; without it those on all Nodes do.
    """

    __slots__ = ("_version", "column", "eligible", "sums")

    def __init__(self, column: IdColumn[str], eligible: NodeSet | None) -> None:
        self.sums: Ints = np.zeros(0, np.int64)
        self.column = column
        self.eligible = eligible
        self._version = -1

    @property
    def is_current(self) -> bool:
        """Whether Nodes are in the same domains as when all Pods were counted."""
        return self._version == self.column.version

    def count_all(self, counts: NDArray[np.int32]) -> None:
        """Count all Pods: so many by row."""
        self.sums = by_domain(self.column, counts, None if self.eligible is None else self.eligible.mask)
        self._version = self.column.version

    def count(self, row: int, sign: int) -> None:
        """A Pod came to the Node with this row, or with sign -1 has left it."""
        if self.is_current and (self.eligible is None or self.eligible.mask[row]):
            number = self.column.ids[row]
            if number >= 0:
                self.sums[number] += sign
