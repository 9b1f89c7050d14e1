"""How the proxy answers: as the server did, or damaged in one way.  Called by the proxy's handler alone."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from faultproxy.faults import Cut, Delay, Expire, Refuse
from faultproxy.request import Request

_DROPPED: Final = ("Connection", "Keep-Alive", "Transfer-Encoding", "Content-Length", "Date", "Server")
_SELECTING: Final = ("labelSelector", "fieldSelector", "limit")
_EXPIRED: Final = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole answer."""

    status: int
    headers: CIMultiDict[str]
    body: bytes


def identity(request: Request) -> str:
    """What two reads have in common that can be answered alike: the path and what is selected."""
    return "&".join([request.path, *(f"{name}={request.query.get(name, '')}" for name in _SELECTING)])


async def store(upstream: aiohttp.ClientResponse) -> Stored:
    return Stored(upstream.status, _headers(upstream), await upstream.read())


def whole(stored: Stored) -> web.Response:
    return web.Response(status=stored.status, headers=stored.headers, body=stored.body)


def refusal(fault: Refuse) -> web.Response:
    """A Status as the API server would write it."""
    details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after else {}
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fault.message,
        "reason": fault.reason,
        "details": details,
        "code": fault.status,
    }
    headers = {"Retry-After": str(fault.retry_after)} if fault.retry_after else {}
    return web.json_response(status, status=fault.status, headers=headers)


async def truncated(incoming: web.Request, stored: Stored) -> web.StreamResponse:
    """Half of the body that the head announces, then EOF."""
    response = web.StreamResponse(status=stored.status, headers=stored.headers)
    response.content_length = len(stored.body)
    await response.prepare(incoming)
    await response.write(stored.body[: len(stored.body) // 2])
    if incoming.transport is not None:
        incoming.transport.close()
    return response


async def stream(incoming: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    """As it comes."""
    response = await _begin(incoming, upstream)
    async for chunk in upstream.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


async def damaged_stream(
    incoming: web.Request,
    upstream: aiohttp.ClientResponse,
    fault: Cut | Expire | Delay,
    reset: Callable[[web.Request], web.StreamResponse],
) -> web.StreamResponse:
    """A watch with its fault.  Events are told apart only in JSON."""
    response = await _begin(incoming, upstream)
    if isinstance(fault, Delay):
        async with aclosing(_later(upstream.content.iter_any(), fault.seconds)) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
        return response
    half = isinstance(fault, Cut) and fault.within
    for number in range(fault.events + half):
        event = await upstream.content.readline()
        await response.write(event if number < fault.events else event[: len(event) // 2])
    if isinstance(fault, Expire):
        await response.write(json.dumps(_EXPIRED).encode() + b"\n")
    elif fault.reset:
        return reset(incoming)
    await response.write_eof()
    return response


async def _later(chunks: AsyncIterator[bytes], seconds: float) -> AsyncGenerator[bytes, None]:
    """The same chunks, each so many seconds after it came."""
    clock = asyncio.get_running_loop().time
    coming: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def read() -> None:
        try:
            async for chunk in chunks:
                coming.put_nowait((clock() + seconds, chunk))
        finally:
            coming.put_nowait((clock() + seconds, b""))

    reader = asyncio.create_task(read())
    try:
        while True:
            due, chunk = await coming.get()
            await asyncio.sleep(due - clock())
            if not chunk:
                break
            yield chunk
    finally:
        reader.cancel()


async def _begin(incoming: web.Request, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=upstream.status, headers=_headers(upstream))
    response.enable_chunked_encoding()
    await response.prepare(incoming)
    return response


def _headers(upstream: aiohttp.ClientResponse) -> CIMultiDict[str]:
    headers = CIMultiDict(upstream.headers)
    for name in _DROPPED:
        headers.popall(name, None)
    return headers
