"""Records Events (events.k8s.io/v1) on objects, which `kubectl describe` shows.

`emit` never waits and never fails; `run` sends the Events.

Invariants: the first of equal events creates an Event; repeats within two minutes patch its series (the API lets
nothing else change), at most every ten seconds; equal events that wait are sent as one; the rate of calls is bounded,
and so is how many are under way at one time, never two about equal events; and events that find no place in the queue
are dropped and counted (`tollbar_events_total`).

Each namespace has a share of the queue, and so has each object without one.  Shares take turns in sending, and when the
queue is full, the one with the most events gives up its newest.  So a namespace whose Pods all fail costs no other one
an event, and delays each of theirs by one call.

client-go bounds single objects instead.  Its EventCorrelator (tools/record) lets a component send 25 events of one type
about one object and then one every five minutes, and combines those that differ in the message alone, from the tenth in
ten minutes on; the recorder of events.k8s.io (tools/events) has no bound and one series for those.  Nothing there
is bounded by namespace: whatever comes while 1,000 events wait is dropped.  Here an object has no bound of its own,
since what is said of it takes places of its namespace.

Hazards.  When the API server is down or slow, the queue fills and events are dropped; reconciles go on.  Events that
waited together may be written in another order: `eventTime` has the true one.  Doubled: two recorders make two series.
The last repeats of a series may not be recorded.  The API server deletes Events after an hour.
"""

import asyncio
import itertools
import logging
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol, TypeAlias

from tollbar import wellknown
from tollbar.model import timestamps
from tollbar.model.objects import Object, metadata
from tollbar.model.plan import Event
from tollbar.model.resources import EVENTS, Resource
from tollbar.runtime.client import PatchType
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, NotFound
from tollbar.runtime.limits import TokenBucket
from tollbar.runtime.metrics import Metrics

_log: Final = logging.getLogger(__name__)

NOTE_LIMIT: Final = 1024
SERIES_SECONDS: Final = 120.0
REPEAT_SECONDS: Final = 10.0
"""Seconds between two writes of one Event, since a failing rule fails for every Pod; the next write adds the count."""
_PLACES: Final = 1000
_RATE: Final = 50.0
_BURST: Final = 200
_PAUSE: Final = 1.0
"""Seconds to wait once the burst is used up: calls that follow one another cost less than as many single ones."""
_AT_ONCE: Final = 8
"""Calls under way at one time: a process that waits for each answer alone goes to sleep, and is woken, for each."""
_QUIET: Final = 60.0
"""Seconds without a failure after which the log has a line about the next one."""
_NAME_LIMIT: Final = 253
_MORE: Final = "..."

_Key: TypeAlias = tuple[Hashable, ...]
"""Equal for equal events: the references to their objects, and what is said of them."""


class EventClient(Protocol):
    """The part of `tollbar.runtime.client.Client` that the recorder uses."""

    async def create(self, res: Resource, obj: Object, namespace: str = "") -> Object: ...
    async def patch(
        self, res: Resource, name: str, body: Object, *, namespace: str = "", patch_type: PatchType
    ) -> Object: ...


@dataclass(slots=True)
class _Waiting:
    """Equal events that have not been sent yet."""

    regarding: Object
    related: Object | None
    event: Event
    seen: float
    count: int = 1


class _Queue:
    """At most `_PLACES` events that wait, shared as the module says; equal ones once."""

    def __init__(self) -> None:
        self._shares: OrderedDict[Hashable, OrderedDict[_Key, _Waiting]] = OrderedDict()
        """None of them is empty; the first one is the next to send."""
        self._length = 0

    def __bool__(self) -> bool:
        return self._length > 0

    def find(self, key: _Key, subject: Object) -> _Waiting | None:
        return self._shares.get(_share(subject), OrderedDict()).get(key)

    def add(self, key: _Key, waiting: _Waiting) -> _Waiting | None:
        """What is dropped for it, itself perhaps: where shares have equally many, its own gives way."""
        own = self._shares.setdefault(_share(waiting.regarding), OrderedDict())
        own[key] = waiting
        if self._length < _PLACES:
            self._length += 1
            return None
        _, dropped = max(own, *self._shares.values(), key=len).popitem()
        if not own:
            del self._shares[_share(waiting.regarding)]
        return dropped

    def pop(self) -> tuple[_Key, _Waiting]:
        """The oldest of the share whose turn it is; KeyError when nothing waits."""
        share, waiting = self._shares.popitem(last=False)
        found = waiting.popitem(last=False)
        if waiting:
            self._shares[share] = waiting
        self._length -= 1
        return found


@dataclass(slots=True)
class _Sent:
    """An Event at the API server, and how often it has been seen in all."""

    namespace: str
    name: str
    count: int
    seen: float
    written: float


