"""Reconciles one SchedulingGate: counts the Pods that its gate holds and writes its status, once in a period."""

from dataclasses import dataclass

from controllers.status import StatusWriter
from tollbar import wellknown
from tollbar.decide.rules import gatestatus
from tollbar.decide.rules.gatestatus import GateStatusFacts
from tollbar.model import timestamps
from tollbar.model.objects import Key, metadata, spec
from tollbar.model.plan import DONE, Outcome, RetryAfter
from tollbar.runtime.clock import Clock
from tollbar.runtime.store import Store
from tollbar.views.gatherer import policy_of


@dataclass(frozen=True, slots=True)
class Deps:
    """`identity` is the user name that the API server knows this process by (SelfSubjectReview)."""

    gates: Store
    pods: Store
    clock: Clock
    status: StatusWriter
    identity: str


async def reconcile(key: Key, deps: Deps) -> Outcome:
    gate = deps.gates.get(key)
    if gate is None:
        deps.status.forget(key)
        return DONE
    now, written = deps.clock.now(), deps.status.written(key)
    if wait := gatestatus.numbers_due_in(gate, written, now):
        return RetryAfter(wait)
    name = spec(gate).get("gateName")
    facts = GateStatusFacts(
        gate=gate,
        policy=policy_of(gate),
        held_since=[timestamps.parse(metadata(pod)["creationTimestamp"]) for pod in deps.pods.by_index("gate", name)],
        owned=deps.identity in (spec(gate).get("owners") or ()) if name == wellknown.GATE else None,
        identity=deps.identity,
        written=written,
    )
    return await deps.status.write(gate, gatestatus.decide(facts, now))
