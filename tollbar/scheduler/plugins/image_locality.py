"""ImageLocality: Nodes that have the Pod's images already score higher, the more so for images that few Nodes lack."""

from typing import Final

import numpy as np

from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shape
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import MAX_SCORE, Arguments, Places, Scores

_MB: Final = 1024 * 1024
_LEAST: Final = 23 * _MB
_MOST_PER_IMAGE: Final = 1000 * _MB


class ImageLocality:
    name = "ImageLocality"

    def __init__(self, args: Arguments, handle: Handle) -> None:
        self._handle = handle

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The sizes of the images that are there, each by the part of all Nodes that have it.

        From 0 for 23 MB to 100 for 1000 MB per image.
        """
        wanted, listed = images(pod.shape), node.images
        present = sum(_value(image, self._handle.snapshot) for image in wanted if image in listed)
        most = _MOST_PER_IMAGE * len(wanted)
        return MAX_SCORE * (min(max(present, _LEAST), most) - _LEAST) // (most - _LEAST)

    def score_nodes(self, state: CycleState, pod: PodInfo, nodes: Snapshot, places: Places) -> Scores:
        wanted = images(pod.shape)
        listed = [image for image in wanted if image in nodes.images]
        present = np.zeros(len(places), np.int64)
        if wanted and not listed:
            return present  # less than what begins to count, on every Node
        for image in listed:
            present += nodes.has_image(image)[nodes.table.order[places]] * _value(image, nodes)
        most = _MOST_PER_IMAGE * len(wanted)
        return MAX_SCORE * (np.clip(present, _LEAST, most) - _LEAST) // (most - _LEAST)


def _value(image: str, nodes: Snapshot) -> int:
    state = nodes.images[image]
    return int(state.size * (state.nodes / len(nodes)))


def images(shape: Shape) -> tuple[str, ...]:
    """The images of all containers and image volumes, as Nodes list them; one that is used twice counts twice."""
    found: tuple[str, ...] | None = shape.memo.get(ImageLocality.name)
    if found is None:
        spec = shape.spec
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        references = [container.get("image") or "" for container in containers]
        references += [each["image"].get("reference") or "" for each in spec.get("volumes") or () if "image" in each]
        found = shape.memo[ImageLocality.name] = tuple(map(_with_tag, references))
    return found


def _with_tag(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
