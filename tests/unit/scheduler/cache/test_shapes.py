"""Which Pods are one to the scheduler, and what is kept of them."""

import gc
from dataclasses import fields
from typing import Any
from weakref import ref

import orjson
import pytest

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes, projected


def pod(
    name: str = "web", *, labels: dict[str, str] | None = None, status: Object | None = None, **body: Any
) -> Object:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": f"uid-{name}",
            "labels": labels or {},
            "managedFields": [{"manager": "kubelet"}],
        },
        "spec": {"containers": [{"name": "main", "image": "web:1", "env": [{"name": "A"}]}], **body},
        "status": status or {},
    }


def volume(**source: Any) -> Object:
    return {"name": "v", **source}


ALIKE: dict[str, tuple[Object, Object, bool]] = {
    "but for their names": (pod("one"), pod("two"), True),
    "but for their Nodes": (pod(nodeName="n1"), pod(nodeName="n2"), True),
    "but for what containers are started with": (pod(), pod(containers=[{"name": "x", "image": "web:1"}]), True),
    "but for the token of the service account": (
        pod(volumes=[volume(projected={"sources": [1]})]),
        pod(volumes=[volume(projected={"sources": [2]})]),
        True,
    ),
    "in another order of fields": (
        pod(labels={"a": "1", "b": "2"}, priority=1, hostNetwork=True),
        pod(labels={"b": "2", "a": "1"}, hostNetwork=True, priority=1),
        True,
    ),
    "with another label": (pod(labels={"a": "1"}), pod(labels={"a": "2"}), False),
    "with another image": (pod(), pod(containers=[{"name": "main", "image": "web:2"}]), False),
    "with another volume": (
        pod(volumes=[volume(persistentVolumeClaim={"claimName": "data-0"})]),
        pod(volumes=[volume(persistentVolumeClaim={"claimName": "data-1"})]),
        False,
    ),
    "with another toleration": (pod(), pod(tolerations=[{"operator": "Exists"}]), False),
}


@pytest.mark.parametrize(("one", "other", "alike"), ALIKE.values(), ids=ALIKE)
def test_pods_share_a_shape(one: Object, other: Object, alike: bool) -> None:
    shapes = Shapes()
    first, second = shapes.pod_info(one), shapes.pod_info(other)
    assert (first.shape is second.shape) == alike


def test_pods_of_a_stateful_set_share_all_but_labels_and_volumes() -> None:
    shapes = Shapes()
    first, second = (
        shapes.pod_info(
            pod(
                labels={"apps.kubernetes.io/pod-index": index},
                volumes=[volume(persistentVolumeClaim={"claimName": f"data-{index}"})],
            )
        ).shape
        for index in ("0", "1")
    )
    shared = {name for each in fields(first) if getattr(first, name := each.name) is getattr(second, name)}
    differ = {each.name for each in fields(first)} - shared
    assert (differ, first.spec["containers"] is second.spec["containers"]) == (
        {"labels", "spec", "claims", "memo", "digest"},
        True,
    )


def test_a_shape_ends_with_its_last_pod() -> None:
    shapes = Shapes()
    first, second = shapes.pod_info(pod("one", labels={"a": "1"})), shapes.pod_info(pod("two", labels={"a": "1"}))
    shape = ref(first.shape)
    del first
    gc.collect()
    before = shape() is not None
    del second
    gc.collect()
    assert (before, shape(), len(shapes._shapes)) == (True, None, 0)


RESIZED = {
    "containerStatuses": [
        {
            "name": "main",
            "state": {"running": {}},
            "allocatedResources": {"cpu": "2"},
            "resources": {"requests": {"cpu": "3"}},
        }
    ],
    "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}, {"type": "Ready", "status": "True"}],
}
REQUESTING = [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "1"}}}]