class Recorder:
    """Records as `tollbar.dev/<controller>`; `instance` names this process, usually its Pod."""

    def __init__(self, client: EventClient, *, controller: str, instance: str, clock: Clock, metrics: Metrics) -> None:
        self._client = client
        self._controller = f"{wellknown.GROUP}/{controller}"
        self._instance = instance[:128]
        self._clock = clock
        self._bucket = TokenBucket(_RATE, _BURST, clock)
        self._waiting = _Queue()
        self._series: OrderedDict[_Key, _Sent] = OrderedDict()
        self._arrived = asyncio.Event()
        self._failed_at = -inf
        """When an event was last not recorded, for another reason than an outage of the API server; on the clock."""
        self._serial = itertools.count(int(clock.now() * 1e9))
        counter = metrics.counter("tollbar_events_total")
        self._sent, self._repeated, self._dropped, self._failed = map(
            counter.labels, ("sent", "series", "dropped", "failed")
        )

    def emit(self, regarding: Object, event: Event, related: Object | None = None) -> None:
        """Queue an event on an object, or drop it.  `regarding` must have apiVersion, kind and metadata."""
        subject, other = _reference(regarding), _reference(related) if related else None
        key = (*subject.values(), *(other or {}).values(), event)
        now = self._clock.now()
        waiting, sent = self._waiting.find(key, subject), self._series.get(key)
        if waiting is not None:
            waiting.count += 1
            waiting.seen = now
        elif sent is not None and 0 <= now - sent.written < REPEAT_SECONDS:
            sent.count += 1
            sent.seen = now
            self._series.move_to_end(key)
        else:
            dropped = self._waiting.add(key, _Waiting(subject, other, event, now))
            if dropped is not None:
                self._dropped.inc(dropped.count)
            self._arrived.set()

    async def run(self) -> None:
        """Send the queued events until cancelled.  Events that still wait are lost."""
        while True:
            await self._arrived.wait()
            await self._bucket.take(pause=_PAUSE)
            due = [self._waiting.pop()]
            while self._waiting and len(due) < _AT_ONCE and self._bucket.take_free():
                due.append(self._waiting.pop())
            if not self._waiting:
                self._arrived.clear()
            self._forget_old_series()
            await asyncio.gather(*[self._try_to_send(key, waiting) for key, waiting in due])

    async def _try_to_send(self, key: _Key, waiting: _Waiting) -> None:
        try:
            await self._send(key, waiting)
        except Exception as error:  # an event is never worth an incident
            self._failed.inc()
            _log.log(self._level(error), "cannot record an event", extra={"error": repr(error)})

    def _level(self, error: Exception) -> int:
        """A warning for the first of the events that fail, however many are sent meanwhile.

        Of an outage of the API server the client has told.
        """
        if isinstance(error, ApiError) and error.in_outage:
            return logging.DEBUG
        before, self._failed_at = self._failed_at, self._clock.monotonic()
        return logging.DEBUG if self._failed_at - before < _QUIET else logging.WARNING

    async def _send(self, key: _Key, waiting: _Waiting) -> None:
        sent = self._series.get(key)
        if sent is not None:
            try:
                await self._repeat(key, sent, waiting.count, waiting.seen)
                return
            except NotFound:  # expired or deleted: this is the first of its kind again
                self._series.pop(key, None)
        sent = await self._create(waiting)
        self._series[key] = sent
        if waiting.count > 1:
            await self._repeat(key, sent, waiting.count - 1, waiting.seen)

    async def _create(self, waiting: _Waiting) -> _Sent:
        namespace = waiting.regarding["namespace"] or "default"
        suffix = f".{next(self._serial):x}"
        name = waiting.regarding["name"][: _NAME_LIMIT - len(suffix)].rstrip(".-") + suffix
        event = {
            **EVENTS.type_meta,
            "metadata": {"namespace": namespace, "name": name},
            "eventTime": timestamps.micro_time(waiting.seen),
            "type": waiting.event.type,
            "reason": waiting.event.reason,
            "action": waiting.event.action,
            "note": _shortened(waiting.event.note),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "regarding": waiting.regarding,
        }
        if waiting.related is not None:
            event["related"] = waiting.related
        await self._client.create(EVENTS, event)
        self._sent.inc()
        return _Sent(namespace, name, 1, waiting.seen, self._clock.now())

    async def _repeat(self, key: _Key, sent: _Sent, count: int, seen: float) -> None:
        series = {"count": sent.count + count, "lastObservedTime": timestamps.micro_time(seen)}
        body = {"series": series}
        await self._client.patch(EVENTS, sent.name, body, namespace=sent.namespace, patch_type=PatchType.MERGE)
        self._repeated.inc()
        sent.count += count
        sent.seen = seen
        sent.written = self._clock.now()
        self._series.move_to_end(key)

    def _forget_old_series(self) -> None:
        horizon = self._clock.now() - SERIES_SECONDS
        while self._series and next(iter(self._series.values())).seen <= horizon:
            self._series.popitem(last=False)


def _reference(obj: Object) -> Object:
    """core/v1 ObjectReference."""
    meta = metadata(obj)
    return {
        "apiVersion": obj.get("apiVersion") or "",
        "kind": obj.get("kind") or "",
        "namespace": meta.get("namespace") or "",
        "name": meta.get("name") or "",
        "uid": meta.get("uid") or "",
    }


def _share(subject: Object) -> Hashable:
    """Whose places an event on this object takes: the namespace, or the object if it has none."""
    return subject["namespace"] or (subject["kind"], subject["name"])


def _shortened(note: str) -> str:
    """At most 1,024 bytes, which is what the API server counts."""
    encoded = note.encode(errors="replace")
    if len(encoded) <= NOTE_LIMIT:
        return encoded.decode()
    return encoded[: NOTE_LIMIT - len(_MORE)].decode(errors="ignore") + _MORE
