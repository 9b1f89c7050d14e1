"""What spread constraints count, kept from one Pod to the next of the same spec until a Node changes.

That is on which Nodes Pods count; how many there are in each domain is kept with it, as Pods come and go.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tollbar.model.steps import Steps
from tollbar.scheduler.cache.domains import NodeSet
from tollbar.scheduler.cache.podinfo import PodInfo, Shape
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.table import Bools, Ints
from tollbar.scheduler.plugins.spread_constraints import Constraint, Eligible, with_keys

MAX_SPECS: Final = 64
"""For how many specs and actions it is kept; at 5,000 Nodes that of a constraint takes some 50 KB."""


class Counted:
    """Of one constraint, the Nodes on which Pods count, and the numbers in `column` of domains that have such a Node.

    The number of Nodes without the label is -1; they count where no constraint of the Pod's own asks for it.
    """

    def __init__(self, constraint: Constraint, nodes: Snapshot, eligible: Bools) -> None:
        self.constraint = constraint
        self.column = nodes.table.label(constraint.topology_key)
        self.eligible = NodeSet(eligible)
        self.existing: NDArray[np.intp] = np.unique(self.column.ids[eligible])

    def sums(self, pod: PodInfo, nodes: Snapshot) -> Ints:
        """The Pods in each domain, by its number; one place more, always 0, for Nodes without the label."""
        return nodes.groups.in_domains(self.constraint.group(pod, nodes), self.column, self.eligible)


@dataclass(frozen=True, slots=True)
class Counting:
    """What the constraints of a spec count in these Nodes, at this version of theirs.

    `placed` are the Nodes that are in a domain of each constraint that asks for its label, by row.
    """

    constraints: tuple[Constraint, ...]
    placed: Bools
    counted: Sequence[Counted]
    nodes: Snapshot
    version: int

    def holds(self, constraints: tuple[Constraint, ...], nodes: Snapshot) -> bool:
        """Whether it is what these constraints count now."""
        return (
            nodes is self.nodes
            and nodes.changed_nodes.version == self.version
            and all(nodes.table.label(each.constraint.topology_key) is each.column for each in self.counted)
            and constraints == self.constraints
        )

    def forget(self) -> None:
        """Free the sums that the snapshot keeps for it: nobody asks for it any more."""
        self.nodes.groups.forget([each.eligible for each in self.counted])


class Counts:
    """What is kept of several specs; besides its spec, what is counted for a Pod depends on its constraints alone."""

    def __init__(self) -> None:
        self._by_spec: OrderedDict[tuple[Shape, str], Counting] = OrderedDict()

    def of(
        self, pod: PodInfo, action: str, constraints: tuple[Constraint, ...], nodes: Snapshot, *, all_keys: bool = True
    ) -> Steps[Counting]:
        """What these constraints count, all with this action; with `all_keys` on Nodes with the labels of all alone."""
        spec = (pod.shape.template, action)
        kept = self._by_spec.pop(spec, None)
        if kept is None or not kept.holds(constraints, nodes):
            if kept is not None:
                kept.forget()
            version = nodes.changed_nodes.version
            placed = with_keys(nodes.table, constraints if all_keys else ())
            counted: list[Counted] = []
            if placed.any():
                eligible = Eligible(pod, nodes.table, placed)
                for constraint in constraints:
                    counted.append(Counted(constraint, nodes, eligible.of(constraint)))
                    yield
            kept = Counting(constraints, placed, counted, nodes, version)
        self._by_spec[spec] = kept
        if len(self._by_spec) > MAX_SPECS:
            self._by_spec.popitem(last=False)[1].forget()
        return kept
