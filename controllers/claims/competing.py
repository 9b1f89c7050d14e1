"""Notices another generator of claims that starts later, by the field manager of the claims that it creates.

Anybody may create a claim that looks generated, so a suspicion only leads to a probe (`controllers.claims.probe`).
Each new claim is checked in memory, without an API call.

Invariant: a field manager that a probe has cleared is not suspected again for `SHORTEST` seconds, which doubles with
each probe up to `LONGEST`; it may be suspected again because it may have been too slow for the probe.
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
_GENERATED_FOR: Final = frozenset({"Pod", "PodGroup"})


class CompetingGenerators:
    def __init__(self, claims: Store, clock: Clock) -> None:
        """Checks every claim that is added to this store."""
        self._clock = clock
        self._cleared: dict[str, tuple[float, float]] = {}  # by name: until when, after how long
        self._suspect = ""
        self._found = asyncio.Event()
        claims.subscribe(self._on_delta)

    async def suspect(self) -> str:
        """Wait for a field manager other than Tollbar's that creates generated claims, and return it."""
        await self._found.wait()
        return self._suspect

    def forget(self) -> None:
        """Drop the suspicion."""
        self._found.clear()
        self._suspect = ""

    def clear(self, manager: str) -> None:
        """A probe has shown that this manager is no generator: do not suspect it again for a while."""
        now = self._clock.monotonic()
        self._cleared = {name: each for name, each in self._cleared.items() if now - each[0] < LONGEST}
        _, last = self._cleared.get(manager, (now, 0.0))
        pause = min(max(SHORTEST, 2 * last), LONGEST)
        self._cleared[manager] = (now + pause, pause)
        self.forget()

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is not None or delta.new is None or delta.initial or self._found.is_set():
            return
        manager = other_generator_of(delta.new)
        until, _ = self._cleared.get(manager, (float("-inf"), 0.0))
        if manager and self._clock.monotonic() >= until:
            self._suspect = manager
            self._found.set()


def other_generator_of(claim: Object) -> str:
    """The field manager that created a claim that looks generated; empty when it is Tollbar's or unknown."""
    if reference_of(claim) is None or (controller_of(claim) or {}).get("kind") not in _GENERATED_FOR:
        return ""
    manager = managers.creator(claim)
    return "" if manager.startswith(wellknown.FIELD_MANAGER_PREFIX) else manager