KEPT: dict[str, Object] = {
    "a Pod that waits": pod(labels={"a": "1"}, status={"nominatedNodeName": "n1"}),
    "a Pod with a Node": pod(
        labels={"a": "1"}, nodeName="n1", priority=5, status={"startTime": "2026-01-01T00:00:00Z"}
    ),
    "a Pod that is resized": pod(nodeName="n1", containers=REQUESTING, status=RESIZED),
    "a Pod that was resized as a whole": pod(
        nodeName="n1",
        resources={"requests": {"cpu": "1"}},
        status={"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}},
    ),
    "a victim": pod(
        nodeName="n1",
        status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
    ),
    "a Pod with volumes, claims and sidecars": pod(
        nodeName="n1",
        volumes=[volume(persistentVolumeClaim={"claimName": "data"}), volume(emptyDir={})],
        resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}],
        initContainers=[{"name": "proxy", "restartPolicy": "Always", "ports": [{"hostPort": 80, "containerPort": 80}]}],
    ),
}


def shown(info: PodInfo) -> dict[str, Any]:
    return {each.name: getattr(info, each.name) for each in fields(info) if each.name != "kept"}


@pytest.mark.parametrize("given", KEPT.values(), ids=KEPT)
def test_the_record_of_a_projected_pod_is_that_of_the_pod(given: Object) -> None:
    shapes = Shapes()
    whole = shapes.pod_info(given)
    assert shown(shapes.pod_info(projected(given))) == shown(whole)


def test_what_is_kept_of_a_pod_with_a_node() -> None:
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    assert projected(pod(labels={"a": "1"}, nodeName="n1", terminationGracePeriodSeconds=30, status=status)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-web", "labels": {"a": "1"}},
        "spec": {"containers": [{"image": "web:1"}], "nodeName": "n1"},
        "status": {},
    }


def test_all_of_a_pod_that_waits_is_kept_but_managed_fields() -> None:
    given = pod(schedulingGates=[{"name": "example.com/wait"}])
    meta = {name: value for name, value in given["metadata"].items() if name != "managedFields"}
    assert projected(given) == {**given, "metadata": meta}


def test_names_that_many_pods_have_are_kept_once() -> None:
    written = orjson.dumps(pod(nodeName="n1", schedulerName="default-scheduler", preemptionPolicy="Never"))
    one, other = (projected(orjson.loads(written)) for _ in range(2))
    assert one["metadata"]["namespace"] is other["metadata"]["namespace"]
    for name in ("nodeName", "schedulerName", "preemptionPolicy"):
        assert one["spec"][name] is other["spec"][name]


AFTER: dict[str, Object] = {
    "is bound": pod(labels={"a": "1"}, nodeName="n1"),
    "got labels with its Node": pod(labels={"a": "1", "zone": "z"}, nodeName="n1"),
    "lost its labels": pod(),
    "has another status": pod(labels={"a": "1"}, status={"nominatedNodeName": "n1"}),
}
VOLUMES: dict[str, list[Object]] = {"no volumes": [], "a volume": [volume(persistentVolumeClaim={"claimName": "data"})]}


@pytest.mark.parametrize("volumes", VOLUMES.values(), ids=VOLUMES)
@pytest.mark.parametrize("after", AFTER.values(), ids=AFTER)
def test_a_pod_of_the_same_generation_has_the_record_that_it_would_have_anew(
    after: Object, volumes: list[Object]
) -> None:
    shapes = Shapes()

    def of(given: Object) -> Object:
        meta, body = {**given["metadata"], "generation": 3}, {**given["spec"], "volumes": volumes}
        return {**given, "metadata": meta, "spec": body}

    known = shapes.pod_info(of(pod(labels={"a": "1"})))
    found = shapes.pod_info(of(after), known)
    anew = shapes.pod_info(of(after))
    assert (found.shape is anew.shape, shown(found)) == (True, shown(anew))


OTHERS: dict[str, tuple[Object, Object]] = {
    "another generation": ({"generation": 1}, {"generation": 2}),
    "no generation": ({}, {}),
    "another uid": ({"generation": 1}, {"generation": 1, "uid": "other"}),
}


@pytest.mark.parametrize(("before", "after"), OTHERS.values(), ids=OTHERS)
def test_the_spec_of_a_pod_is_looked_at_again_with(before: Object, after: Object) -> None:
    shapes = Shapes()
    one, other = pod(), pod(priority=7)
    known = shapes.pod_info({**one, "metadata": {**one["metadata"], **before}})
    assert shapes.pod_info({**other, "metadata": {**other["metadata"], **after}}, known).priority == 7
