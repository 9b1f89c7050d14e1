"""The controllers of the embedded plane, beyond the contract: Pods get Nodes and devices, and free them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tollbar import cel
from tollbar.devplane.embedded import bootstrap, conversion, deletion, shapes
from tollbar.devplane.embedded.admission import Admission
from tollbar.devplane.embedded.builtin import SERVICE_ACCOUNTS
from tollbar.devplane.embedded.controllers import Controllers
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.requests import Write
from tollbar.devplane.embedded.scheduling import SchedulerApi
from tollbar.devplane.embedded.storage import Storage
from tollbar.devplane.nodes import NodeSpec, node, slices
from tollbar.model.objects import Key, Object
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.scheduler.cache.podinfo import Shapes

# Both read files the first time, which the event loop is not to do.
shapes.definitions()
cel.engine().compile("device.driver == ''", cel.DEVICE_ENV)

DRIVER = "gpu.example.com"
PROTECTION = "resource.kubernetes.io/delete-protection"
WANTED = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}}
BY_TEMPLATE = {"name": "card", "resourceClaimTemplateName": "gpu"}
BY_NAME = {"name": "card", "resourceClaimName": "shared"}


class Cluster:
    """An empty cluster in this process."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    async def create(self, res: Resource, name: str, namespace: str = "", **fields: Any) -> Object:
        obj = {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, **fields}
        return (await self.registry.create(Write(self.registry.kinds.at(res), Key(namespace, name)), obj)).object

    async def delete(self, res: Resource, key: Key) -> None:
        await deletion.delete(self.registry, Write(self.registry.kinds.at(res), key), {})

    def get(self, res: Resource, key: Key) -> Object | None:
        entry = self.registry.storage.get(res, key)
        return None if entry is None else conversion.decoded(self.registry.kinds.at(res), entry)

    async def until(self, res: Resource, key: Key, holds: Callable[[Object | None], Any]) -> Any:
        """The first truthy answer about an object, as it changes."""
        while True:
            revision = self.registry.storage.revision
            if found := holds(self.get(res, key)):
                return found
            await self.registry.storage.changed(res, revision)

    async def pod(self, name: str, *references: Object, **spec: Any) -> Key:
        body = {"containers": [{"name": "main", "image": "none"}], "resourceClaims": list(references), **spec}
        await self.create(PODS, name, "default", spec=body)
        return Key("default", name)

    async def bound(self, key: Key) -> str:
        """The Node that a Pod gets."""
        return str(await self.until(PODS, key, lambda pod: pod and pod["spec"].get("nodeName")))

    async def finish(self, key: Key) -> None:
        """The containers of a Pod end."""
        write = Write(self.registry.kinds.at(PODS), key, subresource="status")
        await self.registry.patch(write, PatchType.MERGE, {"status": {"phase": "Succeeded"}})


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """With one Node, which has one device, and a template for it."""
    storage = Storage()
    admission = Admission(storage)
    registry = Registry(storage, Kinds(), admission, SystemClock())
    bootstrap.open_tables(registry)
    await bootstrap.fill(registry)
    acting = asyncio.create_task(Controllers(registry).run())
    made = Cluster(registry)
    await made.until(SERVICE_ACCOUNTS, Key("default", "default"), bool)
    for each in slices("gpu", DRIVER, [{"name": "gpu-0"}], 1):
        await made.create(RESOURCE_SLICES, each["metadata"]["name"], spec=each["spec"])
    await made.create(DEVICE_CLASSES, DRIVER, spec={})
    await made.create(RESOURCE_CLAIM_TEMPLATES, "gpu", "default", spec={"spec": WANTED})
    ready = node(NodeSpec("gpu"), "172.16.0.1", 0)
    await made.create(NODES, "gpu", spec={}, status=ready["status"])
    yield made
    acting.cancel()
    with suppress(asyncio.CancelledError):
        await acting
    await admission.close()


def claim_of(pod: Object | None) -> Any:
    return pod and (pod["status"].get("resourceClaimStatuses") or [{}])[0].get("resourceClaimName")


async def generated(cluster: Cluster, pod: Key) -> Key:
    return Key("default", await cluster.until(PODS, pod, claim_of))


async def test_a_pod_gets_the_node_and_its_claim_the_device(cluster: Cluster) -> None:
    pod = await cluster.pod("web", BY_TEMPLATE)
    found = await cluster.bound(pod), cluster.get(RESOURCE_CLAIMS, await generated(cluster, pod))
    assert found[1] is not None
    status = found[1]["status"]
    assert (
        found[0],
        status["allocation"]["devices"]["results"],
        [entry["name"] for entry in status["reservedFor"]],
        found[1]["metadata"]["finalizers"],
    ) == (
        "gpu",
        [{"request": "r", "driver": DRIVER, "pool": "gpu", "device": "gpu-0"}],
        ["web"],
        [PROTECTION],
    )


async def test_a_pod_that_is_scheduled_has_zone_and_region_of_its_node_as_labels(cluster: Cluster) -> None:
    labels = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "x"}
    write = Write(cluster.registry.kinds.at(NODES), Key("", "gpu"))
    await cluster.registry.patch(write, PatchType.MERGE, {"metadata": {"labels": labels}})
    pod = await cluster.pod("web")
    await cluster.bound(pod)
    assert (cluster.get(PODS, pod) or {})["metadata"]["labels"] == labels


