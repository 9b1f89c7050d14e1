"""An API server that lists any number of objects and has nothing else: for what a process takes, not what it does.

It answers as the real one does where controllers and schedulers ask at their start: reviews of the user and of its
rights, the version, discovery, lists page by page and watches in which nothing happens.  It streams no lists, which
clients then ask for as usual (KEP-3157).  Objects that it is sent are not kept.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

import orjson
from aiohttp import web
from processes.stack import CONTROLLERS

from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource

Texts = Callable[[int, int], Sequence[bytes]]
"""The JSON of the objects from one number to another, without the second."""

_VERSION = "1000"
_BOOKMARK_SECONDS = 60.0
_CSI_STORAGE_CAPACITIES = Resource(
    "storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", namespaced=True
)
_SERVED = (
    resources.PODS,
    resources.NAMESPACES,
    resources.RESOURCE_CLAIMS,
    resources.RESOURCE_CLAIM_TEMPLATES,
    resources.DEVICE_CLASSES,
    resources.TOLERATION_RULES,
    resources.SCHEDULING_GATES,
    resources.WORKLOAD_CLAIMS,
    resources.MUTATING_WEBHOOK_CONFIGURATIONS,
    resources.VALIDATING_WEBHOOK_CONFIGURATIONS,
    resources.NODES,
    resources.SERVICES,
    resources.REPLICATION_CONTROLLERS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
    resources.POD_DISRUPTION_BUDGETS,
    resources.PERSISTENT_VOLUMES,
    resources.PERSISTENT_VOLUME_CLAIMS,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    _CSI_STORAGE_CAPACITIES,
    resources.VOLUME_ATTACHMENTS,
    resources.RESOURCE_SLICES,
    resources.DEVICE_TAINT_RULES,
)


def given(*objects: Object) -> tuple[int, Texts]:
    """These objects, to be served."""
    texts = [orjson.dumps(each) for each in objects]
    return len(texts), lambda start, end: texts[start:end]


class Server:
    """How many objects there are of each resource, and their texts; `url` once it serves."""

    def __init__(self, objects: Mapping[Resource, tuple[int, Texts]]) -> None:
        self.url = ""
        self.creations = 0
        """How often it was asked to create an object."""
        nothing: tuple[int, Texts] = given()
        self._lists = {each.path(): (each, *objects.get(each, nothing)) for each in _SERVED}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            self.creations += request.method == "POST"
            return self._review(await request.json()) if request.method == "POST" else _not_found()
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.37.0"})
        if request.path not in self._lists:
            return self._discovery(request.path)
        if request.query.get("sendInitialEvents"):
            return _refused(422, "Invalid")
        if request.query.get("watch"):
            return await self._watch(request)
        return self._page(request)

    def _page(self, request: web.Request) -> web.Response:
        resource, size, texts = self._lists[request.path]
        start = int(request.query.get("continue") or 0)
        end = min(size, start + int(request.query.get("limit") or size))
        meta = orjson.dumps({"resourceVersion": _VERSION, "continue": str(end) if end < size else ""})
        kind = orjson.dumps({"kind": f"{resource.kind}List", "apiVersion": resource.api_version})
        body = b'%b,"metadata":%b,"items":[%b]}' % (kind[:-1], meta, b",".join(texts(start, end)))
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        resource = self._lists[request.path][0]
        bookmark = {**resource.type_meta, "metadata": {"resourceVersion": _VERSION}}
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        with suppress(ConnectionResetError):  # the process has stopped
            while True:
                await stream.write(orjson.dumps({"type": "BOOKMARK", "object": bookmark}) + b"\n")
                await asyncio.sleep(_BOOKMARK_SECONDS)
        return stream

    def _review(self, review: Object) -> web.Response:
        """Of the user, of its rights; anything else that is created is answered as it came."""
        status = {"userInfo": {"username": CONTROLLERS}, "allowed": True}
        return web.json_response({**review, "status": status}, status=201)

    def _discovery(self, path: str) -> web.Response:
        group_version = path.removeprefix("/apis/").removeprefix("/api/")
        names = [{"name": each.plural} for each, *_ in self._lists.values() if each.api_version == group_version]
        return web.json_response({"resources": names}) if names else _not_found()


def _not_found() -> web.Response:
    return _refused(404, "NotFound")


def _refused(code: int, reason: str) -> web.Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response(status, status=code)


@asynccontextmanager
async def serving(objects: Mapping[Resource, tuple[int, Texts]]) -> AsyncGenerator[Server, None]:
    """The server, for as long as the block lasts."""
    server, app = Server(objects), web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0]
        server.url = f"http://{host}:{port}"
        yield server
    finally:
        await runner.cleanup()
