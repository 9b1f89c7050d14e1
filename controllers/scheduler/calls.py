"""The API calls of the scheduler and of its plugins."""

from collections.abc import Mapping
from typing import Final

import orjson

from tollbar.model import resources
from tollbar.model.objects import Key, Object, spec, uid_of
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client, PatchType
from tollbar.runtime.errors import Conflict, ServerError, Unreachable
from tollbar.runtime.retry import READ, REFUSED, UNTIL_KNOWN
from tollbar.scheduler.cache.podinfo import PodInfo

_RESOURCES: Final[Mapping[str, Resource]] = {each.kind: each for each in (resources.PODS, resources.RESOURCE_CLAIMS)}


class ApiCalls:
    """Implements `tollbar.scheduler.framework.handle.Calls`.

    No write is repeated, except one that the API server was too busy for: the Pod is tried again instead.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Where the answer is lost or is a conflict, the Pod itself tells whether it was bound to this Node."""
        namespace, name = pod.key
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": pod.uid},
            "target": {"kind": "Node", "name": node_name},
        }
        try:
            await REFUSED(self._client.raw, "POST", resources.PODS.path(namespace, name, "binding"), orjson.dumps(body))
        except (Unreachable, ServerError, Conflict):
            found: Object = await UNTIL_KNOWN(self._client.get, resources.PODS, name, namespace)
            if uid_of(found) != pod.uid or spec(found).get("nodeName") != node_name:
                raise

    async def delete_pod(self, pod: PodInfo) -> None:
        await REFUSED(self._client.delete, resources.PODS, pod.key.name, pod.key.namespace, uid=pod.uid)

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        body = {"metadata": {"uid": pod.uid}, **patch}
        patched: Object = await REFUSED(
            self._client.patch,
            resources.PODS,
            pod.key.name,
            body,
            namespace=pod.key.namespace,
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        return patched

    async def get(self, kind: str, key: Key) -> Object:
        found: Object = await READ(self._client.get, _RESOURCES[kind], key.name, key.namespace)
        return found

    async def create(self, kind: str, obj: Object) -> Object:
        created: Object = await REFUSED(self._client.create, _RESOURCES[kind], obj)
        return created

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        updated: Object = await REFUSED(self._client.replace, _RESOURCES[kind], obj, subresource)
        return updated

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        await REFUSED(self._client.delete, _RESOURCES[kind], key.name, key.namespace, uid=uid)
