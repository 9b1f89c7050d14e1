"""The workloads that claims name, of any kind that the cluster serves.

A kind is found by discovery and listed once to check the permission; it is then watched as long as a claim names it.

Invariants: `ABSENT` is only concluded from a 404 for the object or from a DELETED event with its uid, never from an
object missing in a cache; a kind that is not served, or may not be read, changes nothing.  Only the fields of a
workload that decisions about its claims read are kept.  No reconcile waits for the API server: each kind has a task
that asks, and every claim that was told `AWAITED` is sent once there is an answer for it.  So a kind that does not
answer, because its conversion webhook hangs, say, holds up nobody but those who read workloads, each time for one call.
In metrics a kind of workload is called `deployments.apps`, so that a claim which names a kind that the process also
caches does not hide that one; a kind that is no longer watched has no metrics, since its age would grow without end.

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
from tollbar.model.objects import Key, Object, key_of, metadata, picked, uid_of
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

_LIST_SECONDS: Final = 10.0
"""How long the first complete list of a kind may take before its claims are told that there is no answer."""
_CALL_SECONDS: Final = 3.0
"""How long a call to read a workload may take: meanwhile no other one is read."""
_METADATA: Final = ("namespace", "name", "uid", "resourceVersion", "generation", "deletionTimestamp")
_LONGEST_NAME: Final = 253
"""Characters of a DNS subdomain."""
_MOST_CLAIMS: Final = 128
"""Claims of the Pods of a workload that are known: one that they name after so many others is never crowded."""

_AWAITED: Final = Workload(Knowledge.AWAITED)
_UNANSWERED: Final = Workload(Knowledge.UNANSWERED)
_ABSENT: Final = Workload(Knowledge.ABSENT)


@dataclass(eq=False, slots=True)
class _Kind:
    """One kind that claims name.

    `asked` are the questions that wait for the API server, `answers` what was found, or the error, until the claim is
    looked up again.  `unreadable` tells why the API server is not asked before that time of the monotonic clock.
    """

    group: str
    plural: str
    claims: dict[Key, set[Key]] = field(default_factory=dict)
    asked: dict[Key, LookUp] = field(default_factory=dict)
    answers: dict[Key, tuple[LookUp, Workload | Exception]] = field(default_factory=dict)
    unreadable: tuple[Workload, float] = (_UNANSWERED, float("-inf"))
    store: Store | None = None
    reflector: Reflector | None = None
    watching: "asyncio.Task[None] | None" = None
    answering: "asyncio.Task[None] | None" = None

    @property
    def name(self) -> str:
        """As CustomResourceDefinitions are named."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def watched(self) -> Store | None:
        """The store, while the kind is served."""
        return self.store if self.reflector is not None and self.reflector.served else None


