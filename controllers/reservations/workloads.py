"""The workloads that claims name, of any kind that the cluster serves.

A kind is found by discovery and listed once to check the permission; it is then watched as long as a claim names it.

Invariants: `ABSENT` is only concluded from a 404 for the object or from a DELETED event with its uid, never from an
object missing in a cache; a kind that is not served, or may not be read, changes nothing.  Only the fields of a
workload that decisions about its claims read are kept.  A kind that does not answer, because its conversion webhook
hangs, say, holds up nobody but those who read workloads, and no reconcile for long.  In metrics a kind of workload is
called `deployments.apps`, so that a claim which names a kind that the process also caches does not hide that one; a
kind that is no longer watched has no metrics, since its age would grow without end.

Hazard: when the permission to watch a kind is taken away later, deletions are noticed only after a restart; the metric
`tollbar_watch_age_seconds` of the kind grows meanwhile.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, ParamSpec, TypeVar

from tollbar.decide.claims.reservations import RECHECK, Knowledge, LookUp, Workload
from tollbar.model import conditions
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.resources import Resource
from tollbar.model.workloads import FINISHED, Reference, member, pod_spec
from tollbar.runtime import asking, discovery
from tollbar.runtime.asking import is_about
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import Forbidden, NotFound
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.reflector import Reflector
from tollbar.runtime.retry import READ
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store
from tollbar.views.deleted import DeletedUids

A = ParamSpec("A")
T = TypeVar("T")
_log: Final = logging.getLogger(__name__)

_LOOKING_SECONDS: Final = 10.0
"""How long a reconcile waits for what it asks, the first list of a kind included, before it is tried again later."""
_CALL_SECONDS: Final = 3.0
"""How long a call to read a workload may take: meanwhile no other one is read."""
_METADATA: Final = ("namespace", "name", "uid", "resourceVersion", "generation", "deletionTimestamp")
_LONGEST_NAME: Final = 253
"""Characters of a DNS subdomain."""
_MOST_CLAIMS: Final = 128
"""Claims of the Pods of a workload that are known: one that they name after so many others is never crowded."""

_UNLISTED: Final = Workload(Knowledge.UNLISTED)
_ABSENT: Final = Workload(Knowledge.ABSENT)


@dataclass(eq=False, slots=True)
class _Kind:
    """One kind that claims name.  `unreadable` tells why it is not watched, as found at the time `asked`."""

    group: str
    plural: str
    claims: dict[Key, set[Key]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    unreadable: Workload | None = None
    asked: float = float("-inf")
    store: Store | None = None
    reflector: Reflector | None = None
    task: "asyncio.Task[None] | None" = None

    @property
    def name(self) -> str:
        """As CustomResourceDefinitions are named."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Workloads:
    """`changes` sends the key of every claim whose workload may have changed."""

    def __init__(self, client: Client, *, clock: Clock, rng: Random, metrics: Metrics) -> None:
        self.changes: Channel[Key] = Channel("workloads")
        self._client = client
        self._reading = asyncio.Semaphore(1)
        """Within it a workload is in memory whole.  Not `Manager.reading`, for which others wait: this may hang."""
        self._clock = clock
        self._rng = rng
        self._metrics = metrics
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._named: dict[Key, Reference] = {}
        self._deleted = DeletedUids()
        self._tasks: asyncio.TaskGroup | None = None
        self._open = asyncio.Event()

    async def run(self) -> None:
        """Run the watches that `look_up` needs, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._open.set()
                await asyncio.Event().wait()
        finally:
            self._open.clear()
            for kind in self._kinds.values():
                self._stop(kind)

    async def look_up(self, question: LookUp) -> Workload:
        """The state of the workload that this claim names; from now on its changes are sent for the claim.

        Raises ApiError when a call fails otherwise than by 403 or 404.
        """
        kind = self._register(question.claim, question.reference)
        try:
            async with asyncio.timeout(_LOOKING_SECONDS):
                return await self._look_up(kind, question)
        except TimeoutError:
            return _UNLISTED

    async def _look_up(self, kind: _Kind, question: LookUp) -> Workload:
        async with kind.lock:
            if kind.store is None or kind.reflector is None or not kind.reflector.served:
                await self._open_watch(kind)
        store = kind.store
        if store is None:
            return kind.unreadable or _UNLISTED
        await store.synced.wait()
        key, recorded = Key(question.claim.namespace, question.reference.name), question.recorded
        cached = store.get(key)
        if cached is not None and recorded in ("", uid_of(cached)):
            return Workload(Knowledge.FOUND, cached)
        if cached is None and recorded in self._deleted:
            return _ABSENT
        return await self._ask(store.resource, key)

    def forget(self, claim: Key) -> None:
        """The claim no longer names a workload."""
        reference = self._named.pop(claim, None)
        if reference is None:
            return
        kind = self._kinds[reference.group, reference.resource]
        workload = Key(claim.namespace, reference.name)
        kind.claims[workload].discard(claim)
        if not kind.claims[workload]:
            del kind.claims[workload]
        if not kind.claims:
            self._stop(kind)
            del self._kinds[reference.group, reference.resource]

    def _register(self, claim: Key, reference: Reference) -> _Kind:
        if self._named.get(claim) != reference:
            self.forget(claim)
            self._named[claim] = reference
        name = (reference.group, reference.resource)
        kind = self._kinds.setdefault(name, _Kind(*name))
        kind.claims.setdefault(Key(claim.namespace, reference.name), set()).add(claim)
        return kind

    def _stop(self, kind: _Kind) -> None:
        """Watch the kind no more, and keep nothing of it: metrics refer to the store that they count."""
        if kind.task is not None:
            kind.task.cancel()
        kind.store = kind.reflector = kind.task = None
        self._metrics.forget("kind", kind.name)

    async def _open_watch(self, kind: _Kind) -> None:
        """Find the kind and watch it; after a failure, at most once in `RECHECK` seconds."""
        now = self._clock.monotonic()
        if now < kind.asked + RECHECK and kind.unreadable is not None:
            return
        self._stop(kind)
        kind.asked, kind.unreadable = now, None
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                found: Resource | None = await READ(discovery.find, self._client, kind.group, kind.plural)
            if found is None or not found.namespaced:
                kind.unreadable = Workload(Knowledge.UNKNOWN_KIND)
                return
            await self._read(lambda _: None, self._client.list, found, limit=1)
        except TimeoutError:
            kind.unreadable = _UNLISTED
            return
        except NotFound:
            kind.unreadable = Workload(Knowledge.UNKNOWN_KIND)
            return
        except Forbidden as error:
            kind.unreadable = Workload(Knowledge.FORBIDDEN, detail=error.message)
            return
        await self._open.wait()
        if self._tasks is None or self._kinds.get((kind.group, kind.plural)) is not kind:
            return
        kind.store = Store(found, project=projection)
        kind.store.subscribe(lambda delta: self._on_delta(kind, delta))
        kind.reflector = Reflector(
            self._client,
            kind.store,
            name=kind.name,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
        )
        kind.task = self._tasks.create_task(kind.reflector.run(), name=f"reflector {kind.name}")
        _log.info("watching a kind of workload", extra={"group": kind.group, "resource": kind.plural})

    async def _read(
        self, take: Callable[[Any], T], call: Callable[A, Awaitable[Any]], *args: A.args, **kw: A.kwargs
    ) -> T:
        """As `asking.read`.  Raises TimeoutError as well, of a call that takes longer than `_CALL_SECONDS`."""

        async def soon() -> Any:
            async with asyncio.timeout(_CALL_SECONDS):
                return await call(*args, **kw)

        return await asking.read(self._reading, take, soon)

    def _on_delta(self, kind: _Kind, delta: Delta) -> None:
        obj = delta.new or delta.old or {}
        if delta.new is None and not delta.initial:  # a list that lacks it may lack the whole kind
            self._deleted.add(uid_of(obj))
        for claim in kind.claims.get(key_of(obj), ()):
            self.changes.send(claim)

    async def _ask(self, resource: Resource, key: Key) -> Workload:
        try:
            found = await self._read(projection, self._client.get, resource, key.name, key.namespace)
        except NotFound as error:
            return _ABSENT if is_about(error, key) else Workload(Knowledge.UNKNOWN_KIND)
        except Forbidden as error:
            return Workload(Knowledge.FORBIDDEN, detail=error.message)
        return Workload(Knowledge.FOUND, found)


def projection(workload: Object) -> Object:
    """The fields that `tollbar.model.workloads` reads, and the object's identity.

    Whatever the object has there: a kind may have anything in these fields.  Never raises, and what it returns is
    bounded: whoever may create an object of the kind would stop the watch of all of them, or fill the memory.
    """
    meta, body, status = metadata(workload), member(workload, "spec"), member(workload, "status")
    wanted = _short(body, "replicas", "parallelism", "completions")
    if surge := _short(member(member(body, "strategy"), "rollingUpdate"), "maxSurge"):
        wanted["strategy"] = {"rollingUpdate": surge}
    pods: Object = {}
    references = (_short(each, "name", "resourceClaimName") for each in _objects(pod_spec(workload), "resourceClaims"))
    if claims := [each for each in references if "resourceClaimName" in each][:_MOST_CLAIMS]:
        pods["resourceClaims"] = claims
    if group := _short(member(pod_spec(workload), "schedulingGroup"), "podGroupName"):
        pods["schedulingGroup"] = group
    said = _objects(status, "conditions")
    ends = (conditions.find(said, type_) for type_ in FINISHED)
    return {
        "metadata": {name: meta[name] for name in _METADATA if name in meta},
        "spec": {**wanted, **({"template": {"spec": pods}} if pods else {})},
        "status": {
            **_short(status, "observedGeneration", "desiredNumberScheduled"),
            "conditions": [_short(each, "type", "status") for each in ends if each is not None],
        },
    }


def _objects(part: Object, name: str) -> list[Object]:
    """The objects in the list in this field; none of what is no list."""
    given = part.get(name)
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _short(part: Object, *names: str) -> Object:
    """These members, as far as they are numbers or texts that may be a name."""
    found = {name: part[name] for name in names if name in part}
    return {
        name: each
        for name, each in found.items()
        if isinstance(each, int | float) or (isinstance(each, str) and len(each) <= _LONGEST_NAME)
    }
