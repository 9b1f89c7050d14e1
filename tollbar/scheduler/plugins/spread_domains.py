"""The topology domains over which constraints spread Pods, kept from one Pod to the next of the same spec.

They hold until a Node changes.  How many Pods each domain has is kept with them, as Pods come and go.
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
"""For how many specs and actions domains are kept; at 5,000 Nodes those of a constraint take some 50 KB."""


class ConstraintDomains:
    """The domains of one constraint: those with a Node on which Pods count.

    `eligible` are the Nodes on which Pods count, `existing` the numbers of their domains in `column`.  The number of
    Nodes without the label is -1; they count where no constraint of the Pod's own asks for it.
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
class SpreadDomains:
    """The domains of a Pod's constraints in these Nodes, as they are at this version of the Nodes.

    `by_constraint` is in the order of the constraints, and empty where no Node is placed.  `placed` are the Nodes, by
    row, that are in a domain of each constraint that asks for its label.
    """

    constraints: tuple[Constraint, ...]
    placed: Bools
    by_constraint: Sequence[ConstraintDomains]
    nodes: Snapshot
    version: int

    def hold(self, constraints: tuple[Constraint, ...], nodes: Snapshot) -> bool:
        """Whether these are the domains of these constraints now."""
        return (
            nodes is self.nodes
            and nodes.changed_nodes.version == self.version
            and all(nodes.table.label(each.constraint.topology_key) is each.column for each in self.by_constraint)
            and constraints == self.constraints
        )

    def forget(self) -> None:
        """Free the sums that the snapshot keeps for them: nobody asks for these any more."""
        self.nodes.groups.forget([each.eligible for each in self.by_constraint])


class SpreadDomainsBySpec:
    """The domains that were asked for lately; they depend on the Pod's spec and on its constraints alone."""

    def __init__(self) -> None:
        self._by_spec: OrderedDict[tuple[Shape, str], SpreadDomains] = OrderedDict()

    def of(
        self, pod: PodInfo, action: str, constraints: tuple[Constraint, ...], nodes: Snapshot, *, all_keys: bool = True
    ) -> Steps[SpreadDomains]:
        """The domains of these constraints, all with this action (whenUnsatisfiable).

        With `all_keys` only Nodes count that have the labels of all of them.
        """
        spec = (pod.shape.template, action)
        kept = self._by_spec.pop(spec, None)
        if kept is None or not kept.hold(constraints, nodes):
            if kept is not None:
                kept.forget()
            version = nodes.changed_nodes.version
            placed = with_keys(nodes.table, constraints if all_keys else ())
            by_constraint: list[ConstraintDomains] = []
            if placed.any():
                eligible = Eligible(pod, nodes.table, placed)
                for constraint in constraints:
                    by_constraint.append(ConstraintDomains(constraint, nodes, eligible.of(constraint)))
                    yield
            kept = SpreadDomains(constraints, placed, by_constraint, nodes, version)
        self._by_spec[spec] = kept
        if len(self._by_spec) > MAX_SPECS:
            self._by_spec.popitem(last=False)[1].forget()
        return kept
