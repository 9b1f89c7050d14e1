"""The watches of the client: their events, and every way in which they end."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from unit.runtime.answers import added, bookmark, deleted, modified, status

from tollbar.model import resources
from tollbar.runtime.client import INACTIVITY, Client
from tollbar.runtime.errors import ApiError, Forbidden, Gone, ServerError, Unreachable

WATCHES: dict[str, tuple[dict[str, Any], list[str], type[ApiError] | None]] = {
    "events come in order, bookmarks too": (
        {"chunks": (added("a", 1) + modified("a", 2), bookmark(3))},
        ["ADDED 1", "MODIFIED 2", "BOOKMARK 3"],
        None,
    ),
    "an event may be spread over chunks": (
        {"chunks": (added("a", 1)[:9], added("a", 1)[9:30], added("a", 1)[30:])},
        ["ADDED 1"],
        None,
    ),
    "an event may be larger than any buffer": (
        {"chunks": (added("a", 1, pad="x" * 6_000_000), deleted("a", 2))},
        ["ADDED 1", "DELETED 2"],
        None,
    ),
    "410 in the stream": (
        {
            "chunks": (
                added("a", 1),
                b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
            )
        },
        ["ADDED 1"],
        Gone,
    ),
    "500 in the stream": (
        {"chunks": (b'{"type":"ERROR","object":{"kind":"Status","code":500}}\n',)},
        [],
        ServerError,
    ),
    "410 as an answer": ({"status": 410, "body": status(410, "Expired")}, [], Gone),
    "403": ({"status": 403, "body": status(403, "Forbidden")}, [], Forbidden),
    "a stream that is cut": ({"chunks": (added("a", 1),), "then": "cut"}, ["ADDED 1"], Unreachable),
    "a stream that ends within an event": (
        {"chunks": (added("a", 1) + added("b", 2)[:20],)},
        ["ADDED 1"],
        Unreachable,
    ),
    "a stream that falls silent": (
        {"chunks": (added("a", 1),), "then": "hang"},
        ["ADDED 1"],
        Unreachable,
    ),
    "a server that never answers": ({"body": b"", "then": "hang"}, [], Unreachable),
}


async def watched(
    client: Client, want: list[str], server: Any, leap: Callable[[float], None]
) -> tuple[list[str], type[Exception] | None]:
    """The events of a watch, and how it ends; if the server hangs, time passes once the client has what is wanted."""
    seen: list[str] = []
    raised: type[Exception] | None = None

    async def silence() -> None:
        await server.hanging.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(30):
                while seen != want:  # noqa: ASYNC110 - what the client has read of it nothing tells
                    await asyncio.sleep(0)
        leap(INACTIVITY)

    passing = asyncio.create_task(silence())
    try:
        async for event in client.watch(resources.PODS, resource_version="7", timeout_seconds=300):
            seen += [f"{event.type} {event.object['metadata']['resourceVersion']}"]
    except ApiError as caught:
        raised = type(caught)
    passing.cancel()
    return seen, raised


@pytest.mark.parametrize(("given", "want", "error"), WATCHES.values(), ids=WATCHES.keys())
async def test_watch(
    given: dict[str, Any],
    want: list[str],
    error: type[ApiError] | None,
    server: Any,
    connect: Any,
    leap: Callable[[float], None],
) -> None:
    server.watches.append(given)
    client = await connect()
    seen, raised = await watched(client, want, server, leap)
    query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "7", "timeoutSeconds": "300"}
    assert (seen, raised, server.requests[0].query) == (want, error, query)


async def test_calls_in_flight_are_bounded_but_watches_are_not(server: Any, connect: Any) -> None:
    client = await connect(in_flight=2)
    server.others += [{"then": "hang", "body": {}} for _ in range(6)]
    server.watches.append({"chunks": (added("a", 1),), "then": "hang"})
    calls = [asyncio.create_task(client.get(resources.PODS, str(number), "shop")) for number in range(6)]
    while server.in_flight < 2:
        server.arrived.clear()
        await server.arrived.wait()
    async with aclosing(client.watch(resources.PODS, resource_version="1", timeout_seconds=300)) as events:
        first = await anext(events)
    server.release.set()
    await asyncio.gather(*calls)
    assert (first.type, server.most_in_flight) == ("ADDED", 3)


THROUGH_A_PROXY: dict[str, tuple[dict[str, Any], type[ApiError] | None]] = {
    "until the server ends it": ({}, None),
    "until it falls silent": ({"then": "hang"}, Unreachable),
    "until it is cut": ({"then": "cut"}, Unreachable),
}


@pytest.mark.parametrize(("given", "error"), THROUGH_A_PROXY.values(), ids=THROUGH_A_PROXY)
async def test_a_watch_through_a_proxy(
    given: dict[str, Any], error: type[ApiError] | None, server: Any, connect: Any, leap: Callable[[float], None]
) -> None:
    server.watches.append({"chunks": (added("a", 1), modified("a", 2)), **given})
    client = await connect(cluster={"server": "http://api.invalid/k8s", "proxy-url": server.url})
    want = ["ADDED 1", "MODIFIED 2"]
    seen, raised = await watched(client, want, server, leap)
    assert (seen, raised, server.requests[0].path) == (want, error, "/k8s/api/v1/pods")


async def test_a_watch_through_a_proxy_that_is_refused(server: Any, connect: Any) -> None:
    server.watches.append({"status": 410, "body": status(410, "Expired")})
    client = await connect(cluster={"server": "http://api.invalid/k8s", "proxy-url": server.url})
    with pytest.raises(Gone):
        async for _ in client.watch(resources.PODS, resource_version="7", timeout_seconds=300):
            pass
