"""How many Pods the domains of spread constraints have, kept from one Pod to the next of the same spec.

Between two Pods of a workload few Nodes change: the numbers are corrected by the Pods of those.  All is counted anew
when a Node comes, goes or is another API object.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np

from tollbar.scheduler.cache.groups import by_domain
from tollbar.scheduler.cache.podinfo import PodInfo, Shape
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.table import Mask
from tollbar.scheduler.framework.status import Steps
from tollbar.scheduler.plugins.spread_constraints import Constraint, Eligible

MAX_SPECS: Final = 64
"""For how many specs and actions counts are kept; at 5,000 Nodes those of a constraint take some 30 KB."""
MAX_CHANGES: Final = 64
"""If more Nodes than so many have changed, all are counted."""


class Counted:
    """The Pods that one constraint counts on the `eligible` Nodes (a mask by row), by domain.

    `sums` and `exists` (which domains have an eligible Node) are by number of the domain in `column`, with one place
    more for Nodes without the label, which count where no constraint of the Pod's own asks for it.  `on_node` has the
    Pods by row, of all Nodes.
    """

    def __init__(self, constraint: Constraint, pod: PodInfo, nodes: Snapshot, eligible: Mask) -> None:
        self.constraint = constraint
        self.column = nodes.table.label(constraint.topology_key)
        self.eligible = eligible
        self.on_node = constraint.counts(pod, nodes).copy()
        self.sums = by_domain(self.column, self.on_node, eligible)
        self.exists: Mask = np.zeros(self.column.size + 1, np.bool_)
        self.exists[self.column.ids[eligible]] = True
        self._nodes = nodes
        self._version, self._nodes_version = nodes.changed.version, nodes.changed_nodes.version

    def follow(self, pod: PodInfo, nodes: Snapshot) -> bool:
        """Count what has changed since the last Pod; False if that takes counting anew."""
        if nodes is not self._nodes or nodes.changed_nodes.version != self._nodes_version:
            return False
        changed = nodes.changed.since(self._version)
        if changed is None or len(changed) > MAX_CHANGES:
            return False
        if nodes.table.label(self.constraint.topology_key) is not self.column:
            return False
        on_node = self.constraint.counts(pod, nodes)
        for place in changed:
            row = nodes.table.order[place]
            change = on_node[row] - self.on_node[row]
            self.on_node[row] += change
            if self.eligible[row]:
                self.sums[self.column.ids[row]] += change
        self._version = nodes.changed.version
        return True


class Counts:
    """What is kept of several specs; besides its spec, what is counted for a Pod depends on its constraints alone."""

    def __init__(self) -> None:
        self._by_spec: OrderedDict[tuple[Shape, str], Sequence[Counted]] = OrderedDict()

    def of(
        self, pod: PodInfo, action: str, constraints: Sequence[Constraint], nodes: Snapshot, placed: Mask
    ) -> Steps[Sequence[Counted]]:
        """The Pods that these constraints, all with this action, count on those of the Nodes `placed` (by row)."""
        spec = (pod.shape.base or pod.shape, action)
        kept = self._by_spec.pop(spec, ())
        same = [each.constraint for each in kept] == [*constraints]
        if not same or not all(each.follow(pod, nodes) for each in kept):
            kept, eligible = [], Eligible(pod, nodes.table, placed)
            for constraint in constraints:
                kept.append(Counted(constraint, pod, nodes, eligible.of(constraint)))
                yield
        self._by_spec[spec] = kept
        if len(self._by_spec) > MAX_SPECS:
            self._by_spec.popitem(last=False)
        return kept
