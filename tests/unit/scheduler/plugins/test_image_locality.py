"""ImageLocality: images that are on a Node already."""

from typing import Any

import pytest
from plugins.tables import cluster, handle, info, node, pod, scored

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.plugins.image_locality import ImageLocality, images

MB = 1024 * 1024


def having(name: str, **sizes: int) -> Object:
    """A Node with these images, of so many MB, by name and tag."""
    return node(name, images=[{"names": [f"{image}:1"], "sizeBytes": size * MB} for image, size in sizes.items()])


def running(*names: str, **spec: Any) -> PodInfo:
    return pod(containers=[{"name": f"c{place}", "image": image} for place, image in enumerate(names)], **spec)


EMPTY = having("empty")
SCORES: dict[str, tuple[PodInfo, list[Object], list[int]]] = {
    "no Node has it": (running("web:1"), [EMPTY, having("b", other=500)], [0, 0]),
    "one Node of two has it": (running("web:1"), [having("a", web=500), EMPTY], [23, 0]),
    "every Node has it": (running("web:1"), [having("a", web=500), having("b", web=500)], [48, 48]),
    "small images do not matter": (running("web:1"), [having("a", web=20), EMPTY], [0, 0]),
    "no more than 1000 MB each": (running("web:1"), [having("a", web=3000), EMPTY], [100, 0]),
    "several containers": (running("web:1", "db:1"), [having("a", web=800, db=600), having("b", db=600)], [49, 29]),
    "the same image twice counts twice": (running("web:1", "web:1"), [having("a", web=1000), EMPTY], [49, 0]),
    "another tag": (running("web:2"), [having("a", web=500), EMPTY], [0, 0]),
    "init containers count": (
        running("web:1", initContainers=[{"name": "init", "image": "db:1"}]),
        [having("a", db=1000), EMPTY],
        [24, 0],
    ),
    "image volumes count": (
        running("web:1", volumes=[{"name": "model", "image": {"reference": "db:1"}}]),
        [having("a", db=1000), EMPTY],
        [24, 0],
    ),
}


@pytest.mark.parametrize(("given", "on", "want"), SCORES.values(), ids=SCORES)
def test_scores(given: PodInfo, on: list[Object], want: list[int]) -> None:
    nodes = [info(each) for each in on]
    assert scored(ImageLocality({}, handle(cluster(*nodes))), given, *nodes) == want


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ("web", "web:latest"),
        ("web:1", "web:1"),
        ("localhost:5000/web", "localhost:5000/web:latest"),
        ("localhost:5000/web:1", "localhost:5000/web:1"),
    ],
)
def test_no_tag_means_latest(given: str, want: str) -> None:
    assert images(running(given).shape) == (want,)
