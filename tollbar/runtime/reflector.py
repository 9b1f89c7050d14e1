"""Keeps stores of one kind equal to the API server, as client-go's Reflector: one paged list, then watches.

Lists go into the stores page by page, so that memory holds one page and the projections.  A page whose text has more
than `PAGE_TEXT` bytes is given up and asked for with fewer objects.  Objects that a complete list no longer contains
are deleted from the stores.

Invariants: `run` ends only by cancellation; an object leaves a store by a DELETED event, by a complete list without it
or when discovery no longer lists the API, never by an error; the reflector yields every 100 objects of a list and every
10 events of a watch.

Hazards: while the API server is down the stores are stale and `age` grows.  The pages of a list that have expired have
no bound any more, and after the second time it is in memory as a whole.  Of two reflectors with one name, the gauges
show the later one.
"""

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from math import inf
from random import Random
from typing import Final, Protocol

from tollbar import wellknown
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.model.resources import Resource
from tollbar.runtime import collector
from tollbar.runtime.client import ALL, PAGE, PAGE_TEXT, WatchEvent
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Forbidden, Gone, NotFound, TooLong, Unreachable
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.pager import Paging
from tollbar.runtime.store import Store

_log: Final = logging.getLogger(__name__)

BACKOFF: Final = (0.5, 30.0)
"""Seconds: the shortest and the longest pause after a failure."""
RECHECK: Final = 300.0
RECHECK_OURS: Final = 10.0
RECHECK_MANY: Final = 30.0
"""Seconds until an API that is not served is looked for again: by default, for Tollbar's own CRDs, which may be
installed after this process, and for kinds with several versions, which may come with an upgrade of the server."""
HEALTHY: Final = 10.0
"""Seconds that a watch must last for the next one to start without a pause."""
BRING_BACK: Final = (300.0, 3600.0)
"""Seconds after a list until another one may bring back what a store had to leave out: at first, and at most.

Each such list doubles them, so that nobody who makes and deletes objects has all of a kind listed again and again;
twice as long without one makes them what they are at first."""
_WATCH_SECONDS: Final = (300, 600)
_YIELD_EVERY: Final = 100
_EVENTS: Final = 10
"""After so many events of a watch the reflector yields: to call all handlers takes longer than to store an object."""
_COLLECT_EVERY: Final = 20
"""After so many events the garbage collector looks at young objects."""


