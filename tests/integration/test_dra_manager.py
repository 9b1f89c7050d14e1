"""The manager of claims and devices beside kube-scheduler: it says that allocated is what kube-scheduler allocated."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from planes.parameters import only_real, since

from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.dra.allocator import Allocator
from tollbar.dra.manager import DraManager
from tollbar.dra.state import AllocatedState
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object, metadata
from tollbar.model.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, PODS, RESOURCE_CLAIMS, Resource
from tollbar.runtime.caches import Caches, listed
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.detection import device_taint_rules
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.views.devices import dra_manager

pytestmark = only_real("another scheduler allocates there, and DeviceTaintRules are not served")
PATIENCE = 60.0
NODES = ("dra-a", "dra-b")


class World:
    """A driver and a class of its own, with two devices on each Node; claims come and go with their Pods."""

    def __init__(self, client: Client, manager: DraManager, namespace: str) -> None:
        self.client = client
        self.manager = manager
        self.namespace = namespace
        self.driver = f"{namespace}.example.com"

    async def create(self, resource: Resource, name: str, **fields: Any) -> Object:
        meta = {"name": name, **({"namespace": self.namespace} if resource.namespaced else {})}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **fields}
        created: Object = await self.client.create(resource, obj)
        return created

    async def claim(self, name: str, count: int = 1) -> Object:
        request = {"name": "gpu", "exactly": {"deviceClassName": self.namespace, "count": count}}
        return await self.create(RESOURCE_CLAIMS, name, spec={"devices": {"requests": [request]}})

    async def pod(self, name: str, claim: str) -> Object:
        return await self.create(
            PODS,
            name,
            spec={
                "containers": [{"name": "main", "image": "none", "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
                "terminationGracePeriodSeconds": 0,
            },
        )

    def held(self) -> dict[DeviceId, int]:
        """How many claims hold each device of this world: claims that other tests left may hold others."""
        return {device: count for device, count in self.manager.claims.state.devices.items() if self.has(device)}

    def has(self, device: DeviceId) -> bool:
        return device.driver == self.driver

    async def allocated(self) -> list[Object]:
        """What the API server has, in all namespaces."""
        found = (await self.client.list(RESOURCE_CLAIMS))["items"]
        return [allocation for each in found if (allocation := claims.allocation(each))]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def until_allocated(self, names: Iterable[str]) -> None:
        def are() -> bool:
            found = [self.manager.claims.get(Key(self.namespace, name)) for name in names]
            return all(each is not None and claims.allocation(each) for each in found)

        await self.until(are)

    async def agrees(self) -> None:
        """The manager's state becomes that of the API server's claims."""
        async with asyncio.timeout(PATIENCE):
            while self.manager.claims.state != AllocatedState(await self.allocated()):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert set(self.held().values()) <= {1}, "whole devices, each held once"


@pytest.fixture
async def world(admin: Client, namespace: str) -> AsyncIterator[World]:
    caches = Caches()
    manager = dra_manager(caches.store)
    caches.fill(admin, clock=SystemClock(), rng=Random(), metrics=Metrics())
    filling = asyncio.create_task(caches.run())
    made = World(admin, manager, namespace)
    async with FakeKubelet(admin) as kubelet, asyncio.timeout(PATIENCE * 3):
        for node in NODES:
            await kubelet.add_node(NodeSpec(node))
            await kubelet.publish_devices(node, made.driver, [{"name": "gpu-0"}, {"name": "gpu-1"}])
        selector = {"cel": {"expression": f'device.driver == "{made.driver}"'}}
        await made.create(DEVICE_CLASSES, namespace, spec={"selectors": [selector]})
        await listed(manager.stores)
        await made.until(lambda: len([*manager.inventory.pools({"metadata": {"name": NODES[1]}})]) == 1)
        await made.until(lambda: namespace in manager.classes)
        yield made
        for resource, of in ((PODS, namespace), (RESOURCE_CLAIMS, namespace)):
            for obj in (await admin.list(resource, of))["items"]:
                await _delete(admin, resource, metadata(obj)["name"], of)
        await _delete(admin, DEVICE_CLASSES, namespace)
        for obj in (await admin.list(DEVICE_TAINT_RULES))["items"] if manager.stores[3] else ():
            await _delete(admin, DEVICE_TAINT_RULES, metadata(obj)["name"])
        await made.until(lambda: not made.held())
        for node in NODES:
            await kubelet.remove_node(node)
    filling.cancel()
    with suppress(asyncio.CancelledError):
        await filling


async def _delete(client: Client, resource: Resource, name: str, namespace: str = "") -> None:
    with suppress(NotFound):
        await client.delete(resource, name, namespace)


async def test_the_state_is_what_kube_scheduler_allocated_while_claims_come_and_go(world: World) -> None:
    turns = Random(1)
    for turn in range(4):
        names = [f"c{turn}-{number}" for number in range(4)]
        for name in names:
            await world.claim(name)
            await world.pod(name, name)
        await world.until_allocated(names)
        await world.agrees()
        assert sum(world.held().values()) == 4
        gone = turns.sample(names, 3)
        for name in gone:
            await _delete(world.client, PODS, name, world.namespace)
            await _delete(world.client, RESOURCE_CLAIMS, name, world.namespace)
        await world.until(lambda: len(world.held()) == 1)
        await world.agrees()
        (left,) = set(names) - set(gone)
        await _delete(world.client, PODS, left, world.namespace)  # kube-controller-manager deallocates the claim
        await world.until(lambda: not world.held())
        await world.agrees()


async def test_what_the_manager_would_allocate_is_what_kube_scheduler_allocates(world: World) -> None:
    """One claim after the other, on the Node that kube-scheduler took."""
    for number in range(4):
        name = f"c{number}"
        wanted = await world.claim(name)
        allocator = Allocator(world.manager.inventory, world.manager.claims.state, world.manager.classes)
        expected = {node: allocator.allocate({"metadata": {"name": node}}, [wanted]) for node in NODES}
        await world.pod(name, name)
        await world.until_allocated([name])
        (result,) = (world.manager.claims.get(Key(world.namespace, name)) or {})["status"]["allocation"]["devices"][
            "results"
        ]
        found: Any = expected[result["pool"]]
        assert found[0]["devices"]["results"][0]["device"] == result["device"]


async def test_what_this_process_wrote_itself_counts_once(world: World) -> None:
    """Signalled, written, assumed and shown by the watch; kube-scheduler goes around it."""
    manager, name = world.manager, "ours"
    wanted = await world.claim(name)
    await world.until(lambda: manager.claims.get(Key(world.namespace, name)))
    node: Object = {"metadata": {"name": NODES[0]}}
    found: Any = Allocator(manager.inventory, manager.claims.state, manager.classes).allocate(node, [wanted])
    assert manager.claims.signal_pending_allocation({**wanted, "status": {"allocation": found[0]}}) == found[0]
    (device,) = world.held()
    user = {"resource": "pods", "name": "somebody", "uid": str(uuid.uuid4())}
    answer = await world.client.patch(
        RESOURCE_CLAIMS,
        name,
        [{"op": "add", "path": "/status", "value": {"allocation": found[0], "reservedFor": [user]}}],
        namespace=world.namespace,
        subresource="status",
    )
    assert world.held() == {device: 1}
    manager.claims.assume(answer)
    manager.claims.remove_pending_allocation(metadata(wanted)["uid"], force=True)
    assert world.held() == {device: 1}
    for number in range(3):
        await world.claim(f"theirs-{number}")
        await world.pod(f"theirs-{number}", f"theirs-{number}")
    await world.until_allocated([f"theirs-{number}" for number in range(3)])
    await world.agrees()
    assert world.held()[device] == 1


TAINT: Object = {"key": "example.com/broken", "effect": "NoSchedule"}


@since("1.37", "DeviceTaintRules are not served")
async def test_device_taint_rules_are_as_the_manager_expects_them(world: World) -> None:
    found = await device_taint_rules(world.client)
    assert found == DEVICE_TAINT_RULES
    name = world.namespace
    selector = {"driver": "none.example.com"}
    rule = await world.create(DEVICE_TAINT_RULES, name, spec={"deviceSelector": selector, "taint": TAINT})
    # The server adds when the taint was added, which a device's taint gets, too.
    assert (rule["spec"]["deviceSelector"], sorted(rule["spec"]["taint"])) == (selector, ["effect", "key", "timeAdded"])
    assert metadata(rule)["generation"] == 1
    status = [{"op": "add", "path": "/status/conditions", "value": []}]
    assert metadata(await world.client.patch(DEVICE_TAINT_RULES, name, status, subresource="status"))["generation"] == 1
    await world.client.patch(
        DEVICE_TAINT_RULES, name, [{"op": "replace", "path": "/spec/deviceSelector", "value": {"pool": "none"}}]
    )
    await world.create(DEVICE_TAINT_RULES, f"{name}-without-selector", spec={"taint": TAINT})
    for bad in ({"deviceSelector": selector}, {"deviceSelector": {"driver": {}}, "taint": TAINT}):
        with pytest.raises(ApiError):
            await world.create(DEVICE_TAINT_RULES, f"{name}-bad", spec=bad)
    await world.until(lambda: len(world.manager.stores[3]) == 2)
    # The rule without a selector selects nothing.
    await world.until(lambda: len(world.manager.inventory.taint_rules) == 1)
    assert not len(world.manager.malformed)


@since("1.37", "DeviceTaintRules are not served")
async def test_the_taints_of_rules_are_those_that_kube_scheduler_sees(world: World) -> None:
    async def rule(name: str, **spec: Any) -> None:
        await world.create(DEVICE_TAINT_RULES, name, spec={"taint": TAINT, **spec})

    def tainted(node: str) -> list[str]:
        (pool,) = world.manager.inventory.pools({"metadata": {"name": node}})
        return [device.id.device for device in pool.devices if device.taints]

    selector = {"driver": world.driver}
    await rule(f"{world.namespace}-pool", deviceSelector={**selector, "pool": NODES[0]})
    await rule(f"{world.namespace}-device", deviceSelector={**selector, "device": "gpu-0"})
    await world.until(lambda: (tainted(NODES[0]), tainted(NODES[1])) == (["gpu-0", "gpu-1"], ["gpu-0"]))
    await world.claim("only")
    await world.pod("only", "only")
    await world.until_allocated(["only"])
    (device,) = world.held()
    assert (device.pool, device.device) == (NODES[1], "gpu-1")
