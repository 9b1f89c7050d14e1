"""Reconciles one SchedulingGate, once in a period: writes in its status how many Pods its gate holds, and emits Events
about those that are overdue if the gate is somebody else's."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from controllers.status import StatusWriter
from tollbar.decide.pods import events, overdue
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.rules import gatestatus
from tollbar.decide.rules.gatestatus import GateStatusFacts
from tollbar.gates.evaluation import policy_in_force
from tollbar.model import timestamps
from tollbar.model.gates import gate_name
from tollbar.model.objects import Key, Object, spec
from tollbar.model.plan import DONE, Outcome, RetryAfter
from tollbar.runtime.clock import Clock
from tollbar.runtime.events import Recorder
from tollbar.runtime.store import Store
from tollbar.views.held import HeldPods

TOLD_AT_ONCE: Final = 100
"""Pods of one gate that are told of in one period: whoever creates Pods can let many be overdue at one time."""


@dataclass(frozen=True, slots=True)
class Deps:
    """`identity` is the user name that the API server knows this process by (SelfSubjectReview).

    `ours` are the gates whose Pods this process releases, with the policies that apply while there is no valid
    SchedulingGate.  `told`: Pods of a gate that were created until then have been told of.
    """

    gates: Store
    pods: Store
    held: HeldPods
    clock: Clock
    status: StatusWriter
    recorder: Recorder
    identity: str
    ours: Mapping[str, GatePolicy]
    told: dict[Key, str] = field(default_factory=dict)


async def reconcile(key: Key, deps: Deps) -> Outcome:
    """What changes meanwhile is looked at when the period is over."""
    gate = deps.gates.get(key)
    if gate is None:
        deps.status.forget(key)
        deps.told.pop(key, None)
        return DONE
    now, written = deps.clock.now(), deps.status.written(key)
    if wait := gatestatus.numbers_due_in(gate, written, now):
        return RetryAfter(wait)
    name = gate_name(gate)
    policy = policy_in_force(name, gate, deps.ours)
    held = deps.held.since(name)
    if name not in deps.ours:
        _tell(key, gate, held, policy, deps)
    facts = GateStatusFacts(
        gate=gate,
        policy=policy,
        held_since=held,
        owned=deps.identity in (spec(gate).get("owners") or ()) if name in deps.ours else None,
        identity=deps.identity,
        written=written,
    )
    return await deps.status.write(gate, gatestatus.decide(facts, now))


def _tell(key: Key, gate: Object, held: Mapping[str, int], policy: GatePolicy, deps: Deps) -> None:
    """Emit an Event on each Pod that has become overdue since the last look; on the oldest ones if they are many.

    The Pods are gone through only when there is one, and only those are decoded.
    """
    after, until = deps.told.get(key, ""), overdue.latest(policy, deps.clock.now())
    deps.told[key] = max(after, until)
    if policy.max_hold is None or not any(after < created <= until for created in held):
        return
    name, owners = gate_name(gate), spec(gate).get("owners") or ()
    event = events.others_gate_overdue(name, policy.max_hold, owners)
    since, last = timestamps.parse(after) if after else -math.inf, timestamps.parse(until)
    created = ((deps.pods.created(each), each) for each in deps.pods.keys_by_index("gate", name))
    oldest = sorted((at, each) for at, each in created if since < at <= last)[:TOLD_AT_ONCE]
    found = [pod for _, each in oldest if (pod := deps.pods.get(each)) is not None]
    for pod in overdue.between(found, after, until):
        deps.recorder.emit(pod, event)
