"""A fake kubelet, without containers: Nodes that stay Ready, Pods that run, and ResourceSlices.

Pods run as soon as they are bound, and until their preStop hooks have slept.  What is added to the capacity of a Node
becomes allocatable.

One instance serves any number of Nodes of any control plane.  When it stops, it removes everything it made and the Pods
of its Nodes.

Only Pods bound to its own Nodes are touched.  Every step depends on the Pod's state, never on the event's type, so a
relist or a repeated event changes nothing.  While it is down, Pods stay Pending or Terminating and Nodes turn NotReady
after the control plane's grace period, as with a real kubelet.
"""

import asyncio
import itertools
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Final, Self

from tollbar.devplane import nodes
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Key, Object, key_of, metadata, spec, uid_of
from tollbar.model.resources import LEASES, NODES, PODS, RESOURCE_SLICES, Resource
from tollbar.runtime import pager
from tollbar.runtime.client import PAGE, Client, PatchType
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.runtime.retry import READ, WRITE

_log: Final = logging.getLogger(__name__)

_BOUND: Final = "spec.nodeName!="
_WATCH_SECONDS: Final = 300
_RELIST_SECONDS: Final = 1.0
_MANAGER: Final = "tollbar-fake-kubelet"


class FakeKubelet:
    """An asynchronous context manager; add Nodes inside.

    `heartbeat` is the time between two renewals of each Node's Lease, in seconds.
    """

    def __init__(self, client: Client, *, heartbeat: float = 10.0) -> None:
        self._client = client
        self._clock = SystemClock()
        self._heartbeat = heartbeat
        self._nodes: dict[str, str] = {}
        """The address of each Node, by its name."""
        self._slices: dict[tuple[str, str], tuple[int, list[str]]] = {}
        self._numbers = itertools.count(1)
        self._seen: dict[str, Object] = {}
        self._busy: set[str] = set()
        self._runner: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._runner = asyncio.create_task(self._run(), name="fake-kubelet")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Remove the Nodes with their Pods, Leases and ResourceSlices.  Does nothing the second time.

        Raises the first ApiError when every Node was tried.
        """
        runner, self._runner = self._runner, None
        if runner is None:
            return
        runner.cancel()
        try:
            with suppress(asyncio.CancelledError):
                await runner
        finally:
            refused: list[ApiError] = []
            for name in sorted(self._nodes):
                try:
                    await self.remove_node(name)
                except ApiError as error:
                    refused.append(error)
            if refused:
                raise refused[0]

    async def add_node(self, wanted: NodeSpec) -> None:
        """Register a Ready Node.  Raises AlreadyExists when there is one of that name."""
        now = self._clock.now()
        ip = nodes.node_address(next(self._numbers))
        await WRITE(self._client.create, NODES, nodes.node(wanted, ip, now))
        self._nodes[wanted.name] = ip
        await WRITE(self._apply, LEASES, nodes.lease(wanted.name, now))
        # Admission taints every new Node as not ready, and not every plane has a controller manager to remove that.
        await WRITE(
            self._client.patch,
            NODES,
            wanted.name,
            {"spec": {"taints": list(wanted.taints)}},
            patch_type=PatchType.MERGE,
        )

    async def remove_node(self, name: str) -> None:
        """Remove a Node of this kubelet with its Pods, devices and Lease."""
        async for pod in pager.every(self._client, PODS, field_selector=f"spec.nodeName={name}"):
            await self._remove(PODS, key_of(pod), grace_period_seconds=0)
        for node, driver in [key for key in self._slices if key[0] == name]:
            for each in self._slices.pop((node, driver))[1]:
                await self._remove(RESOURCE_SLICES, Key("", each))
        await self._remove(NODES, Key("", name))
        await self._remove(LEASES, Key(nodes.LEASE_NAMESPACE, name))
        self._nodes.pop(name, None)

    async def publish_devices(self, node: str, driver: str, devices: Sequence[Object]) -> None:
        """Publish exactly these devices (`resource.k8s.io/v1` Device objects) of a driver on one of the Nodes.

        Each call publishes a new generation of the Node's pool; slices that it no longer needs are removed.
        """
        generation, old = self._slices.get((node, driver), (0, []))
        wanted = nodes.slices(node, driver, devices, generation + 1)
        names = [metadata(each)["name"] for each in wanted]
        self._slices[node, driver] = generation + 1, names
        for each in wanted:
            await WRITE(self._apply, RESOURCE_SLICES, each)
        for name in old[len(names) :]:
            await self._remove(RESOURCE_SLICES, Key("", name))

    async def finish(self, pod: Key) -> None:
        """End the containers of a Pod with exit code 0: it becomes Succeeded.  Raises NotFound."""
        current: Object = await READ(self._client.get, PODS, pod.name, pod.namespace)
        await self._patch_status(current, nodes.finished(current, self._clock.now()))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._keep_allocatable())
            async for pod in self._changes(PODS, _BOUND):
                self._observe(pod, tasks)

    async def _changes(self, resource: Resource, field_selector: str = "") -> AsyncIterator[Object]:
        """Every object from a list, then every change from a watch, again and again."""
        while True:
            try:
                async for obj in self._listed_and_watched(resource, field_selector):
                    yield obj
            except ApiError as error:
                extra = {"kind": resource.kind, "error": str(error)}
                _log.info("a watch failed, the objects are listed again", extra=extra)
            await self._clock.sleep(_RELIST_SECONDS)

    async def _listed_and_watched(self, resource: Resource, field_selector: str) -> AsyncIterator[Object]:
        version, paging = "", pager.Paging(PAGE)
        while not paging.ended:
            page: Object = await READ(
                self._client.list, resource, field_selector=field_selector, limit=paging.limit, continue_=paging.token
            )
            for obj in page["items"]:
                yield obj
            version = metadata(page)["resourceVersion"]
            paging.came(page)
        watch = self._client.watch(
            resource, resource_version=version, field_selector=field_selector, timeout_seconds=_WATCH_SECONDS
        )
        async with aclosing(watch) as events:
            async for event in events:
                if event.type in ("ADDED", "MODIFIED"):
                    yield event.object

    def _observe(self, pod: Object, tasks: asyncio.TaskGroup) -> None:
        """Remember the newest state of a Pod of our Nodes; one task per Pod works on it."""
        if spec(pod).get("nodeName") not in self._nodes:
            return
        uid = uid_of(pod)
        self._seen[uid] = pod
        if uid not in self._busy:
            self._busy.add(uid)
            tasks.create_task(self._settle(uid))

    async def _settle(self, uid: str) -> None:
        try:
            while (pod := self._seen.pop(uid, None)) is not None:
                try:
                    await self._step(pod)
                except (NotFound, Conflict):
                    continue  # its next state is on the way
                except ApiError as error:
                    _log.warning("cannot update or delete a Pod", extra={"pod": str(key_of(pod)), "error": str(error)})
        finally:
            self._busy.discard(uid)

    async def _step(self, pod: Object) -> None:
        meta = metadata(pod)
        if meta.get("deletionTimestamp"):
            # At zero the API server only waits for finalizers.
            if meta.get("deletionGracePeriodSeconds") != 0:
                await self._clock.sleep(nodes.pre_stop(pod))
                await self._remove(PODS, key_of(pod), uid=uid_of(pod), grace_period_seconds=0)
        elif (pod.get("status") or {}).get("phase") == "Pending":
            host_ip = self._nodes.get(spec(pod)["nodeName"])
            if host_ip is None:
                return  # the Node was removed in the meantime
            ip = nodes.pod_address(next(self._numbers))
            await self._patch_status(pod, nodes.running(pod, ip, host_ip, self._clock.now()))

    async def _keep_allocatable(self) -> None:
        async for node in self._changes(NODES):
            body = nodes.allocatable(node) if key_of(node).name in self._nodes else None
            if body is None:
                continue
            try:
                await WRITE(
                    self._client.patch,
                    NODES,
                    key_of(node).name,
                    body,
                    patch_type=PatchType.MERGE,
                    subresource="status",
                    field_manager=_MANAGER,
                )
            except ApiError as error:
                _log.warning("cannot update a Node", extra={"node": key_of(node).name, "error": str(error)})

    async def _beat(self) -> None:
        while True:
            await self._clock.sleep(self._heartbeat)
            for name in sorted(self._nodes):
                try:
                    await WRITE(self._apply, LEASES, nodes.lease(name, self._clock.now()))
                except ApiError as error:
                    _log.warning("cannot renew a Lease", extra={"node": name, "error": str(error)})

    async def _patch_status(self, pod: Object, body: Object) -> None:
        key = key_of(pod)
        await WRITE(
            self._client.patch,
            PODS,
            key.name,
            body,
            namespace=key.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
            field_manager=_MANAGER,
        )

    async def _apply(self, resource: Resource, obj: Object) -> None:
        key = key_of(obj)
        await self._client.patch(
            resource,
            key.name,
            obj,
            namespace=key.namespace,
            patch_type=PatchType.APPLY,
            field_manager=_MANAGER,
            force=True,
        )

    async def _remove(
        self, resource: Resource, key: Key, *, uid: str = "", grace_period_seconds: int | None = None
    ) -> None:
        with suppress(NotFound):
            await WRITE(
                self._client.delete,
                resource,
                key.name,
                key.namespace,
                uid=uid,
                grace_period_seconds=grace_period_seconds,
            )
