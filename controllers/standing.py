"""How the leader looks after claims, and whether that fits: gathered now and then, said on the Lease.

Used by `controllers.__main__`.  What is decided is `tollbar.decide.claims.modes`; it is also logged when it changes.
Hazard: none to others; behind, the Lease says what was true a moment ago.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tollbar import wellknown
from tollbar.decide.claims import modes
from tollbar.decide.claims.modes import Mode, ModeFacts
from tollbar.model import claims, managers, pods, timestamps
from tollbar.model.claims import Unresolved
from tollbar.model.conditions import Condition
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.detection import look_around
from tollbar.runtime.errors import ApiError
from tollbar.runtime.store import Delta, Store
from tollbar.views.caches import PodCaches

_log: Final = logging.getLogger(__name__)

PERIOD: Final = 5.0
"""Seconds between two looks at what this process knows."""
AROUND: Final = 300.0
"""Seconds between two looks at what the API server serves and permits."""
PATIENCE: Final = 60.0
"""Seconds that a Pod may wait for its claim before it counts."""


class Standing:
    """`annotations` are the Lease's, always the same mapping."""

    def __init__(self, mode: Mode, clock: Clock) -> None:
        self._mode = mode
        self._clock = clock
        self._said: Condition | None = None
        self._newest = ("", "")  # when the newest generated claim was created, and by whom
        self._before: Object = {}
        self.annotations: dict[str, str] = {wellknown.ANNOTATION_CLAIMS: mode}
        self._say(modes.decide(ModeFacts(mode)))

    def take_over(self, lease: Object) -> None:
        """The Lease as the last leader left it."""
        self._before = lease

    def handed_over(self) -> bool:
        """Whether the last leader generated claims until a moment ago."""
        return modes.was_generating(self._before, self._clock.now())

    def watch(self, store: Store) -> None:
        """Take note of who generates the claims of this store."""
        store.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.old is None and delta.new is not None and claims.reference_of(delta.new):
            created = str(metadata(delta.new).get("creationTimestamp"))
            self._newest = max(self._newest, (created, managers.creator(delta.new)))

    async def run(self, client: Client, known: Callable[[ModeFacts], ModeFacts]) -> None:
        """Until cancelled; `known` adds what this process knows by itself."""
        asked, facts = float("-inf"), ModeFacts(self._mode)
        while True:
            if self._clock.monotonic() - asked >= AROUND:
                asked, facts = self._clock.monotonic(), await self._look_around(client, facts)
            self._say(modes.decide(known(replace(facts, generator=self._newest[1]))))
            await self._clock.sleep(PERIOD)

    async def _look_around(self, client: Client, facts: ModeFacts) -> ModeFacts:
        try:
            found = await look_around(client)
        except ApiError as error:
            _log.warning("cannot look around", extra={"error": str(error)})
            return facts
        return replace(facts, server=found.version, pod_groups=found.pod_groups, may_bind=found.may_bind)

    def _say(self, found: Condition) -> None:
        name = wellknown.ANNOTATION_CLAIMS_CONDITION
        self.annotations[name] = modes.record(self.annotations.get(name, ""), found, self._clock.now())
        if found != self._said:
            level = logging.WARNING if found.status == "False" else logging.INFO
            _log.log(
                level,
                "claims",
                extra={"mode": self._mode, "fits": found.status, "reason": found.reason, "why": found.message},
            )
            self._said = found


def waiting(caches: PodCaches, now: float) -> int:
    """Pods without a node whose claim nobody has made although its template is there; `now` in epoch seconds.

    With one template missing the Pod does not count: kube-controller-manager does not go past it.
    """
    return sum(1 for pod in caches.pods.values() if _waits(pod, caches) and _age(pod, now) > PATIENCE)


def _waits(pod: Object, caches: PodCaches) -> bool:
    missing = [reference for reference, name in claims.resolved(pod) if name is Unresolved.NOT_CREATED]
    if not missing or pods.scheduling_group(pod) or pods.is_terminal(pod) or pods.is_deleting(pod):
        return False
    templates = (Key(key_of(pod).namespace, str(each.get("resourceClaimTemplateName"))) for each in missing)
    return all(caches.template(key) is not None for key in templates)


def _age(pod: Object, now: float) -> float:
    created = metadata(pod).get("creationTimestamp")
    return now - timestamps.parse(str(created)) if created else 0.0