class ListerWatcher(Protocol):
    """The part of the client that a reflector uses."""

    async def list(
        self,
        res: Resource,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE,
        continue_: str = "",
        most: float = inf,
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
    """One kind in one scope, and the stores that it fills.

    `locate` finds the served version of a kind that has several; the stores' `resource` is then set to it.
    `name` is the label `kind` of its metrics, by default the kind.
    """

    def __init__(
        self,
        client: ListerWatcher,
        *stores: Store,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        locate: Callable[[], Awaitable[Resource | None]] | None = None,
        page: int = PAGE,
        name: str = "",
        clock: Clock,
        rng: Random,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._locate = locate
        self._stores = stores
        self._resource = stores[0].resource
        self._version = ""
        """The latest resourceVersion of list and watch; empty when a list is due."""
        self._namespace = namespace
        self._page = page
        self._selectors = {"label_selector": label_selector, "field_selector": field_selector}
        self._clock = clock
        self._rng = rng
        label = name or self._resource.kind
        self._relists = metrics.counter("tollbar_relists_total").labels(label)
        self._events = metrics.counter("tollbar_watch_events_total").labels(label)
        metrics.gauge("tollbar_cache_objects").labels(label).set_function(lambda: sum(map(len, stores)))
        metrics.gauge("tollbar_cache_stubs").labels(label).set_function(lambda: sum(store.stubs for store in stores))
        metrics.gauge("tollbar_watch_age_seconds").labels(label).set_function(self.age)
        self._heard = clock.monotonic()
        """When the last answer or event came."""
        self._received = 0
        """Events of this watch."""
        self._failures = 0
        self._empty_watches = 0
        self._listed = -math.inf
        self._patience, _ = BRING_BACK
        """Seconds since the latest list until one may bring back what was left out."""
        self._not_found = 0
        """How many lists were refused as if the API was not served, since one last succeeded."""

    @property
    def served(self) -> bool:
        """Whether the API server serves this API; otherwise the stores are empty and synced."""
        return all(store.served for store in self._stores)

    @property
    def resource(self) -> Resource:
        return self._resource

    @property
    def failing(self) -> bool:
        """Whether the latest list or watch failed, or ended at once."""
        return self._failures > 0

    def age(self) -> float:
        """Seconds since the last answer or event about this kind; 0 for an API that is not served."""
        return self._clock.monotonic() - self._heard if self.served else 0.0

    async def run(self) -> None:
        """List and watch until cancelled."""
        with suppress(ApiError):  # the list will fail and report it
            self._moves_to(await self._located())
        while True:
            pause = await self._round()
            if pause > 0:
                await self._clock.sleep(pause)

    async def _round(self) -> float:
        """A list if one is due, then a watch until it ends; the seconds to wait before the next round."""
        self._received = 0
        began = None
        clean = empty = False
        try:
            if not self._version and not await self._list():
                ours = self._resource.group == wellknown.GROUP
                return RECHECK_OURS if ours else RECHECK_MANY if self._locate is not None else RECHECK
            began = self._clock.monotonic()
            await self._watch()
            clean = True
            empty = self._clock.monotonic() - began < HEALTHY
        except (Gone, NotFound) as error:
            self._report("list again", error)
            self._advance("")
        except ApiError as error:
            self._report("watch again", error)
            empty = isinstance(error, Unreachable) and error.sent
        except Exception:
            # A bug in a projection or indexer: retries with back-off are visible in the log, a dead task may not be.
            _log.exception("the reflector failed", extra={"kind": self._resource.kind})
            self._advance("")
        self._consider_relist(empty=empty and not self._received)
        lasted = 0.0 if began is None else self._clock.monotonic() - began
        return self._pause(served_well=lasted >= HEALTHY and (clean or self._received > 0))

    def _consider_relist(self, *, empty: bool) -> None:
        """List again after two watches in a row without events: after a restore the server may not know our version.

        Also where a store has room by now for what it had to leave out, which no watch shows again.
        """
        self._empty_watches = self._empty_watches + 1 if empty else 0
        if self._empty_watches >= 2 or self._brings_back():
            self._empty_watches = 0
            self._advance("")

    def _brings_back(self) -> bool:
        """Whether to list again now, because a store has room by now for what it had to leave out (`BRING_BACK`)."""
        passed = self._clock.monotonic() - self._listed
        least, most = BRING_BACK
        if passed >= 2 * self._patience:
            self._patience = least
        if not self._version:  # a list is due anyway, and may fail many times
            return False
        if passed < self._patience or not any(store.would_keep_more for store in self._stores):
            return False
        self._patience = min(most, 2 * self._patience)
        return True

    def _pause(self, *, served_well: bool) -> float:
        """Seconds to wait: 0 after a healthy watch, else random within a window that doubles with each failure."""
        if served_well:
            self._failures = 0
            return 0.0
        least, most = BACKOFF
        self._failures += 1
        return self._rng.uniform(least, min(most, least * 2.0**self._failures))

    def _report(self, consequence: str, error: ApiError) -> None:
        _log.log(
            error.level(logging.WARNING),
            "reflector interrupted",
            extra={"kind": self._resource.kind, "error": str(error), "consequence": consequence},
        )

    async def _list(self) -> bool:
        """One complete list into the store; False when the API is not served.

        When its pages take longer than the API server keeps the state that they show, it starts over with larger ones
        and at last with all in one, as client-go's pager does: else it would never come to an end.
        """
        seen: set[Key] = set()
        listed, version, paging = 0, "", Paging(self._page, self._page)
        most: float = PAGE_TEXT
        while not paging.ended:
            try:
                page = await self._client.list(
                    self._resource,
                    self._namespace,
                    limit=paging.limit,
                    continue_=paging.token,
                    most=most,
                    **self._selectors,
                )
            except TooLong:
                paging.too_long()
                continue
            except Gone as error:
                if not paging.token:
                    raise
                self._report("list again with larger pages", error)
                paging.limit, most = PAGE if paging.limit < PAGE else ALL, inf
                seen, listed, paging.token = set(), 0, ""
                continue
            except (NotFound, Forbidden) as error:
                found = await self._located()
                has_moved = self._moves_to(found)
                # Who may not list a kind is told so whether or not it is served.
                if isinstance(error, Forbidden) and (self._locate is None or found is not None):
                    raise
                if has_moved:
                    seen, listed, paging.token = set(), 0, ""
                    continue
                await self._confirm_not_served()
                return False
            self._heard = self._clock.monotonic()
            listed += await self._take(page, seen)
            version = str(metadata(page).get("resourceVersion") or "")
            paging.came(page)
            del page  # not in memory beside the next one
        for store in self._stores:
            store.resource_version = version  # before others run: what they have created earlier may be gone
            await self._drop(store, store.absent(seen, version))
        self._advance(version)
        self._sync(served=True)
        self._not_found = 0
        self._listed = self._clock.monotonic()
        self._relists.inc()
        _log.info("listed", extra={"kind": self._resource.kind, "objects": listed})
        return True

    async def _located(self) -> Resource | None:
        """The kind in the version that is served; None when none is, and for a kind that has only one."""
        return await self._locate() if self._locate is not None else None

    def _moves_to(self, found: Resource | None) -> bool:
        """Whether the kind is now served in another version of the API, which is read from now on."""
        if found is None or found == self._resource:
            return False
        _log.info("switching the API version of a kind", extra={"kind": found.kind, "apiVersion": found.api_version})
        self._resource = found
        for store in self._stores:
            store.resource = found
            store.forget_assumed()
        return True

    async def _take(self, page: Object, seen: set[Key]) -> int:
        """Apply the objects of a page; how many there are.  Adds the keys of those that a store holds to `seen`."""
        number = 0
        for number, obj in enumerate(page.get("items") or (), 1):
            # Items in lists of built-in kinds lack these two fields, objects in watch events have them.
            obj.setdefault("apiVersion", self._resource.api_version)
            obj.setdefault("kind", self._resource.kind)
            for store in self._stores:
                store.apply(obj, initial=True)
            key = key_of(obj)
            if any(key in store for store in self._stores):
                seen.add(key)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        return number

    async def _drop(self, store: Store, keys: list[Key]) -> None:
        for number, key in enumerate(keys, 1):
            store.discard(key)
            if number % _YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def _confirm_not_served(self) -> None:
        """Empty and sync the stores; while they hold objects, only at the second 404.  Raises NotFound until then."""
        names = await self._client.served(self._resource.api_version)
        self._not_found += 1
        if self._resource.plural in names or (any(map(len, self._stores)) and self._not_found < 2):
            raise NotFound(404, "NotFound", f"{self._resource.plural} not found", method="GET")
        if self.served:
            _log.warning("the API is not served", extra={"kind": self._resource.kind})
        self._heard = self._clock.monotonic()
        self._sync(served=False)  # before what follows from each deletion is decided
        for store in self._stores:
            await self._drop(store, list(store.keys()))

    def _advance(self, version: str) -> None:
        self._version = version
        for store in self._stores:
            store.resource_version = version

    def _sync(self, *, served: bool) -> None:
        for store in self._stores:
            store.served = served
            store.synced.set()

    async def _watch(self) -> None:
        stream = self._client.watch(
            self._resource,
            self._namespace,
            resource_version=self._version,
            timeout_seconds=self._rng.randint(*_WATCH_SECONDS),
            **self._selectors,
        )
        async with aclosing(stream) as events:
            async for event in events:
                self._handle(event)
                self._received += 1
                if self._received % _COLLECT_EVERY == 0:
                    collector.look()
                if self._received % _EVENTS == 0:
                    await asyncio.sleep(0)

    def _handle(self, event: WatchEvent) -> None:
        obj = event.object
        if event.type == "DELETED":
            for store in self._stores:
                store.remove(obj)
            self._events.inc()
        elif event.type != "BOOKMARK":
            for store in self._stores:
                store.apply(obj)
            self._events.inc()
        self._advance(obj["metadata"]["resourceVersion"])
        self._heard = self._clock.monotonic()
