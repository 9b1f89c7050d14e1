"""Wait until an object of the cluster looks as expected, by watching it.

No object is polled: there is one list, then a watch from its version; when a watch ends or its version is too old, both
start again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import click

from tollbar.model.objects import Key, Object, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.errors import Gone, NotFound, Unreachable
from tollbar.runtime.retry import READ

_WATCH_SECONDS: Final = 300
_AGAIN_SECONDS: Final = 0.2
_POLL_SECONDS: Final = 0.05

Wanted: TypeAlias = Callable[[Object | None], bool]


@dataclass(frozen=True, slots=True)
class Selection:
    """One object, or the first of several: a resource, a namespace (empty for cluster scope) and a field selector."""

    resource: Resource
    namespace: str
    fields: str

    @classmethod
    def named(cls, resource: Resource, key: Key) -> "Selection":
        return cls(resource, key.namespace, f"metadata.name={key.name}")


def is_gone(obj: Object | None) -> bool:
    return obj is None


class NotSeen(click.ClickException):
    """What was waited for did not come; `last` is the newest state that was seen, None for no such object."""

    def __init__(self, what: str, last: Object | None) -> None:
        super().__init__(what)
        self.last = last


async def until(client: Client, selection: Selection, wanted: Wanted, *, timeout: float, what: str) -> Object | None:
    """The first state (None when there is no such object) that is `wanted`.

    `timeout` is in seconds; `what` says in words what is waited for.  Raises NotSeen, and ApiError when refused.
    """
    last, _ = await milestones(client, selection, {what: wanted}, timeout=timeout)
    return last


async def milestones(
    client: Client,
    selection: Selection,
    wanted: Mapping[str, Wanted],
    *,
    timeout: float,
    clock: Clock | None = None,
    begun: asyncio.Event | None = None,
) -> tuple[Object | None, dict[str, float]]:
    """The state at which the last milestone was reached, and the monotonic time of each, in the order of the mapping.

    One state may reach several.  `timeout` is in seconds, for all of them; `begun` is set when nothing can be missed
    any more, or all is over.  Raises NotSeen with the first that is missing, and ApiError when refused.
    """
    clock = clock or SystemClock()
    reached: dict[str, float] = {}
    last: Object | None = None
    missing = list(wanted)
    try:
        async with asyncio.timeout(timeout), aclosing(_states(client, selection)) as states:
            async for last in states:
                if begun is not None:
                    begun.set()
                while missing and wanted[missing[0]](last):
                    reached[missing.pop(0)] = clock.monotonic()
                if not missing:
                    return last, reached
    except TimeoutError:
        pass
    finally:
        if begun is not None:
            begun.set()
    raise NotSeen(f"{missing[0]}: not seen within {timeout:g} s", last)


async def served(client: Client, resource: Resource, *, timeout: float) -> None:
    """Wait for the paths of a kind, which come shortly after its definition is Established.  Raises NotSeen."""
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                with suppress(NotFound):
                    await READ(client.list, resource, limit=1)
                    return
                await asyncio.sleep(_POLL_SECONDS)
    raise NotSeen(f"{resource.plural} are not served after {timeout:g} s", None)


async def _states(client: Client, selection: Selection) -> AsyncGenerator[Object | None, None]:
    """What is selected as it is now, then as it changes, for ever; None when it is absent or deleted."""
    where = selection.resource, selection.namespace
    while True:
        try:
            page = await client.list(*where, field_selector=selection.fields)
            yield next(iter(page["items"]), None)
            watch = client.watch(
                *where,
                resource_version=metadata(page)["resourceVersion"],
                field_selector=selection.fields,
                timeout_seconds=_WATCH_SECONDS,
            )
            async with aclosing(watch) as events:
                async for event in events:
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
        except (Gone, Unreachable):
            pass
        await asyncio.sleep(_AGAIN_SECONDS)
