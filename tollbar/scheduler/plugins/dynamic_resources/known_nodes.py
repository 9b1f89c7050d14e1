"""On which Nodes claims of one kind fit: masks of all Nodes, so that Filter need be called for few of them.

The answers come from the solutions (`tollbar.dra.solutions`), one for each Node.  They are kept by the place of the
Node, and looked up again for Nodes that have changed, or whose devices have changed, were taken or were released.
"""

import numpy as np

from tollbar.dra.inventory import Inventory
from tollbar.dra.solutions import NodeSolutions
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.interface import Known, Mask


class KnownNodes:
    """Of claims of one kind, for always the same snapshot `nodes`.

    Nothing is known of a Node before Filter was asked about it (`was_asked`).
    """

    def __init__(self, inventory: Inventory, nodes: Snapshot) -> None:
        self.nodes = nodes
        self._asked: set[str] = set()
        """The Nodes, by name, about which Filter was asked since the last update."""
        self._inventory = inventory
        self._fits: Mask = np.zeros(0, np.bool_)
        self._rejected: Mask = self._fits
        self._versions = (-1, -1)

    def was_asked(self, node_name: str) -> None:
        """Filter was asked about this Node, so that solutions may say something else about it now."""
        self._asked.add(node_name)

    def update(self, solutions: NodeSolutions) -> Known:
        """What is known now, by always the same solutions; it holds until the next update."""
        nodes, of_nodes, of_devices = self.nodes, self.nodes.changed_nodes, self._inventory.changed_nodes
        places, names = of_nodes.since(self._versions[0]), of_devices.since(self._versions[1])
        self._versions = of_nodes.version, of_devices.version
        if places is None or names is None:
            self._fits, self._rejected = np.zeros(len(nodes), np.bool_), np.zeros(len(nodes), np.bool_)
            places, names = (), ()
        named = (nodes.place(name) for name in (*names, *self._asked))
        for place in {*places, *(each for each in named if each is not None)}:
            node = nodes.nodes[place]
            kept = solutions.get(node.name, node.labels)
            self._fits[place], self._rejected[place] = bool(kept), kept is not None and not kept
        self._asked.clear()
        return Known(self._fits, self._rejected)