class Workloads:
    """`changes` sends the key of every claim whose workload may have changed, or about which there is an answer."""

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

    async def run(self) -> None:
        """Watch the kinds that claims name, and ask about them, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            try:
                for kind in self._kinds.values():
                    self._begin(kind)
                await asyncio.Event().wait()
            finally:
                self._tasks = None
                for kind in self._kinds.values():
                    self._stop(kind)
                # A claim that is deleted before this runs again would stay; those that are there are looked up anew.
                self._kinds.clear()
                self._named.clear()

    async def look_up(self, question: LookUp) -> Workload:
        """What is known of the workload that this claim names; from now on its changes are sent for the claim.

        So is the answer of the API server where that has to be asked: until then nothing is known but `AWAITED`.
        Raises ApiError when the API server was asked and failed otherwise than by 403 or 404.
        """
        kind = self._register(question.claim, question.reference)
        asked, answer = kind.answers.pop(question.claim, (None, _AWAITED))
        found = self._cached(kind, question) or (answer if asked == question else self._unreadable(kind))
        if found is None:
            kind.asked[question.claim] = question
            self._begin(kind)
            return _AWAITED
        kind.asked.pop(question.claim, None)
        if isinstance(found, Exception):
            raise found
        return found

    def _cached(self, kind: _Kind, question: LookUp) -> Workload | None:
        """What the watch has shown of the workload; None when it says nothing certain."""
        store, recorded = kind.watched, question.recorded
        if store is None or not store.synced.is_set():
            return None
        cached = store.get(_key_of(question))
        if cached is not None and recorded in ("", uid_of(cached)):
            return Workload(Knowledge.FOUND, cached)
        return _ABSENT if cached is None and recorded in self._deleted else None

    def _unreadable(self, kind: _Kind) -> Workload | None:
        """Why there is no use in asking about the kind now."""
        why, until = kind.unreadable
        return why if self._clock.monotonic() < until else None

    def _begin(self, kind: _Kind) -> None:
        """Answer what is asked about the kind, unless that is being done or nothing runs."""
        if self._tasks is not None and kind.answering is None and kind.asked:
            kind.answering = self._tasks.create_task(self._answer(kind, self._tasks), name=f"workloads {kind.name}")

    async def _answer(self, kind: _Kind, tasks: asyncio.TaskGroup) -> None:
        """Answer every question, one after the other: those that wait meanwhile hold no worker."""
        while kind.asked:
            claim, question = next(iter(kind.asked.items()))
            try:
                answer: Workload | Exception | None = await self._find(kind, question, tasks)
            except Exception as error:
                answer = error  # for the reconcile of the claim, which reports it
            if kind.asked.get(claim) == question:
                del kind.asked[claim]
                if answer is None:
                    kind.asked[claim] = question  # after the others
                else:
                    kind.answers[claim] = question, answer
                    self.changes.send(claim)
            await asyncio.sleep(0)  # there may be many that are answered without a call
        kind.answering = None

    async def _find(self, kind: _Kind, question: LookUp, tasks: asyncio.TaskGroup) -> Workload | None:
        """The answer to a question; None if the workload has changed while the API server answered.

        After a failure the kind is left alone for `RECHECK` seconds.

        Raises ApiError when a call fails otherwise than by 403 or 404.
        """
        found = self._cached(kind, question) or self._unreadable(kind)
        if found is not None:
            return found
        try:
            store = kind.watched
            opened = await self._open_watch(kind, tasks) if store is None else store
            if isinstance(opened, Store):
                async with asyncio.timeout(_LIST_SECONDS):
                    await opened.synced.wait()
                return self._cached(kind, question) or await self._ask(opened, _key_of(question))
        except TimeoutError:
            opened = _UNANSWERED
        kind.unreadable = opened, self._clock.monotonic() + RECHECK
        return opened

    def forget(self, claim: Key) -> None:
        """The claim no longer names a workload."""
        reference = self._named.pop(claim, None)
        if reference is None:
            return
        kind = self._kinds[reference.group, reference.resource]
        workload = Key(claim.namespace, reference.name)
        kind.claims[workload].discard(claim)
        kind.asked.pop(claim, None)
        kind.answers.pop(claim, None)
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
        """Neither watch the kind nor ask about it any more."""
        if kind.answering is not None:
            kind.answering.cancel()
        kind.answering = None
        kind.asked.clear()
        kind.answers.clear()
        self._close_watch(kind)

    def _close_watch(self, kind: _Kind) -> None:
        """Keep nothing of the kind: metrics refer to the store that they count."""
        if kind.watching is not None:
            kind.watching.cancel()
        kind.store = kind.reflector = kind.watching = None
        self._metrics.forget("kind", kind.name)

    async def _open_watch(self, kind: _Kind, tasks: asyncio.TaskGroup) -> Store | Workload:
        """Find the kind and watch it: the store that is being filled, or why it cannot be read.

        Raises TimeoutError when a call takes too long, ApiError when one fails otherwise than by 403 or 404.
        """
        self._close_watch(kind)
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                found: Resource | None = await READ(discovery.find, self._client, kind.group, kind.plural)
            if found is None or not found.namespaced:
                return Workload(Knowledge.UNKNOWN_KIND)
            await self._read(lambda _: None, self._client.list, found, limit=1)
        except NotFound:
            return Workload(Knowledge.UNKNOWN_KIND)
        except Forbidden as error:
            return Workload(Knowledge.FORBIDDEN, detail=error.message)
        kind.store = store = Store(found, project=projection)
        store.subscribe(lambda delta: self._on_delta(kind, delta))
        kind.reflector = Reflector(
            self._client,
            store,
            name=kind.name,
            clock=self._clock,
            rng=self._rng,
            metrics=self._metrics,
        )
        kind.watching = tasks.create_task(kind.reflector.run(), name=f"reflector {kind.name}")
        _log.info("watching a kind of workload", extra={"group": kind.group, "resource": kind.plural})
        return store

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
            kind.answers.pop(claim, None)  # it is older, perhaps
            self.changes.send(claim)

    async def _ask(self, store: Store, key: Key) -> Workload | None:
        """What the API server says; None if the watch has shown something else meanwhile, which may be newer."""
        before = store.get(key)
        try:
            found = await self._read(projection, self._client.get, store.resource, key.name, key.namespace)
            answer = Workload(Knowledge.FOUND, found)
        except NotFound as error:
            answer = _ABSENT if is_about(error, key) else Workload(Knowledge.UNKNOWN_KIND)
        except Forbidden as error:
            answer = Workload(Knowledge.FORBIDDEN, detail=error.message)
        return answer if store.get(key) == before else None


def _key_of(question: LookUp) -> Key:
    return Key(question.claim.namespace, question.reference.name)


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
        "metadata": picked(meta, _METADATA),
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
    found = picked(part, names)
    return {
        name: each
        for name, each in found.items()
        if isinstance(each, int | float) or (isinstance(each, str) and len(each) <= _LONGEST_NAME)
    }
