"""Which waiting Pods have been promised which Node.

Source: pkg/scheduler/backend/queue/nominator.go.
"""

from collections.abc import Callable, Collection

from tollbar.model.objects import Key
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.interface import Nominate


class NominatedPods:
    """The nominations, which may differ from `status.nominatedNodeName` of the Pods until that is written.

    `current` finds the Pod of a key as it was last heard of: one that is gone or has a Node is not nominated.
    `version` grows with every change.
    """

    def __init__(self, current: Callable[[Key], PodInfo | None]) -> None:
        self.version = 0
        self._current = current
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}
        """Names of Nodes by uid of the Pod."""

    def nominated_pods(self, node_name: str) -> list[PodInfo]:
        """Those that are nominated to this Node, the oldest nomination first."""
        return list(self._by_node.get(node_name, {}).values())

    def nominated_nodes(self) -> Collection[str]:
        """The names of all Nodes to which Pods are nominated."""
        return self._by_node.keys()

    def node_of(self, uid: str) -> str:
        """The Node to which this Pod is nominated; empty if it is not."""
        return self._nodes.get(uid, "")

    def add(self, pod: PodInfo, nominate: Nominate | None = None) -> None:
        """Take over what was decided about the Pod; without a decision, what its status says."""
        node = pod.nominated_node_name if nominate is None else nominate.node_name
        current = self._current(pod.key) if node else None
        is_nominated = current is not None and not current.node_name
        if is_nominated and list(self._by_node.get(node, {}).values()) == [pod]:
            return  # as it is: a Pod that waits for room is nominated anew in each attempt
        self.delete(pod)
        if is_nominated:
            self.version += 1
            self._nodes[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def update(self, old: PodInfo, new: PodInfo) -> None:
        """A nomination that no status has shown yet is kept, else what the new status says counts."""
        kept = not old.nominated_node_name and not new.nominated_node_name and self.node_of(old.uid)
        self.delete(old)
        self.add(new, Nominate(kept) if kept else None)

    def delete(self, pod: PodInfo) -> None:
        node = self._nodes.pop(pod.uid, None)
        if node is not None:
            self.version += 1
            del self._by_node[node][pod.uid]
            if not self._by_node[node]:
                del self._by_node[node]
