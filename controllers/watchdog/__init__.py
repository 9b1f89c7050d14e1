"""Watchdog: reports how many Pods each declared gate holds, for how long, and which are overdue, in the status of the
SchedulingGate, in metrics, and for the gates of others by an Event on the Pod.

It only reports: releasing an overdue Pod is the decision of the gate's own controller, which tells of it, too.  The
SchedulingGates that it creates are those of this process's gates, at start (`declare`).  Hazard: down, the numbers are
old.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from controllers.status import COUNTING, STATUS_WORKERS, StatusWriter
from controllers.watchdog.declare import declare
from controllers.watchdog.reconcile import Deps, reconcile
from tollbar import wellknown
from tollbar.api.gates import shipped_gate
from tollbar.decide.pods import overdue
from tollbar.decide.pods.scope import GatePolicy
from tollbar.gates.evaluation import declaration, default_policies, policy_in_force
from tollbar.gates.gate import Gate
from tollbar.model import pods
from tollbar.model.gates import gate_name
from tollbar.model.objects import Key, key_of, spec
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Delta, itself
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.held import HeldPods


def setup(manager: Manager, user: str, classes: Sequence[Gate] = ()) -> Controller[Key]:
    """A SchedulingGate is reconciled when it changes, and when a Pod gets or loses its gate.

    `user` is the name that the API server knows this process by; `classes` are the gates that this process releases
    beside the toleration gate.
    """
    ours = default_policies(classes)
    gates, held = manager.caches.store(kinds.GATES), manager.caches.store(kinds.PENDING_PODS)
    status, counts = StatusWriter(manager, gates, "gates"), HeldPods(held)
    _expose(manager, gates, counts, ours)
    manager.health.ready("gate-owner", partial(_owner_problem, gates, user, ours))
    for gate in (shipped_gate((user,)), *(declaration(each, (user,)) for each in classes)):
        name = gate["spec"]["gateName"]
        what = "the gate" if name == wellknown.GATE else name
        manager.leads(f"declare {what}", partial(declare, manager.client, gates, gate, manager.clock))

    deps = Deps(gates, held, counts, manager.clock, status, manager.recorder("gates"), user, ours)

    def gates_of_pod(delta: Delta) -> Iterable[Key]:
        for name in {name for pod in delta.objects for name in pods.gate_names(pod)}:
            yield from map(key_of, gates.by_index("gate-name", name))

    return (
        Builder[Key](manager, "watchdog")
        .watches(gates, itself, initial=True)
        .watches(held, gates_of_pod, predicate=_gates_changed, delay=COUNTING)
        .complete(partial(reconcile, deps=deps), workers=STATUS_WORKERS)
    )


def _expose(manager: Manager, gates: Store, counts: HeldPods, ours: Mapping[str, GatePolicy]) -> None:
    """The metrics of every gate that is declared; on every replica, from its own cache."""
    metrics = manager.metrics

    def overdue_pods(name: str) -> int:
        declaring = min(gates.by_index("gate-name", name), key=lambda gate: key_of(gate).name, default=None)
        if declaring is None:
            return 0
        return overdue.count(counts.since(name), policy_in_force(name, declaring, ours), manager.clock.now())

    def on_delta(delta: Delta) -> None:
        for name in set(map(gate_name, delta.objects)):
            if not gates.by_index("gate-name", name):
                metrics.forget("gate", name)
            elif delta.old is None:
                metrics.gauge("tollbar_gate_held_pods").labels(name).set_function(partial(counts.count, name))
                metrics.gauge("tollbar_gate_overdue_pods").labels(name).set_function(partial(overdue_pods, name))

    gates.subscribe(on_delta)


def _gates_changed(delta: Delta) -> bool:
    """The predicate for Pods that get or lose a gate."""
    before, after = (pods.gate_names(pod) if pod is not None else [] for pod in (delta.old, delta.new))
    return before != after


def _owner_problem(gates: Store, user: str, ours: Iterable[str]) -> str | None:
    """A readiness check: where gate ownership is enforced, only an owner can remove the gate."""
    for gate in (each for name in sorted(ours) for each in gates.by_index("gate-name", name)):
        if user not in (spec(gate).get("owners") or ()):
            return f"{user} is not among the owners of SchedulingGate {gate['metadata']['name']}"
    return None
