"""Claims of which the entry of one Pod is removed and added again, over and over.

kube-controller-manager does so, as fast as its client lets it, when a finished Pod lingers on a claim that somebody
else keeps allocated (kubernetes/kubernetes#141274).  One look at a claim cannot show it: this counts over time, for
every claim, pinned by us or not.  The reservations controller reports what is found.

Invariant: memory follows the claims that are there and have lost an entry, of each what happened within `WINDOW`.
Hazard: lost on restart, and found again within seconds when it goes on.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from typing import Final

from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.store import Delta, Store

WINDOW: Final = 30.0
"""Seconds that a return counts for."""
RETURNS: Final = 3
"""Returns of one entry within the window: a scheduler that gives up and tries again has its back-off between."""


class _History:
    """What happened to the Pod entries of one claim."""

    def __init__(self) -> None:
        self.removed: dict[str, float] = {}
        self.returns: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RETURNS))

    def flapping(self, now: float) -> frozenset[str]:
        return frozenset(
            uid for uid, times in self.returns.items() if len(times) == RETURNS and times[0] >= now - WINDOW
        )

    def forget_before(self, moment: float) -> None:
        for uid in [uid for uid, time in self.removed.items() if time < moment]:
            del self.removed[uid]
        for uid in [uid for uid, times in self.returns.items() if times[-1] < moment]:
            del self.returns[uid]


class Oscillations:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._histories: dict[str, _History] = {}
        self._handlers: list[Callable[[Key], None]] = []

    def watch(self, store: Store) -> None:
        """Take note of the changes of the claims in this store."""
        store.subscribe(self._on_delta, replay=False)

    def subscribe(self, handler: Callable[[Key], None]) -> None:
        """`handler` is called with the key of every claim that begins to flap."""
        self._handlers.append(handler)

    def flapping(self, claim: Object) -> frozenset[str]:
        """Uids of the Pods whose entries come and go."""
        history = self._histories.get(uid_of(claim))
        return history.flapping(self._clock.monotonic()) if history is not None else frozenset()

    def count(self) -> int:
        """How many claims are flapping now."""
        now = self._clock.monotonic()
        return sum(1 for history in self._histories.values() if history.flapping(now))

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is None:
            return
        uid = uid_of(delta.old)
        if delta.new is None:
            self._histories.pop(uid, None)
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
            history = self._histories[uid] = _History()
        history.forget_before(now - WINDOW)
        before = history.flapping(now)
        history.removed.update(dict.fromkeys(removed, now))
        for entry in added & history.removed.keys():
            history.returns[entry].append(now)
        if history.flapping(now) and not before:
            for handler in self._handlers:
                handler(key)


def _pod_uids(claim: Object) -> Iterable[str]:
    return (str(entry.get("uid")) for entry in claims.reserved_for(claim) if claims.is_pod_entry(entry))
