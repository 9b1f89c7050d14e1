"""What a Pod requests of its Node: containers, sidecars, init containers, overhead."""

from decimal import Decimal
from typing import Any

import pytest

from tollbar.model.objects import Object
from tollbar.model.podresources import counts_by_status, requests


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


def status(name: str = "main", *, granted: Object | None = None, in_effect: Object | None = None) -> Object:
    return {
        "name": name,
        **({} if granted is None else {"allocatedResources": granted}),
        **({} if in_effect is None else {"resources": {"requests": in_effect}}),
    }


def resized(cpu: str, *statuses: Object, whole: str = "", **more: Any) -> Object:
    found = pod(
        {"name": "main", **container(cpu=cpu)}, **({"resources": {"requests": {"cpu": whole}}} if whole else {})
    )
    return {**found, "status": {"containerStatuses": list(statuses), **more}}


INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]
RESIZED: dict[str, tuple[Object, dict[str, str]]] = {
    "no status": (resized("1"), {"cpu": "1"}),
    "more is asked for than was granted": (
        resized("3", status(granted={"cpu": "1"}, in_effect={"cpu": "1"}), conditions=DEFERRED),
        {"cpu": "3"},
    ),
    "less is asked for, and not yet granted": (
        resized("1", status(granted={"cpu": "2"}, in_effect={"cpu": "2"})),
        {"cpu": "2"},
    ),
    "less is granted, and not yet in effect": (
        resized("1", status(granted={"cpu": "1"}, in_effect={"cpu": "3"})),
        {"cpu": "3"},
    ),
    "what was granted counts as long as nothing says what is in effect": (
        resized("1", status(granted={"cpu": "2"})),
        {"cpu": "2"},
    ),
    "what can never be does not count": (
        resized("9", status(granted={"cpu": "1"}, in_effect={"cpu": "1"}), conditions=INFEASIBLE),
        {"cpu": "1"},
    ),
    "a container without a status of its own counts with its spec": (
        resized("2", status("other", granted={"cpu": "1"})),
        {"cpu": "2"},
    ),
    "the status of the Pod has the sum of its containers": (
        resized(
            "1",
            status(granted={"cpu": "9"}),
            allocatedResources={"cpu": "2"},
            resources={"requests": {"cpu": "3"}},
        ),
        {"cpu": "3"},
    ),
    "the whole Pod is resized": (
        resized("1", whole="2", allocatedResources={"cpu": "3"}, resources={"requests": {"cpu": "4"}}),
        {"cpu": "4"},
    ),
    "the whole Pod cannot be resized": (
        resized(
            "1",
            whole="9",
            allocatedResources={"cpu": "3"},
            resources={"requests": {"cpu": "3"}},
            conditions=INFEASIBLE,
        ),
        {"cpu": "3"},
    ),
    "what was granted to the whole Pod counts only beside what is in effect": (
        resized("1", whole="2", allocatedResources={"cpu": "3"}),
        {"cpu": "2"},
    ),
}


@pytest.mark.parametrize(("given", "want"), RESIZED.values(), ids=RESIZED)
def test_requests_of_a_pod_that_is_resized_in_place(given: Object, want: dict[str, str]) -> None:
    assert requests(given, status=True) == {name: Decimal(amount) for name, amount in want.items()}


@pytest.mark.parametrize("given", [given for given, _ in RESIZED.values()], ids=RESIZED)
def test_a_status_that_changes_the_requests_is_noticed(given: Object) -> None:
    assert counts_by_status(given) or requests(given, status=True) == requests(given)
