"""What the fake kubelet does by itself; the rest is tried on control planes."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tollbar.devplane.kubelet import FakeKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Object
from tollbar.model.resources import NODES, Resource
from tollbar.runtime.errors import Forbidden


class Server:
    """An API server without Pods that does not let one Node go."""

    def __init__(self, kept: str) -> None:
        self.kept = kept
        self.there: set[str] = set()

    async def create(self, resource: Resource, obj: Object) -> None:
        if resource is NODES:
            self.there.add(obj["metadata"]["name"])

    async def patch(self, *_: Any, **__: Any) -> None: ...

    async def list(self, *_: Any, **__: Any) -> Object:
        return {"metadata": {"resourceVersion": "1"}, "items": []}

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Object, None]:
        await asyncio.Event().wait()
        yield {}

    async def delete(self, resource: Resource, name: str, *_: Any, **__: Any) -> None:
        if resource is NODES and name == self.kept:
            raise Forbidden(403, "Forbidden", "it stays")
        if resource is NODES:
            self.there.remove(name)


async def test_a_node_that_cannot_be_removed_does_not_keep_the_others() -> None:
    server: Any = Server(kept="a")
    async with FakeKubelet(server) as kubelet:
        for name in "abc":
            await kubelet.add_node(NodeSpec(name))
        with pytest.raises(Forbidden):
            await kubelet.stop()
    assert server.there == {"a"}