async def test_a_claim_is_deleted_with_its_pod_and_the_next_pod_gets_the_device(cluster: Cluster) -> None:
    first = await cluster.pod("first", BY_TEMPLATE)
    await cluster.bound(first)
    claim = await generated(cluster, first)
    second = await cluster.pod("second", BY_TEMPLATE)
    await cluster.until(PODS, second, lambda pod: pod and unschedulable(pod))
    await cluster.finish(first)
    await cluster.delete(PODS, first)
    assert (await cluster.until(RESOURCE_CLAIMS, claim, lambda found: found is None), await cluster.bound(second)) == (
        True,
        "gpu",
    )


async def test_a_claim_is_deleted_when_its_pod_has_finished_though_the_pod_stays(cluster: Cluster) -> None:
    pod = await cluster.pod("job", BY_TEMPLATE)
    await cluster.bound(pod)
    claim = await generated(cluster, pod)
    await cluster.finish(pod)
    gone = await cluster.until(RESOURCE_CLAIMS, claim, lambda found: found is None)
    assert (gone, cluster.get(PODS, pod) is not None) == (True, True)


async def test_a_claim_with_another_reservation_keeps_its_device(cluster: Cluster) -> None:
    await cluster.create(RESOURCE_CLAIMS, "shared", "default", spec=WANTED)
    shared = Key("default", "shared")
    pod = await cluster.pod("web", BY_NAME)
    await cluster.bound(pod)
    write = Write(cluster.registry.kinds.at(RESOURCE_CLAIMS), shared, subresource="status")
    entry = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "uid-of-web"}
    await cluster.registry.patch(write, PatchType.STRATEGIC, {"status": {"reservedFor": [entry]}})
    await cluster.finish(pod)
    left = await cluster.until(RESOURCE_CLAIMS, shared, lambda claim: claim and one_is_left(claim))
    assert left == ["web"]
    assert (cluster.get(RESOURCE_CLAIMS, shared) or {})["status"]["reservedFor"] == [entry]


async def test_a_shared_claim_stays_allocated_while_one_pod_uses_it(cluster: Cluster) -> None:
    await cluster.create(RESOURCE_CLAIMS, "shared", "default", spec=WANTED)
    shared = Key("default", "shared")
    pods = [await cluster.pod(name, BY_NAME) for name in ("a", "b")]
    for pod in pods:
        await cluster.bound(pod)
    await cluster.finish(pods[0])
    left = await cluster.until(RESOURCE_CLAIMS, shared, lambda claim: claim and one_is_left(claim))
    await cluster.finish(pods[1])
    free = await cluster.until(
        RESOURCE_CLAIMS, shared, lambda claim: claim and not claim["metadata"].get("finalizers") and claim
    )
    assert (left, free["status"]) == (["b"], {})


def one_is_left(claim: Object) -> Any:
    names = [each["name"] for each in claim["status"].get("reservedFor") or ()]
    return len(names) == 1 and claim["status"].get("allocation") and names


def unschedulable(pod: Object) -> Any:
    return [each["message"] for each in pod["status"].get("conditions") or () if each.get("reason") == "Unschedulable"]


async def test_a_pod_whose_template_comes_late_is_placed(cluster: Cluster) -> None:
    pod = await cluster.pod("web", {"name": "card", "resourceClaimTemplateName": "late"})
    await cluster.create(RESOURCE_CLAIM_TEMPLATES, "late", "default", spec={"spec": WANTED})
    assert await cluster.bound(pod) == "gpu"


async def test_a_gated_pod_waits_until_it_is_released(cluster: Cluster) -> None:
    gated = await cluster.pod("gated", schedulingGates=[{"name": "example.com/a"}])
    await cluster.bound(await cluster.pod("other"))
    held = cluster.get(PODS, gated)
    release = [{"op": "remove", "path": "/spec/schedulingGates"}]
    await cluster.registry.patch(Write(cluster.registry.kinds.at(PODS), gated), PatchType.JSON, release)
    assert held is not None
    assert ("nodeName" in held["spec"], await cluster.bound(gated)) == (False, "gpu")


async def stale(cluster: Cluster, api: SchedulerApi) -> None:
    claim = await cluster.create(RESOURCE_CLAIMS, "shared", "default", spec=WANTED)
    labelled = {**claim, "metadata": {**claim["metadata"], "labels": {"a": "b"}}}
    await api.update("ResourceClaim", labelled)
    await api.update("ResourceClaim", claim)


async def bound_already(cluster: Cluster, api: SchedulerApi) -> None:
    pod = await cluster.pod("web")
    await cluster.bound(pod)
    await api.bind(Shapes().pod_info(cluster.get(PODS, pod) or {}), "other")


async def deleted_again(cluster: Cluster, api: SchedulerApi) -> None:
    await cluster.create(RESOURCE_CLAIMS, "shared", "default", spec=WANTED)
    await api.delete("ResourceClaim", Key("default", "shared"), uid="of an earlier one")


REFUSED: dict[str, tuple[Callable[[Cluster, SchedulerApi], Awaitable[object]], type[ApiError]]] = {
    "an object that has changed since": (stale, Conflict),
    "a Pod that is bound already": (bound_already, Conflict),
    "an object that is not there": (lambda _, api: api.get("ResourceClaim", Key("default", "none")), NotFound),
    "the deletion of an earlier object of that name": (deleted_again, Conflict),
}


@pytest.mark.parametrize(("attempt", "error"), REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_to_the_scheduler_is_an_error_of_the_api_client(
    cluster: Cluster, attempt: Callable[[Cluster, SchedulerApi], Awaitable[object]], error: type[ApiError]
) -> None:
    with pytest.raises(error):
        await attempt(cluster, SchedulerApi(cluster.registry))
