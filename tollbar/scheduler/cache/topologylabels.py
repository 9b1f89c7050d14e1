"""Topology labels that a Pod gets from its Node: the API server copies zone and region as it binds the Pod (KEP-4742).

A Pod that is assumed on a Node has them at once, so that selectors on them count it from then on, and the confirmation
of its binding is no change of the Node.  An API server copies them since Kubernetes 1.35, unless its feature gate
PodTopologyLabelsAdmission is off.  So the last binding that was seen tells whether it does.

Source: plugin/pkg/admission/podtopologylabels.
"""

from dataclasses import replace

from tollbar.model import pods
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes


class TopologyLabels:
    """Whether the API server copies them is learned from each binding that the watch shows."""

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._are_copied = False

    def assumed(self, pod: PodInfo, node_name: str, node: NodeInfo | None) -> PodInfo:
        """The Pod as it will be on this Node, with the labels that the API server is expected to copy."""
        copied = _of(node) if self._are_copied else {}
        shape = self._shapes.labelled(pod.shape, {**pod.labels, **copied}) if copied else pod.shape
        return replace(pod, node_name=node_name, shape=shape)

    def learn(self, waiting: PodInfo, bound: PodInfo, node: NodeInfo | None) -> None:
        """A Pod was bound to this Node: what it was while it waited, and what the watch shows now."""
        labels = _of(node).items()
        if not labels <= waiting.labels.items():
            self._are_copied = labels <= bound.labels.items()


def _of(node: NodeInfo | None) -> dict[str, str]:
    return pods.topology_labels(node.labels) if node is not None else {}
