"""Notices another generator of claims that starts later, by the field manager of the claims that it creates.

Each new claim is checked in memory, without an API call.  With the first one of another manager no more claims are
created until a probe (`controllers.claims.probe`) has told whether that manager is a generator, or for Pods that are
created together both would go on to create claims.

Invariants: a field manager that a probe has cleared is not suspected again for `SHORTEST` seconds, which doubles with
each probe up to `LONGEST`; it may be suspected again because it may have been too slow for the probe.  Anybody may
create a claim that looks generated: claims are held back for `HOLD` seconds at most, and when the probe finds nobody
not again within `LONGEST` seconds, whoever is suspected then.
Hazard: a generator that never creates a claim, because this one is always first, is not noticed; nor is another
Tollbar, which has the same field manager: that one finds this process with its own probe and does not start.
"""

import asyncio
from typing import Final

from tollbar import wellknown
from tollbar.model import managers
from tollbar.model.claims import reference_of
from tollbar.model.objects import Object, controller_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

SHORTEST: Final = 30.0
LONGEST: Final = 300.0
HOLD: Final = 10.0
"""Seconds; a probe that finds nobody takes half of that."""
_GENERATED_FOR: Final = frozenset({"Pod", "PodGroup"})


class CompetingGenerators:
    """Checks every claim that is added to this store, once it is started."""

    def __init__(self, claims: Store, clock: Clock) -> None:
        self._claims = claims
        self._clock = clock
        self._cleared: dict[str, tuple[float, float]] = {}  # by name: until when, after how long
        self._suspect = ""
        self._found = asyncio.Event()
        self._held_until = self._seen_until = self._free_until = float("-inf")

    @property
    def holds(self) -> bool:
        """Whether no claim may be created until a probe has told more."""
        return self._found.is_set() and self._clock.monotonic() < self._held_until

    @property
    def was_seen(self) -> bool:
        """Whether somebody was suspected in the last `LONGEST` seconds."""
        return self._clock.monotonic() < self._seen_until

    def start(self) -> None:
        """Check claims from now on, without an earlier suspicion."""
        self.forget()
        self._claims.subscribe(self._on_delta)

    async def suspect(self) -> str:
        """Wait for a field manager other than Tollbar's that creates generated claims, and return it."""
        await self._found.wait()
        return self._suspect

    def forget(self) -> None:
        """Drop the suspicion."""
        self._found.clear()
        self._suspect = ""
        self._held_until = self._free_until = float("-inf")

    def clear(self, manager: str) -> None:
        """A probe has shown that this manager is no generator: do not suspect it again for a while."""
        now = self._clock.monotonic()
        self._cleared = {name: each for name, each in self._cleared.items() if now - each[0] < LONGEST}
        _, last = self._cleared.get(manager, (now, 0.0))
        pause = min(max(SHORTEST, 2 * last), LONGEST)
        self._cleared[manager] = (now + pause, pause)
        free_until = self._free_until
        self.forget()
        self._free_until = free_until

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is not None or delta.new is None or delta.initial or self._found.is_set():
            return
        manager, now = other_generator_of(delta.new), self._clock.monotonic()
        until, _ = self._cleared.get(manager, (float("-inf"), 0.0))
        if manager and now >= until:
            self._suspect = manager
            self._seen_until = now + LONGEST
            if now >= self._free_until:
                self._held_until, self._free_until = now + HOLD, now + LONGEST
            self._found.set()


def other_generator_of(claim: Object) -> str:
    """The field manager that created a claim that looks generated; empty when it is Tollbar's or unknown."""
    if reference_of(claim) is None or (controller_of(claim) or {}).get("kind") not in _GENERATED_FOR:
        return ""
    manager = managers.creator(claim)
    return "" if manager.startswith(wellknown.FIELD_MANAGER_PREFIX) else manager
