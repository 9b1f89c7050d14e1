"""One SchedulingGate: the Pods that its gate holds; its status, at most one write in a period."""

from dataclasses import dataclass

from controllers.status import StatusWriter
from tollbar import wellknown
from tollbar.decide.rules import gatestatus
from tollbar.decide.rules.gatestatus import GateStatusFacts
from tollbar.model import timestamps
from tollbar.model.objects import Key, metadata, spec
from tollbar.model.plan import DONE, Outcome, RetryAfter
from tollbar.runtime.clock import Clock
from tollbar.views.caches import PodCaches


@dataclass(frozen=True, slots=True)
class Deps:
    """`identity` is the user name that the API server knows this process by (SelfSubjectReview)."""

    caches: PodCaches
    clock: Clock
    status: StatusWriter
    identity: str


async def reconcile(key: Key, deps: Deps) -> Outcome:
    gate = deps.caches.gates.get(key)
    if gate is None:
        deps.status.forget(key)
        return DONE
    now, written = deps.clock.now(), deps.status.written(key)
    if wait := gatestatus.numbers_due_in(gate, written, now):
        return RetryAfter(wait)
    name = spec(gate).get("gateName")
    facts = GateStatusFacts(
        gate=gate,
        policy=deps.caches.policy_of(gate),
        held_since=[
            timestamps.parse(metadata(pod)["creationTimestamp"]) for pod in deps.caches.pods.by_index("gate", name)
        ],
        owned=deps.identity in (spec(gate).get("owners") or ()) if name == wellknown.GATE else None,
        identity=deps.identity,
        written=written,
    )
    return await deps.status.write(gate, gatestatus.decide(facts, now))
