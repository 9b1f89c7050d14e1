"""Somebody else who generates claims, although nobody did when we began: noticed by the claims that they make.

Filled by the watch of claims; asked by `controllers.claims.loop`, which then makes a trial
(`controllers.claims.guard`), since a claim with a generated one's looks may be anybody's.  Costs a look at each new
claim, and no call.

Invariant: a field manager that the trial has cleared is not suspected again for a while, which doubles with each trial
from `SHORTEST` to `LONGEST`: one that goes on making claims may only have been too slow.
Hazard: a generator that makes no claim, because we are always first, is not found; nor is another Tollbar, whose field
manager is ours.  That one finds us, and refuses.
"""

import asyncio
from typing import Final

from tollbar import wellknown
from tollbar.model import claims, managers
from tollbar.model.objects import Object, controller_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.store import Delta, Store

SHORTEST: Final = 30.0
LONGEST: Final = 300.0
_GENERATED_FOR: Final = frozenset({"Pod", "PodGroup"})


class Rivals:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._cleared: dict[str, tuple[float, float]] = {}  # by name: until when, after how long
        self._suspect = ""
        self._found = asyncio.Event()

    def watch(self, claims_store: Store) -> None:
        """Look at every claim that is created from now on."""
        claims_store.subscribe(self._on_delta, replay=False)

    async def suspect(self) -> str:
        """Waits for a field manager other than ours that creates claims as a generator does."""
        await self._found.wait()
        return self._suspect

    def forget(self) -> None:
        """Begin anew, with nobody suspected."""
        self._found.clear()
        self._suspect = ""

    def clear(self, manager: str) -> None:
        """It turned out to generate nothing: leave it in peace for a while."""
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
    """The field manager that made a claim with a generated one's looks; empty when that was us, or nothing says so."""
    if claims.reference_of(claim) is None or (controller_of(claim) or {}).get("kind") not in _GENERATED_FOR:
        return ""
    manager = managers.creator(claim)
    return "" if manager.startswith(wellknown.FIELD_MANAGER_PREFIX) else manager
