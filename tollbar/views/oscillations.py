"""Finds claims whose `status.reservedFor` oscillates: the entry of one Pod is removed and added again, over and over.

kube-controller-manager does so without back-off when a finished Pod still refers to a claim that another entry keeps
allocated (kubernetes/kubernetes#141274).  This counts the changes of every claim, reserved by Tollbar or not.

Invariant: only existing claims that have lost an entry take memory, each for the changes within `WINDOW`.
Hazard: lost on restart, and found again within seconds when it goes on.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final

from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store

WINDOW: Final = 30.0
"""Seconds within which returns of an entry are counted."""
RETURNS: Final = 3
"""Returns of one entry within the window that count as oscillation; a retrying scheduler backs off and stays below."""


class _History:
    """When Pod entries of one claim were removed and came back, by uid, in monotonic time."""

    def __init__(self, claim: Key) -> None:
        self.claim = claim
        self.removed: dict[str, float] = {}
        self.returns: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RETURNS))

    def oscillating(self, now: float) -> frozenset[str]:
        return frozenset(
            uid for uid, times in self.returns.items() if len(times) == RETURNS and times[0] >= now - WINDOW
        )

    def forget_before(self, moment: float) -> None:
        for uid in [uid for uid, time in self.removed.items() if time < moment]:
            del self.removed[uid]
        for uid in [uid for uid, times in self.returns.items() if times[-1] < moment]:
            del self.returns[uid]


class Oscillations:
    """Watches the claims in this store, once it is started.

    A source: sends the key of every claim that begins to oscillate.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._found: Channel[Key] = Channel("oscillations")
        self._clock = clock
        self._histories: dict[str, _History] = {}

    def start(self) -> None:
        """Record the changes of claims from now on."""
        self._store.subscribe(self._on_delta)

    async def run(self) -> None:
        """Start, and go on until cancelled."""
        self.start()
        await asyncio.Event().wait()

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """Call the handler with the key of every claim that begins to oscillate."""
        self._found.subscribe(handler)

    def replay(self, handler: Callable[[Key], None]) -> None:
        """Call the handler with the key of every claim that oscillates now."""
        now = self._clock.monotonic()
        for history in list(self._histories.values()):
            if history.oscillating(now):
                handler(history.claim)

    def oscillating(self, claim: Object) -> frozenset[str]:
        """Uids of the Pods whose entries oscillate in this claim."""
        history = self._histories.get(uid_of(claim))
        return history.oscillating(self._clock.monotonic()) if history is not None else frozenset()

    def count(self) -> int:
        """How many claims oscillate now."""
        now = self._clock.monotonic()
        return sum(1 for history in self._histories.values() if history.oscillating(now))

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is None:
            return
        uid = uid_of(delta.old)
        if delta.new is None:
            self._histories.pop(uid, None)
            return
        if claims.reserved_for(delta.old) == claims.reserved_for(delta.new):
            return
        before, after = set(_pod_uids(delta.old)), set(_pod_uids(delta.new))
        if before != after:
            self._record(key_of(delta.new), uid, before - after, after - before)

    def _record(self, key: Key, uid: str, removed: set[str], added: set[str]) -> None:
        now = self._clock.monotonic()
        history = self._histories.get(uid)
        if history is None:
            if not removed:
                return
            history = self._histories[uid] = _History(key)
        history.forget_before(now - WINDOW)
        before = history.oscillating(now)
        history.removed.update(dict.fromkeys(removed, now))
        for entry in added & history.removed.keys():
            history.returns[entry].append(now)
        if history.oscillating(now) and not before:
            self._found.send(key)


def _pod_uids(claim: Object) -> Iterable[str]:
    return (str(entry.get("uid")) for entry in claims.reserved_for(claim) if claims.is_pod_entry(entry))
