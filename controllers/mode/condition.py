"""The condition on the Lease that tells whether the claims mode of the leader fits the cluster.

The decision is `tollbar.decide.claims.modes`; the condition is also logged when it changes.
"""

import logging
from dataclasses import dataclass, replace
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims import modes
from tollbar.decide.claims.modes import ModeFacts
from tollbar.model import claims, conditions, managers
from tollbar.model.objects import Key, metadata
from tollbar.runtime.caches import listed
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.detection import capabilities
from tollbar.runtime.errors import ApiError
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

_log: Final = logging.getLogger(__name__)

PERIOD: Final = 5.0
"""Seconds between two updates from what this process knows."""
DETECTION_PERIOD: Final = 300.0
"""Seconds between two checks of what the API server serves and permits."""
WAITED: Final = 60.0
"""Seconds that a Pod may wait for its claim before it counts."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The state of this process that the condition is decided from.

    `takeover` is None where kube-controller-manager generates claims.
    """

    pods: Store
    templates: Store
    states: ReservationStates
    oscillations: Oscillations
    takeover: Takeover | None

    def facts(self, facts: ModeFacts, now: float) -> ModeFacts:
        """These facts with the state of this process added; `now` in epoch seconds."""
        too_old, oscillating = self.states.count(ReservedReason.UPSTREAM_TOO_OLD), self.oscillations.count()
        facts = replace(facts, too_old=too_old, oscillating=oscillating)
        if self.takeover is None:
            return replace(facts, waiting=waiting(self.pods, self.templates, now))
        return replace(facts, working=self.takeover.works, refused=self.takeover.problem)


class Generators:
    """The creator of the newest generated claim that was added to this store."""

    def __init__(self, claims: Store) -> None:
        self.claims = claims
        self.newest = ("", "")  # when it was created, and by which field manager
        claims.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is None and delta.new is not None and claims.reference_of(delta.new):
            created = str(metadata(delta.new).get("creationTimestamp"))
            self.newest = max(self.newest, (created, managers.creator(delta.new)))


class LeaseCondition:
    """Keeps the annotations up to date that the holder of the Lease writes with every renewal."""

    def __init__(self, mode: modes.Mode, annotations: dict[str, str], clock: Clock) -> None:
        self._mode = mode
        self._annotations = annotations
        self._clock = clock
        self._said: conditions.Condition | None = None
        annotations[wellknown.ANNOTATION_CLAIMS] = mode
        self.say(modes.decide(ModeFacts(mode)))

    async def run(self, client: Client, observed: Observed, generators: Generators) -> None:
        """Update the condition until cancelled.  What an earlier time as leader has found is not known any more."""
        self.say(modes.decide(ModeFacts(self._mode)))
        await listed((observed.pods, observed.templates, generators.claims))
        asked, facts = float("-inf"), ModeFacts(self._mode)
        while True:
            if self._clock.monotonic() - asked >= DETECTION_PERIOD:
                asked, facts = self._clock.monotonic(), await _detect(client, facts)
            facts = replace(facts, generator=generators.newest[1])
            self.say(modes.decide(observed.facts(facts, self._clock.now())))
            await self._clock.sleep(PERIOD)

    def say(self, found: conditions.Condition) -> None:
        name = wellknown.ANNOTATION_CLAIMS_CONDITION
        self._annotations[name] = modes.record(self._annotations.get(name, ""), found, self._clock.now())
        if found != self._said:
            level = logging.WARNING if found.status == "False" else logging.INFO
            said = {"mode": self._mode, "fits": found.status, "reason": found.reason, "why": found.message}
            _log.log(level, "whether the claims mode fits the cluster", extra=said)
            self._said = found


async def _detect(client: Client, facts: ModeFacts) -> ModeFacts:
    try:
        found = await capabilities(client)
    except ApiError as error:
        level = error.level(logging.WARNING)
        _log.log(level, "cannot detect what the API server serves and permits", extra={"error": str(error)})
        return facts
    return replace(facts, server=found.version, pod_groups=found.pod_groups, may_bind=found.may_bind)


def waiting(pending: Store, templates: Store, now: float) -> int:
    """Counts Pods without a node that wait for a generated claim although its template exists; `now` in epoch seconds.

    A Pod with a missing template does not count: kube-controller-manager cannot finish it either.
    """
    waits: dict[bool, set[Key]] = {True: set(), False: set()}
    for template in pending.values_of_index("ungenerated"):
        waits[template in templates].update(pending.keys_by_index("ungenerated", template))
    return sum(1 for key in waits[True] - waits[False] if now - pending.created(key) > WAITED)
