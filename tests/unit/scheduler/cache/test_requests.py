"""What a Pod counts as where containers without requests must not look free."""

from typing import Any

import pytest

from tollbar.model.objects import Object
from tollbar.scheduler.cache.resources import pod_requests

MI = 1024 * 1024


def container(**requests: str) -> Object:
    return {"resources": {"requests": requests}}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"spec": {"containers": list(containers), **spec}}


COUNTED: dict[str, tuple[Object, tuple[int, int]]] = {
    "a container without requests": (pod(container()), (100, 200 * MI)),
    "every such container": (pod(container(), container()), (200, 400 * MI)),
    "beside one with requests": (pod(container(cpu="1", memory="1Mi"), container()), (1100, 201 * MI)),
    "a request of nothing": (pod(container(cpu="0", memory="0")), (0, 0)),
    "one of both": (pod(container(cpu="5m")), (5, 200 * MI)),
    "init containers": (pod(container(cpu="0", memory="0"), initContainers=[container()]), (100, 200 * MI)),
    "overhead comes on top": (pod(container(), overhead={"cpu": "50m"}), (150, 200 * MI)),
    "a request of the whole Pod": (pod(container(), resources={"requests": {"cpu": "1", "memory": "1Mi"}}), (1000, MI)),
    "of which its containers name one": (
        pod(container(memory="1Mi"), resources={"requests": {"cpu": "1"}}),
        (1000, MI),
    ),
    "of which nobody names the other": (pod(container(), resources={"requests": {"cpu": "1"}}), (1000, 200 * MI)),
    "of huge pages alone": (pod(container(), resources={"requests": {"hugepages-2Mi": "2Mi"}}), (100, 200 * MI)),
}


@pytest.mark.parametrize(("given", "want"), COUNTED.values(), ids=COUNTED)
def test_non_zero(given: Object, want: tuple[int, int]) -> None:
    found = pod_requests(given)
    assert (found.non_zero_milli_cpu, found.non_zero_memory) == want
