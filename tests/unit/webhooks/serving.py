"""A server over real TLS on a free port, with handlers that answer and fail in every way, and its clients."""

import asyncio
import io
import ssl
from dataclasses import replace
from typing import Any, Final

import aiohttp
import orjson
import trustme
from objects.reviews import about_pod, new_pod, review_of

from tollbar.model.objects import Object
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.config import Address
from tollbar.runtime.metrics import Metrics
from webhooks.connections import LIMITS, Limits
from webhooks.review import Answer
from webhooks.server import AdmissionServer
from webhooks.tls import new_context

REQUEST = about_pod(new_pod().being_created(generate_name=True))
BODY = orjson.dumps(review_of(REQUEST))
ALLOWED = {"uid": REQUEST["uid"], "allowed": True}
PATIENT: Final = replace(LIMITS, read_seconds=60.0)
"""With time for a busy machine."""


def echo(request: Object) -> Answer:
    return Answer(warnings=(str(request["operation"]),))


def broken(request: Object) -> Answer:
    return Answer(warnings=(request["no such member"],))


def unprintable(request: Object) -> Answer:
    return Answer(warnings=({1, 2},))  # type: ignore[arg-type]


def recursive(request: Object) -> Answer:
    return recursive(request)


HANDLERS = {"/echo": echo, "/broken": broken, "/unprintable": unprintable, "/recursive": recursive}


class Running:
    """A server on a free port, and its clients."""

    def __init__(self, metrics: Metrics, drain_seconds: float = 30.0, limits: Limits = PATIENT) -> None:
        self.metrics = metrics
        ca, context, self.trust = trustme.CA(), new_context(), ssl.create_default_context()
        ca.issue_cert("127.0.0.1").configure_cert(context)
        ca.configure_trust(self.trust)
        self._server = AdmissionServer(
            Address("127.0.0.1", 0),
            lambda: context,
            HANDLERS,
            clock=SystemClock(),
            metrics=metrics,
            limits=limits,
            drain_seconds=drain_seconds,
        )
        self._stop = asyncio.Event()

    async def start(self) -> "Running":
        self._task = asyncio.create_task(self._server.run(self._stop))
        await self._server.listening.wait()
        self.port = self._server.port
        return self

    async def stop(self) -> None:
        self._stop.set()
        await self._task

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, Any]:
        async with aiohttp.ClientSession() as session:
            async with session.post(
                f"https://127.0.0.1:{self.port}{path}", data=io.BytesIO(body), ssl=self.trust, headers=headers
            ) as answer:
                text = await answer.text()
                return answer.status, orjson.loads(text)["response"] if answer.status == 200 else text

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.trust)

    def in_flight(self, path: str) -> float | None:
        name = "controller_runtime_webhook_requests_in_flight"
        return self.metrics.registry.get_sample_value(name, {"webhook": path})

    def counted(self) -> dict[str, float]:
        return {
            f"{sample.labels['webhook']} {sample.labels['code']}": sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "controller_runtime_webhook_requests_total"
        }

    def shed(self) -> dict[str, float]:
        return {
            sample.labels["reason"]: sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name == "tollbar_admission_connections_shed_total" and sample.value
        }
