"""The gate class `quota`: Pods of namespaces with the label tollbar.dev/quota wait until they fit into the PodQuotas.

Every such Pod gets the gate when it is created; the leader's ledger releases those that fit (`tollbar.decide.quotas`).

Invariant: no release makes a quota exceed a limit, even if a process ends, two run, or the cache is behind.  A release
counts before it is sent, and a new leader first waits until its cache shows all Pods that were released before.  A
process that leads again still counts the releases that it had sent and that may yet be carried out.

Hazards.  While it is down, Pods wait.  If the cache is behind, Pods that have ended still count, and others start late.
A Pod that is created without the gate, because it opts out or belongs to a DaemonSet, counts when the watch shows it.
So does a claim that replaces another one of its name after the Pods that use it were released.  If the API server
carries out a release after its sender's Lease has expired and the next leader has listed the Pods, the next leader does
not know of it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tollbar import wellknown
from tollbar.api.reasons import HoldReason
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.decide.quotas.admission import Account, Held, admit, exceeded
from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.gates import quotatexts
from tollbar.gates.counting import COUNTED_BY, Counts, is_enrolled, labels_changed
from tollbar.gates.explanation import ClusterCopy, GateExplanation
from tollbar.gates.freshness import caught_up
from tollbar.gates.gate import Facts, Gate, Ledger
from tollbar.model import timestamps
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.model.plan import DONE, Outcome, RetryAfter
from tollbar.runtime.builder import Builder
from tollbar.runtime.caches import listed
from tollbar.runtime.errors import ApiError, ServerError, Unreachable
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Channel, Delta, spec_changed

COLLECTING: Final = 0.05
"""Seconds for which changes are collected, so that a burst of Pods is decided at once."""
LOOK_AGAIN: Final = 5.0
"""Seconds between two looks while Pods wait: patience is lost without any event."""
REFUSED_FOR: Final = 30.0
"""Seconds for which the room of a Pod is others' whose release other admission has refused."""
UNSEEN_FOR: Final = 1.0
"""Seconds until a new Pod that has not been counted is asked about again, so that its Event says what it waits for."""
SETTLED: Final = 30.0
"""Seconds after a Pod's creation until which the cache may not know that its Namespace has the label."""
DOUBTFUL_FOR: Final = 75.0
"""Seconds for which a release that had no answer may come to pass yet.

A release tells the API server to give up after 15 s (`Client.fenced`), so it makes no difference whether that works on
other requests for longer than a minute (`--request-timeout`).  The minute that is left is for what nobody calls back:
bytes on their way to the API server, and a transaction that etcd has taken."""
COUNTED_AT_ONCE: Final = 100
"""Pods that are counted before the event loop turns: in some milliseconds, or 0.1 s where each has many claims."""


class PodQuotas(Gate):
    """The gate of Pods in namespaces with the label tollbar.dev/quota, and the ledger that releases them."""

    name = wellknown.QUOTA_GATE
    namespaces: ClassVar[Sequence[Object]] = ({"key": wellknown.LABEL_QUOTA, "operator": "Exists"},)
    narrows = False
    fails_open = False
    explain_reads = COUNTED_BY
    rights: ClassVar[Sequence[Object]] = (
        {"apiGroups": [wellknown.GROUP], "resources": ["podquotas"], "verbs": ["list", "watch"]},
        {"apiGroups": [wellknown.GROUP], "resources": ["podquotas/status"], "verbs": ["patch"]},
    )

    def decide(self, facts: Facts) -> Answer:  # noqa: ARG002
        """Hold every Pod at its creation: two replicas of the webhook would not know what the other one releases.

        Even if the cached Namespace does not have the label: the API server has seen it there.
        """
        return _unseen()

    def explain(self, facts: Facts, copy: ClusterCopy) -> GateExplanation:
        """The decision of a ledger that begins with the copy, and does not know which namespaces had Pods released
        before."""
        if not is_enrolled(facts.namespace):
            return GateExplanation(NotMine())
        counts = Counts(copy.store)
        counts.look()
        found = admit(counts.in_force, counts.released, counts.waiting, copy.now, one_by_one=True)
        key, charges = key_of(facts.pod), counts.charges
        if key not in charges:  # it has ended
            return GateExplanation(NotMine())
        why = found.held.get(key)
        answer: Answer = Release() if why is None else Hold(why.reason, why.subject)
        return GateExplanation(answer, tuple(quotatexts.sections(charges[key], found, charges)))

    def ledger(self, manager: Manager) -> "QuotaLedger":
        self.quota_ledger = QuotaLedger(manager)
        """The same, for the statuses of PodQuotas, which say what it has found."""
        return self.quota_ledger


