"""Life cycles of claims beside the real scheduler and a fake kubelet, many at a time, for whoever disturbs them.

Each one creates Pods with claims, has them scheduled, lets them run, and ends them in one of several ways; none waits
for the claim controller except where devices are scarce: then scheduling does.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from history.claims import leftovers
from history.recording import Change, Recorder, recorded
from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Key, Object
from tollbar.model.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import AlreadyExists, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.retry import READ, WRITE

KINDS: Final = 6
"""So many kinds of life there are; each has its turn."""
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)
_DRIVER: Final = "gpu.example.com"
_SPEC: Final = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}


@dataclass
class Lives:
    """One plane's: `changes` has everything that was stored of Pods and claims."""

    client: Client
    namespace: str
    kubelet: FakeKubelet
    recorder: Recorder
    rng: random.Random
    seconds: float
    """How long a wait may take."""
    at_once: int
    """So many lives at one time."""
    _count: int = 0

    @property
    def changes(self) -> list[Change]:
        return self.recorder.changes[self.namespace]

    async def live(self, number: int) -> None:
        """So many more life cycles, `at_once` of them; every kind in turn."""
        kinds = (self.finishes, self.lingers, self.is_deleted, self.is_deleted_early, self.shares, self.comes_again)
        begins = iter(range(self._count, self._count + number))
        self._count += number

        async def worker() -> None:
            for index in begins:
                await kinds[index % KINDS](f"life-{index}")

        async with asyncio.TaskGroup() as workers:
            for _ in range(self.at_once):
                workers.create_task(worker())

    async def end(self) -> list[str]:
        """Delete every Pod and every claim by name; wait until nothing is left over.  What is, otherwise."""
        for resource in (PODS, RESOURCE_CLAIMS):
            for obj in (await READ(self.client.list, resource, self.namespace))["items"]:
                if resource is PODS or not obj["metadata"].get("ownerReferences"):
                    await self._delete(resource, obj["metadata"]["name"])
        await self.recorder.until(lambda: not self.recorder.objects[self.namespace], self.seconds)
        return leftovers(self.changes)

    # The kinds of life.

    async def finishes(self, name: str) -> None:
        await self._run(name, {"gpu": "gpu"})
        await self.kubelet.finish(Key(self.namespace, name))
        await self._delete(PODS, name)

    async def lingers(self, name: str) -> None:
        """A finished Pod that stays, as a Job's does."""
        await self._run(name, {"gpu": "gpu"})
        await self.kubelet.finish(Key(self.namespace, name))

    async def is_deleted(self, name: str) -> None:
        await self._run(name, {"a": "gpu", "b": "gpu"})
        await self._delete(PODS, name)

    async def is_deleted_early(self, name: str) -> None:
        await self._create(name, templates={"gpu": "gpu"})
        await asyncio.sleep(self.rng.uniform(0.0, 0.3))
        await self._delete(PODS, name)

    async def shares(self, name: str) -> None:
        """Two Pods with one claim; one goes, the other finishes."""
        claim = {"metadata": {"name": name, "namespace": self.namespace}, "spec": _SPEC}
        await self.client.create(RESOURCE_CLAIMS, claim)
        for each in (f"{name}-a", f"{name}-b"):
            await self._create(each, claims={"gpu": name})
        for each in (f"{name}-a", f"{name}-b"):
            await self._runs(each)
        await self._delete(PODS, f"{name}-a")
        await self.kubelet.finish(Key(self.namespace, f"{name}-b"))
        await self._delete(RESOURCE_CLAIMS, name)

    async def comes_again(self, name: str) -> None:
        """A Pod is replaced by another one of its name."""
        await self._run(name, {"gpu": "gpu"})
        await self._delete(PODS, name)
        await self.recorder.until(lambda: self._get(name) is None, self.seconds)
        await self._run(name, {"gpu": "gpu"})
        await self._delete(PODS, name)

    async def _run(self, name: str, templates: dict[str, str]) -> None:
        await self._create(name, templates=templates)
        await self._runs(name)

    async def _runs(self, name: str) -> None:
        def runs() -> bool:
            return ((self._get(name) or {}).get("status") or {}).get("phase") == "Running"

        if not await self.recorder.until(runs, self.seconds):
            raise AssertionError(f"{name} does not run: {(self._get(name) or {}).get('status')}")

    def _get(self, name: str) -> Object | None:
        return self.recorder.objects[self.namespace].get(("Pod", name))

    async def _create(
        self, name: str, *, templates: dict[str, str] | None = None, claims: dict[str, str] | None = None
    ) -> None:
        references = [
            *({"name": own, "resourceClaimTemplateName": each} for own, each in (templates or {}).items()),
            *({"name": own, "resourceClaimName": each} for own, each in (claims or {}).items()),
        ]
        container = {
            "name": "main",
            "image": "none",
            "resources": {"claims": [{"name": e["name"]} for e in references]},
        }
        spec = {"containers": [container], "resourceClaims": references, "terminationGracePeriodSeconds": 1}
        await self.client.create(PODS, {"metadata": {"name": name, "namespace": self.namespace}, "spec": spec})

    async def _delete(self, resource: Resource, name: str) -> None:
        with suppress(NotFound):
            await WRITE(self.client.delete, resource, name, self.namespace)


@asynccontextmanager
async def lives(
    kubeconfig: Path, namespace: str, *, seed: int, seconds: float = 60.0, at_once: int = 12
) -> AsyncGenerator[Lives, None]:
    """In a new namespace of a plane with kube-scheduler.  Not twice at one time: the Node has one name.

    There are as many devices as lives at one time, which is fewer than these want: a claim that is not freed holds
    everything up.
    """
    client = await Client.connect(kubeconfig=str(kubeconfig), metrics=Metrics(), user_agent="lives")
    try:
        async with FakeKubelet(client) as kubelet:
            await kubelet.add_node(NodeSpec("devices"))
            await kubelet.publish_devices("devices", _DRIVER, [{"name": f"gpu-{index}"} for index in range(at_once)])
            selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
            with suppress(AlreadyExists):
                await client.create(DEVICE_CLASSES, {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
            await client.create(NAMESPACES, {"metadata": {"name": namespace}})
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
            apply = {"patch_type": PatchType.APPLY, "field_manager": "lives", "force": True}
            await client.patch(SERVICE_ACCOUNTS, "default", account, namespace=namespace, **apply)
            template = {"metadata": {"name": "gpu", "namespace": namespace}, "spec": {"spec": _SPEC}}
            await client.create(RESOURCE_CLAIM_TEMPLATES, template)
            async with recorded(client) as recorder:
                yield Lives(client, namespace, kubelet, recorder, random.Random(seed), seconds, at_once)
    finally:
        await client.close()
