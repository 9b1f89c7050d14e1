"""The webhook under a flood by strangers: it goes on to decide, and keeps within its memory.

It is asked by the control plane, and also by reviews that each need a connection of their own.  What memory it took is
in the log (`--log-cli-level=INFO`).
"""

import asyncio
import logging
import ssl
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from objects.builders import claim, device_class, toleration_rule
from objects.reviews import about_pod, review_of
from planes.loading import VOLUME
from planes.objects import RESERVED, a_pod, as_written
from planes.parameters import real_too
from processes.measuring import most_memory
from processes.stack import Process, Stack, installed

from tollbar.api.webhooks import PODS_PATH
from tollbar.cli import console
from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from webhooks.connections import LIMITS, Shed

pytestmark = [pytest.mark.timeout(300), real_too(VOLUME > 1, "part of make test-long")]

log = logging.getLogger(__name__)

NAMESPACE = "default"
REVIEWS = 50 if VOLUME > 1 else 10
CREATIONS = 5 if VOLUME > 1 else 2
MOST_MEMORY = 512 * 1024 * 1024
"""The limit of the webhook's container in manifests/base/webhooks/deployment.yaml."""


@pytest.fixture
def flooded(plane: Any, tmp_path: Path) -> Iterator["Flooded"]:
    with installed(plane, tmp_path) as stack:
        plane.kubectl.apply(
            as_written(device_class("gpu.example.com")),
            as_written(claim("gpu", NAMESPACE).request("gpu.example.com")),
            as_written(toleration_rule("gpu").cel("claims.size() > 0").giving(RESERVED)),
        )
        flooded = Flooded(stack)
        stack.register()
        yield flooded
        plane.kubectl("delete", "resourceclaim/gpu", "deviceclass/gpu.example.com", "-n", NAMESPACE)


class Flooded:
    """The webhook, the reviews of an API server, and strangers."""

    def __init__(self, stack: Stack) -> None:
        self.webhook = stack.webhook(log__verbosity=0)
        self.kubeconfig = stack.plane.kubeconfig
        self._port = stack.serving
        self._trust = ssl.create_default_context(cadata=stack.authority.decode())
        self._trust.check_hostname = False

    async def decided(self, session: aiohttp.ClientSession) -> str:
        """What becomes of a Pod with a claim for which the rule has a toleration."""
        pod = as_written(a_pod("web", NAMESPACE).claims("gpu"))
        request = {**about_pod(pod, namespace=NAMESPACE), "uid": str(uuid.uuid4())}
        url = f"https://127.0.0.1:{self._port}{PODS_PATH}"
        body = orjson.dumps(review_of(request))
        async with session.post(url, data=body, ssl=self._trust, headers={"Connection": "close"}) as answer:
            response = orjson.loads(await answer.read())["response"]
        return "decided" if response["uid"] == request["uid"] and response.get("patch") else f"undecided: {response}"

    async def created(self, admin: Client) -> str:
        """What becomes of such a Pod whose creation is tried."""
        pod = as_written(a_pod("web", NAMESPACE).claims("gpu"))
        answer = await admin.raw("POST", PODS.path(NAMESPACE), orjson.dumps(pod), query={"dryRun": "All"})
        return "decided" if RESERVED in orjson.loads(answer)["spec"].get("tolerations", []) else "undecided"

    async def half(self) -> None:
        """A body of which all but the last byte is sent."""
        async with self._connected() as (reader, writer):
            size = LIMITS.review_bytes
            writer.write(_head(size) + b" " * (size - 1))
            await reader.read()

    async def oversized(self) -> None:
        async with self._connected() as (reader, writer):
            size = 7_600_000
            writer.write(_head(size) + b" " * size)
            await reader.read()

    async def costly(self) -> None:
        """A review that is complete, and becomes as much memory as can be."""
        async with self._connected() as (reader, writer):
            filling = (
                b'{"kind":"AdmissionReview","request":{"uid":"x","object":{"spec":[' + b"{}," * 1_040_000 + b"{}]}}}"
            )
            writer.write(_head(len(filling)) + filling)
            await reader.read()

    async def silent(self) -> None:
        """A connection without a handshake."""
        _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.Event().wait()
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


def _head(size: int) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (PODS_PATH.encode(), size)


async def again_and_again(send: Callable[[], Awaitable[None]]) -> None:
    while True:
        with suppress(OSError):
            await send()


async def until(ask: Callable[[], Awaitable[object]], answer: object) -> None:
    """Ask again until this is the answer: nothing tells of a change in another process."""
    while await ask() != answer:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


def shed(process: Process) -> set[Shed]:
    """For which of the two reasons connections have been closed."""
    samples = process.metrics()["tollbar_admission_connections_shed_total"]
    return {reason for reason in (Shed.CONNECTIONS, Shed.BYTES) if samples[f'reason="{reason}"']}


async def test_a_flood_costs_no_review_its_decision_and_the_webhook_no_more_than_its_memory(flooded: Flooded) -> None:
    senders = [flooded.half] * 64 + [flooded.oversized] * 4 + [flooded.costly] * 4 + [flooded.silent] * 300
    cluster = console.Cluster(str(flooded.kubeconfig))
    async with aiohttp.ClientSession() as session, console.connected(cluster, "test") as admin:
        await until(lambda: flooded.decided(session), "decided")  # its caches follow
        async with asyncio.TaskGroup() as flood:
            running = [flood.create_task(again_and_again(send)) for send in senders]
            await until(lambda: asyncio.to_thread(shed, flooded.webhook), {Shed.CONNECTIONS, Shed.BYTES})
            answers = [await flooded.decided(session) for _ in range(REVIEWS)]
            created = [await flooded.created(admin) for _ in range(CREATIONS)]
            for task in running:
                task.cancel()
    most = most_memory(flooded.webhook.child.pid)
    decided = [*answers, *created].count("decided")
    log.info("a flood: %d of %d decided, %d MiB at most", decided, REVIEWS + CREATIONS, most >> 20)
    counted = flooded.webhook.metrics()["controller_runtime_webhook_requests_total"]
    assert (
        Counter(answers),
        Counter(created),
        counted[f'code="413",webhook="{PODS_PATH}"'] > 0,
        most < MOST_MEMORY,
    ) == (Counter(decided=REVIEWS), Counter(decided=CREATIONS), True, True)
