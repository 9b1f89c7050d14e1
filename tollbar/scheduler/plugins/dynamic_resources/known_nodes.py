"""On which Nodes claims of one kind fit, for all Nodes at once, so that Filter need be asked about few of them.

Solutions (`tollbar.dra.solutions`) say so Node by Node.  What they have said is kept by the place of the Node, and they
are asked again about Nodes that have changed, and of which devices have changed, were taken or released.
"""

import numpy as np

from tollbar.dra.inventory import Inventory
from tollbar.dra.solutions import NodeSolutions
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.interface import Known, Mask


class KnownNodes:
    """Nothing is known of a Node before Filter was asked about it, which the caller says: `asked` has its name."""

    def __init__(self, inventory: Inventory, nodes: Snapshot) -> None:
        self.asked: set[str] = set()
        self.nodes = nodes
        self._inventory = inventory
        self._fits: Mask = np.zeros(0, np.bool_)
        self._rejected: Mask = self._fits
        self._versions = (-1, -1)

    def update(self, solutions: NodeSolutions) -> Known:
        """What is known now, by always the same solutions; it holds until the next update."""
        nodes, moves = self.nodes, self._inventory.moves
        of_nodes, of_moves = self._versions
        changed, moved = nodes.changed_nodes.since(of_nodes), moves.since(of_moves)
        self._versions = nodes.changed_nodes.version, moves.version
        if changed is None or moved is None:
            self._fits, self._rejected = np.zeros(len(nodes), np.bool_), np.zeros(len(nodes), np.bool_)
            changed, moved = (), ()
        named = (nodes.place(name) for name in (*moved, *self.asked))
        for place in {*changed, *(each for each in named if each is not None)}:
            node = nodes.nodes[place]
            kept = solutions.get(node.name, node.labels)
            self._fits[place], self._rejected[place] = bool(kept), kept is not None and not kept
        self.asked.clear()
        return Known(self._fits, self._rejected)