def _unseen() -> Hold:
    return Hold(HoldReason.UNCOUNTED, "the quotas of its namespace to be looked at")


class QuotaLedger(Ledger):
    """Decides, in the leader, which Pods may be released."""

    def __init__(self, manager: Manager) -> None:
        super().__init__()
        self._manager = manager
        self._begun = asyncio.Event()
        self.counts = Counts(manager.caches.store)
        self.counts.follow()
        devices = self.counts.devices
        self._refused: dict[str, tuple[Key, float]] = {}
        """Pods by uid whose room is others', and until when, in epoch seconds."""
        self._doubtful: dict[str, float] = {}
        """Pods by uid of which a release had no answer, and until when it may come to pass, in epoch seconds."""
        self._served: dict[tuple[str, str], _Service] = {}
        """By quota and namespace."""
        self._held: Mapping[Key, Held] = {}
        self._decided = -1, 0.0
        """Of which `Counts.changes` the last decision was, and when, in epoch seconds."""
        self.accounts: Mapping[str, Account] = {}
        self.running: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.counted = Channel[str]("quota ledger")
        """Quotas that were looked at: `accounts`, `running` and `waiting` say what came of it."""
        self.controller = (
            Builder[Key](manager, "quota ledger")
            .watches(self.counts.quotas, _everything, predicate=spec_changed, initial=_everything, delay=COLLECTING)
            .watches(self.counts.pods, _everything, delay=COLLECTING)
            .watches(self.counts.namespaces, _everything, predicate=labels_changed, delay=COLLECTING)
            .watches(devices.claims, _everything, predicate=self._is_used("claim"), delay=COLLECTING)
            .watches(devices.templates, _everything, predicate=self._is_used("template"), delay=COLLECTING)
            .watches(devices.classes, _everything, predicate=spec_changed, delay=COLLECTING)
            .build(self.reconcile, workers=1)
        )
        manager.leads("quota ledger", self._lead)

    async def begun(self) -> None:
        await self._begun.wait()

    def may_go(self) -> Iterable[Key]:
        return self.counts.granted.values()

    def decide(self, facts: Facts) -> Answer:
        if not is_enrolled(facts.namespace):
            return self._not_enrolled(facts.pod)
        if uid_of(facts.pod) in self.counts.granted:
            return Release()
        held = self._held.get(key_of(facts.pod))
        if held is None:
            return replace(_unseen(), again=UNSEEN_FOR) if self._begun.is_set() else _unseen()
        return Hold(held.reason, held.subject)

    def _not_enrolled(self, pod: Object) -> Answer:
        """The label may have been set just before the Pod was created, and not be in the cache yet."""
        created = metadata(pod).get("creationTimestamp")
        left = SETTLED - (self._manager.clock.now() - timestamps.parse(created)) if created else 0.0
        return replace(_unseen(), again=left) if left > 0 else NotMine()

    @contextmanager
    def sending(self, pod: Object) -> Iterator[None]:
        """A release that is refused does not count any more, unless an earlier one of the Pod may yet be carried out.

        After any other error it may have been carried out, or another client has removed the gate: it still counts.  It
        is cancelled if this process ceases to lead before the API server has answered.
        """
        try:
            yield
        except ApiError as error:
            uid, now = uid_of(pod), self._manager.clock.now()
            if error.refused:
                if now >= self._doubtful.get(uid, 0.0):
                    self.counts.refuse(pod)
                    self._refused[uid] = key_of(pod), now + REFUSED_FOR
                    self.controller.queue.add(_ALL)
            elif _may_come_to_pass(error):
                self._doubt(pod)
            raise
        except asyncio.CancelledError:
            self._doubt(pod)
            raise

    def _doubt(self, pod: Object) -> None:
        self._doubtful[uid_of(pod)] = self._manager.clock.now() + DOUBTFUL_FOR

    def _settle(self) -> None:
        """Forget releases that cannot be carried out any more."""
        now = self._manager.clock.now()
        for uid in [uid for uid, until in self._doubtful.items() if until <= now]:
            del self._doubtful[uid]
            self.counts.settle(uid)

    def _is_used(self, index: str) -> Callable[[Delta], bool]:
        return lambda delta: any(True for _ in self.counts.users(delta, index))

    async def _lead(self) -> None:
        self._settle()
        self.counts.begin(self._doubtful)
        self._refused.clear()
        self._held = {}
        counts, devices = self.counts, self.counts.devices
        await listed(
            (counts.namespaces, counts.quotas, counts.pods, devices.claims, devices.templates, devices.classes)
        )
        await self._look()
        await caught_up(self._manager, counts.pods, namespaces=counts.enrolled)
        if any(quota.counts_devices for quota in counts.in_force):
            for store in (devices.claims, devices.templates):
                await caught_up(self._manager, store, namespaces=counts.enrolled)
        try:
            await self.controller.run()
        finally:
            self._begun.clear()

    async def reconcile(self, _: Key) -> Outcome:
        """Count what has changed, and decide if that makes a difference."""
        now = self._manager.clock.now()
        for uid, (key, until) in [*self._refused.items()]:
            if until <= now:
                del self._refused[uid]
                self.counts.forgive(uid, key)
        self._settle()
        await self._look()
        changes, at = self._decided
        if changes != self.counts.changes or not 0 <= now - at < LOOK_AGAIN:
            self._decide(now)
        return RetryAfter(LOOK_AGAIN) if self._held else DONE

    def _decide(self, now: float) -> None:
        """Decide about all Pods together, and reconcile those that may be released.

        A release changes the shares of the namespaces, by which further Pods may be released.
        """
        changes = self.counts.changes
        served = {whose: each.at for whose, each in self._served.items()}
        found = admit(self.counts.in_force, self.counts.released, self.counts.waiting, now, served)
        in_doubt = {key: exceeded(self.counts.charge(key), found.accounts) for key in self.counts.doubtful.values()}
        going = [*(key for key, why in in_doubt.items() if why is None), *(charge.pod for charge in found.granted)]
        for key in going:
            self.counts.grant(key)
        self._note_served(found.granted, now)
        held_in_doubt = {key: why for key, why in in_doubt.items() if why is not None}
        self._held = {**self._held_by_others(), **found.held, **held_in_doubt}
        self.accounts = found.accounts
        self.running, self.waiting = _by_quota(self.counts.released), _by_quota(self.counts.waiting)
        for name in found.accounts:
            self.counted.send(name)
        for key in going:
            self.changed.send(key)
        self._begun.set()
        self._decided = changes, now  # at last: what has raised is tried again

    async def _look(self) -> None:
        """Count, and let other tasks run in between."""
        is_complete = self.counts.look(COUNTED_AT_ONCE)
        while not is_complete:
            await asyncio.sleep(0)
            is_complete = self.counts.look(COUNTED_AT_ONCE)

    def _held_by_others(self) -> Mapping[Key, Held]:
        why = Held(HoldReason.REFUSED, "other admission to accept its release")
        return {key: why for key, _ in self._refused.values()}

    def _note_served(self, granted: Iterable[Charge], now: float) -> None:
        """Note when a Pod of a namespace was last released by a quota, for the longest `patience` of the quota since
        then.

        So `patience` is not over too early because the quota was out of force, did not cover the namespace or did not
        share fairly for a while, or because `patience` was raised.
        """
        patience = {each.name: each.patience for each in self.counts.in_force}
        going = {(name, each.pod.namespace): _Service(now, now) for each in granted for name in each.quotas}
        noted = {whose: each.lasting(patience.get(whose[0], 0.0)) for whose, each in {**self._served, **going}.items()}
        self._served = {whose: each for whose, each in noted.items() if now < each.until}


@dataclass(frozen=True, slots=True)
class _Service:
    """When the last Pod of a namespace was released by a quota, and until when that is kept, both in epoch seconds."""

    at: float
    until: float

    def lasting(self, patience: float) -> "_Service":
        """Kept for so many seconds at least."""
        return replace(self, until=max(self.until, self.at + patience))


def _may_come_to_pass(error: ApiError) -> bool:
    """Whether a write that ended in this error may have been carried out, or may yet be."""
    return isinstance(error, ServerError) or (isinstance(error, Unreachable) and error.sent)


def _by_quota(lines: Lines) -> Counter[str]:
    """How many Pods there are that each quota covers."""
    found: Counter[str] = Counter()
    for line in lines:
        found.update(dict.fromkeys(line[0].quotas, len(line)))
    return found


_ALL: Final = Key("", "pods")
"""The one key: all Pods are decided about at once."""


def _everything(_: Delta | None = None) -> Iterable[Key]:
    return (_ALL,)
