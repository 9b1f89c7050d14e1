"""Claims that were created and that the watch has not shown yet: without them a second look would create a second one.

Filled by the claims controller with the API server's answers.  An entry goes when the store hears anything about the
name, or after an hour, in case the claim was created and deleted while nobody watched.
"""

from collections.abc import Sequence
from typing import Final

from tollbar.model.objects import Key, Object, controller_of, key_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.store import Delta, Store

KEPT: Final = 3600.0
"""Seconds, as kube-controller-manager's mutation cache."""


class CreatedClaims:
    def __init__(self, claims: Store, clock: Clock) -> None:
        self._store = claims
        self._clock = clock
        self._claims: dict[Key, tuple[float, Object]] = {}
        self._owned: dict[str, dict[Key, None]] = {}
        claims.subscribe(self._on_delta, replay=False)

    def __len__(self) -> int:
        return len(self._claims)

    def add(self, claim: Object) -> None:
        """An answer to a creation; the watch may have been quicker."""
        self._expire()
        key = key_of(claim)
        if key not in self._store:
            self._claims[key] = (self._clock.monotonic(), claim)
            self._owned.setdefault(_owner(claim), {})[key] = None

    def get(self, key: Key) -> Object | None:
        self._expire()
        found = self._claims.get(key)
        return found[1] if found else None

    def owned_by(self, uid: str) -> Sequence[Object]:
        self._expire()
        return [self._claims[key][1] for key in self._owned.get(uid, ())]

    def _expire(self) -> None:
        horizon = self._clock.monotonic() - KEPT
        while self._claims and next(iter(self._claims.values()))[0] < horizon:
            self._drop(next(iter(self._claims)))

    def _on_delta(self, delta: Delta) -> None:
        for claim in (delta.old, delta.new):
            if claim is not None:
                self._drop(key_of(claim))

    def _drop(self, key: Key) -> None:
        found = self._claims.pop(key, None)
        if found is not None:
            owned = self._owned[_owner(found[1])]
            del owned[key]
            if not owned:
                del self._owned[_owner(found[1])]


def _owner(claim: Object) -> str:
    return str((controller_of(claim) or {}).get("uid"))
