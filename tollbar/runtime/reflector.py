"""Keeps a store equal to the API server: one paged list, then watches from where it left off.

Called by the processes, one task per kind.  Lists go into the store page by page, so that memory holds one page and the
projections; deletions that happened while we were away are made up from what the list no longer has.

Invariants: `run` ends only by cancellation; the store never loses an object to an error, only to a DELETED event, a
complete list or an API that discovery no longer has; the event loop is yielded to every 100 objects.

Hazards: while the API server is away the store is stale and `age` grows.  Two reflectors of one kind and different
scope are fine, but the two gauges of that kind then show the later one.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from random import Random
from typing import Final, Protocol

from tollbar import wellknown
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.resources import Resource
from tollbar.runtime.client import WatchEvent
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Gone, NotFound, Unreachable
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store

_log: Final = logging.getLogger(__name__)

PAGE: Final = 500
BACKOFF: Final = (0.5, 30.0)
"""Seconds: the shortest and the longest pause after a failure."""
RECHECK: Final = 300.0
RECHECK_OURS: Final = 10.0
RECHECK_MANY: Final = 30.0
"""Seconds until discovery is asked again about an API that it does not list; our own CRDs may follow any moment, and
what has several versions is new: it comes with an upgrade of the server."""
HEALTHY: Final = 10.0
"""Seconds after which a watch that ends has done its service."""
_WATCH_SECONDS: Final = (300, 600)
_YIELD_EVERY: Final = 100


class Source(Protocol):
    """What a reflector needs of the client."""

    async def list(
        self,
        res: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        continue_: str = "",
    ) -> Object: ...

    def watch(
        self,
        res: Resource,
        namespace: str = "",
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int,
    ) -> AsyncGenerator[WatchEvent, None]: ...

    async def served(self, group_version: str) -> set[str]: ...


class Reflector:
    """One kind, one scope, one store.

    `locate` finds the kind among the versions of its API that we read, if the given one is not served; the store's
    `resource` then says which it is.
    """

    def __init__(
        self,
        client: Source,
        store: Store,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        locate: Callable[[], Awaitable[Resource | None]] | None = None,
        clock: Clock,
        rng: Random,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._locate = locate
        self._store = store
        self._resource = store.resource
        self._namespace = namespace
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._clock = clock
        self._rng = rng
        kind = store.resource.kind
        self._relists = metrics.counter("tollbar_relists_total").labels(kind)
        self._events = metrics.counter("tollbar_watch_events_total").labels(kind)
        metrics.gauge("tollbar_cache_objects").labels(kind).set_function(lambda: len(store))
        metrics.gauge("tollbar_watch_age_seconds").labels(kind).set_function(self.age)
        self.served = True
        """Whether the API server has this API at all; without it the store is empty and synced."""
        self._heard = clock.monotonic()
        self._received = 0
        self._failures = 0
        self._barren = 0
        self._denials = 0

    def age(self) -> float:
        """Seconds since the API server last said anything about this kind; 0 for an API that it does not have."""
        return self._clock.monotonic() - self._heard if self.served else 0.0

    async def run(self) -> None:
        """List and watch until cancelled."""
        while True:
            pause = await self._round()
            if pause > 0:
                await self._clock.sleep(pause)

    async def _round(self) -> float:
        """A list if one is due, then a watch until it ends; the seconds to wait before the next round."""
        self._received = 0
        began = None
        clean = barren = False
        try:
            if not self._store.resource_version and not await self._list():
                ours = self._resource.group == wellknown.GROUP
                return RECHECK_OURS if ours else RECHECK_MANY if self._locate is not None else RECHECK
            began = self._clock.monotonic()
            await self._watch()
            clean = True
            barren = self._clock.monotonic() - began < HEALTHY
        except (Gone, NotFound) as error:
            self._report("list again", error)
            self._store.resource_version = ""
        except ApiError as error:
            self._report("watch again", error)
            barren = isinstance(error, Unreachable) and error.sent
        except Exception:
            # A bug of a projection or indexer: an endless loop with back-off is seen, a dead task may not be.
            _log.exception("the reflector failed", extra={"kind": self._resource.kind})
            self._store.resource_version = ""
        self._consider_relist(barren=barren and not self._received)
        lasted = 0.0 if began is None else self._clock.monotonic() - began
        return self._pause(served_well=lasted >= HEALTHY and (clean or self._received > 0))

    def _consider_relist(self, *, barren: bool) -> None:
        """Two watches in a row that brought nothing: the server may not know our version, as after a restore."""
        self._barren = self._barren + 1 if barren else 0
        if self._barren >= 2:
            self._barren = 0
            self._store.resource_version = ""

    def _pause(self, *, served_well: bool) -> float:
        """Seconds: none after a good watch, else full jitter over a window that doubles."""
        if served_well:
            self._failures = 0
            return 0.0
        least, most = BACKOFF
        self._failures += 1
        return self._rng.uniform(least, min(most, least * 2.0**self._failures))

    def _report(self, consequence: str, error: ApiError) -> None:
        _log.warning(
            "reflector interrupted",
            extra={"kind": self._resource.kind, "error": str(error), "consequence": consequence},
        )

    async def _list(self) -> bool:
        """One complete list into the store; False when the API is not served."""
        seen: set[Key] = set()
        token = ""
        while True:
            try:
                page = await self._client.list(
                    self._resource, self._namespace, limit=PAGE, continue_=token, **self._selectors
                )
            except NotFound:
                if await self._has_moved():
                    seen, token = set(), ""
                    continue
                await self._confirm_not_served()
                return False
            self._heard = self._clock.monotonic()
            await self._take(page, seen)
            meta = metadata(page)
            token = meta.get("continue") or ""
            if not token:
                break
        version = str(meta.get("resourceVersion") or "")
        await self._drop(self._store.absent(seen))
        self._store.resource_version = version
        self._store.synced.set()
        self.served = True
        self._denials = 0
        self._relists.inc()
        _log.info("listed", extra={"kind": self._resource.kind, "objects": len(seen)})
        return True

    async def _has_moved(self) -> bool:
        """Whether another version of the API has the kind now; from here on that one is read."""
        found = await self._locate() if self._locate is not None else None
        if found is None or found == self._resource:
            return False
        _log.info("the kind is served", extra={"kind": found.kind, "apiVersion": found.api_version})
        self._resource = self._store.resource = found
        self._store.forget_assumed()
        return True

    async def _take(self, page: Object, seen: set[Key]) -> None:
        for number, obj in enumerate(page.get("items") or (), 1):
            # Lists of built-in kinds leave these to the list itself, watches do not.
            obj.setdefault("apiVersion", self._resource.api_version)
            obj.setdefault("kind", self._resource.kind)
            seen.add(key_of(obj))
            self._store.apply(obj, initial=True)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _drop(self, keys: list[Key]) -> None:
        for number, key in enumerate(keys, 1):
            self._store.discard(key)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _confirm_not_served(self) -> None:
        """Empty and sync the store.  Raises NotFound while that is doubtful: one odd answer must not empty a cache."""
        names = await self._client.served(self._resource.api_version)
        self._denials += 1
        if self._resource.plural in names or (len(self._store) and self._denials < 2):
            raise NotFound(404, "NotFound", f"{self._resource.plural} not found", method="GET")
        if self.served:
            _log.warning("the API is not served", extra={"kind": self._resource.kind})
        self.served = False
        self._heard = self._clock.monotonic()
        await self._drop(list(self._store.keys()))
        self._store.synced.set()

    async def _watch(self) -> None:
        stream = self._client.watch(
            self._resource,
            self._namespace,
            resource_version=self._store.resource_version,
            timeout_seconds=self._rng.randint(*_WATCH_SECONDS),
            **self._selectors,
        )
        async with aclosing(stream) as events:
            async for event in events:
                self._handle(event)
                self._received += 1
                if self._received % _YIELD_EVERY == 0:
                    await asyncio.sleep(0)

    def _handle(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type == "DELETED":
            self._store.remove(obj)
            self._events.inc()
        elif event.type != "BOOKMARK":
            self._store.apply(obj)
            self._events.inc()
        self._store.resource_version = obj["metadata"]["resourceVersion"]
        self._heard = self._clock.monotonic()
