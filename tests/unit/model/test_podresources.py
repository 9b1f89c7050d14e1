"""What a Pod requests of its Node: containers, sidecars, init containers, overhead."""

from decimal import Decimal
from typing import Any

import pytest

from tollbar.model.objects import Object
from tollbar.model.podresources import requests


def container(*, sidecar: bool = False, **amounts: str) -> Object:
    always = {"restartPolicy": "Always"} if sidecar else {}
    return {"resources": {"requests": amounts}, **always}


def pod(*containers: Object, init: tuple[Object, ...] = (), **spec: Any) -> Object:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


REQUESTS: dict[str, tuple[Object, dict[str, str]]] = {
    "nothing": (pod({"name": "main"}), {}),
    "containers run together": (
        pod(container(cpu="1"), container(cpu="500m", memory="1Gi")),
        {"cpu": "1.5", "memory": "1073741824"},
    ),
    "limits are not requests": (pod({"resources": {"limits": {"cpu": "1"}}}), {}),
    "a request of nothing is still one": (pod(container(cpu="0")), {"cpu": "0"}),
    "numbers as users write them": (pod({"resources": {"requests": {"cpu": 2}}}), {"cpu": "2"}),
    "extended resources count like any other": (pod(container(**{"example.com/gpu": "2"})), {"example.com/gpu": "2"}),
    "init containers run one after the other, before the others": (
        pod(container(cpu="1"), init=(container(cpu="3"), container(cpu="2"))),
        {"cpu": "3"},
    ),
    "an init container that asks for less": (pod(container(cpu="2"), init=(container(cpu="1"),)), {"cpu": "2"}),
    "an init container counts by resource": (
        pod(container(cpu="2", memory="1"), init=(container(cpu="1", memory="3"),)),
        {"cpu": "2", "memory": "3"},
    ),
    "a sidecar runs beside the containers": (
        pod(container(cpu="1"), init=(container(cpu="2", sidecar=True),)),
        {"cpu": "3"},
    ),
    "an init container runs beside the sidecars before it": (
        pod(container(cpu="1"), init=(container(cpu="1", sidecar=True), container(cpu="3"))),
        {"cpu": "4"},
    ),
    "and not beside those after it": (
        pod(container(cpu="1"), init=(container(cpu="3"), container(cpu="1", sidecar=True))),
        {"cpu": "3"},
    ),
    "sidecars add up": (
        pod(container(cpu="1"), init=(container(cpu="1", sidecar=True), container(cpu="2", sidecar=True))),
        {"cpu": "4"},
    ),
    "overhead comes on top": (
        pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "1"}),
        {"cpu": "1.25", "memory": "1"},
    ),
    "a request of the whole Pod replaces the sum": (
        pod(container(cpu="1", memory="1"), resources={"requests": {"cpu": "3"}}),
        {"cpu": "3", "memory": "1"},
    ),
    "even with less": (pod(container(cpu="3"), resources={"requests": {"cpu": "1"}}), {"cpu": "1"}),
    "huge pages may be requested for the whole Pod": (
        pod(container(), resources={"requests": {"hugepages-2Mi": "4"}}),
        {"hugepages-2Mi": "4"},
    ),
    "other resources may not": (
        pod(container(**{"example.com/gpu": "1"}), resources={"requests": {"example.com/gpu": "2"}}),
        {"example.com/gpu": "1"},
    ),
    "overhead comes on top of the whole Pod's request": (
        pod(container(cpu="1"), resources={"requests": {"cpu": "3"}}, overhead={"cpu": "1"}),
        {"cpu": "4"},
    ),
    "what is no quantity counts as absent": (pod(container(cpu="much", memory="1")), {"memory": "1"}),
    "null lists and maps": (
        {"spec": {"containers": [{"resources": None}], "initContainers": None, "overhead": None}},
        {},
    ),
}


@pytest.mark.parametrize(("given", "want"), REQUESTS.values(), ids=REQUESTS)
def test_requests(given: Object, want: dict[str, str]) -> None:
    assert requests(given) == {name: Decimal(amount) for name, amount in want.items()}
