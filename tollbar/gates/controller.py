"""The controller of one gate class: releases the Pods that carry the gate, each when the class says so.

Hazards.  While it is down, Pods with the gate wait.  If two run, the second patch fails its `test`.  If its caches are
behind, Pods start late.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Final

from tollbar.decide.gates import release
from tollbar.decide.gates.release import Case, Plan, Refusal
from tollbar.decide.pods import events
from tollbar.gates.evaluation import Evaluated, GateEvaluator
from tollbar.gates.gate import Gate, Reads
from tollbar.gates.loop import Loop
from tollbar.model import pods
from tollbar.model.objects import Key, Object, annotations_of, key_of, labels_of, spec
from tollbar.runtime.builder import Builder
from tollbar.runtime.caches import listed
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Delta, itself, key_itself, spec_changed
from tollbar.runtime.store import Store
from tollbar.runtime.workqueue import AHEAD
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer

_log: Final = logging.getLogger(__name__)

BEGINS_WITHIN: Final = 10.0
"""Seconds after the first lists until Pods are looked at though their ledger has not begun: one that opts out needs no
ledger."""


def setup(manager: Manager, gatherer: Gatherer, gate: Gate) -> Controller[Key]:
    """A Pod with the gate is reconciled when it changes, and when an object changes that the class reads for it."""
    indexes = {_index(gate, place): _indexer(gate, each) for place, each in enumerate(gate.reads)}
    held = manager.caches.store(replace(kinds.PENDING_PODS, indexers={**kinds.PENDING_PODS.indexers, **indexes}))
    ledger = gate.ledger(manager)
    evaluator = GateEvaluator(gate, manager.caches.store, gatherer, manager.metrics, ledger)
    loop = GateLoop(manager, held, evaluator)

    def carries(delta: Delta) -> bool:
        return delta.new is not None and gate.name in pods.gate_names(delta.new) and _changed(delta)

    def present() -> Iterable[Key]:
        return held.keys_by_index("gate", gate.name)

    def in_namespace(delta: Delta) -> Iterable[Key]:
        for namespace in delta.objects:
            for key in held.keys_by_index("namespace", key_of(namespace).name):
                if key in present():
                    yield key

    def declared(delta: Delta) -> Iterable[Key]:
        if any(spec(each).get("gateName") == gate.name for each in delta.objects):
            yield from present()

    builder = Builder[Key](manager, f"gate {gate.name}").watches(held, itself, predicate=carries, initial=present)
    builder.watches(gatherer.lookup.namespaces, in_namespace, predicate=_namespace_changed)
    builder.watches(gatherer.gates, declared, predicate=spec_changed)
    for place, (each, store) in enumerate(evaluator.reads()):
        builder.watches(store, _reading(held, _index(gate, place), each))
    if ledger is not None:
        builder.watches(ledger.changed, key_itself, initial=True, priority=AHEAD)
    controller = builder.build(loop.reconcile, workers=manager.configuration.workers)
    if ledger is None:
        manager.leads(f"controller {controller.name}", controller.run)
    else:
        manager.leads(f"controller {controller.name}", partial(_run, controller, evaluator))
    return controller


async def _run(controller: Controller[Key], evaluator: GateEvaluator) -> None:
    """Run the controller once the ledger has begun.  If that takes long, begin without it, and decide all Pods again
    then."""
    await listed(controller.needs)
    async with asyncio.TaskGroup() as running:
        begun = running.create_task(evaluator.begun())
        await asyncio.wait({begun}, timeout=BEGINS_WITHIN)
        is_late = not begun.done()
        running.create_task(controller.run())
        await begun
        if is_late:
            controller.resync()


class GateCase(Evaluated, Case[Plan]):
    """The answer of the class for one Pod."""

    def __init__(self, evaluator: GateEvaluator, pod: Object, refusal: Refusal | None, now: float) -> None:
        self.gate = evaluator.gate.name
        managed = evaluator.gatherer.is_managed(key_of(pod).namespace)
        super().__init__(pod, evaluator.policy, now, managed=managed, refusal=refusal)
        self.known = evaluator.gatherer.lookup.namespace(key_of(pod).namespace) is not None
        self.evaluator = evaluator

    def decide(self) -> Plan:
        plan = release.plan(self)
        failure = self.failure
        also = (events.gate_failed(failure.why),) if failure is not None else ()
        return self._named(replace(plan, events=(*plan.events, *also)))

    def refused(self, plan: Plan, why: str) -> Plan:
        changes = plan.release.changes if plan.release is not None else ()
        return self._named(release.after_refusal(self, changes, why))

    def _named(self, plan: Plan) -> Plan:
        """With Events that name the gate."""
        return replace(plan, events=tuple(events.about_gate(self.gate, each) for each in plan.events))


class GateLoop(Loop[GateCase, Plan]):
    """The loop of one gate class; with a ledger its patches are sent only while this process leads."""

    def __init__(self, manager: Manager, held: Store, evaluator: GateEvaluator) -> None:
        super().__init__(manager, evaluator.gate.name, held)
        self._evaluator = evaluator
        self._gate = evaluator.gate.name
        if evaluator.ledger is not None:
            self.client = manager.leader_client
        self._releases = manager.metrics.counter("tollbar_gate_releases_total").labels(self._gate)

    def case(self, pod: Object, refusal: Refusal | None, now: float) -> GateCase:
        return GateCase(self._evaluator, pod, refusal, now)

    def sending(self, key: Key, case: GateCase, plan: Plan) -> AbstractContextManager[None]:
        ledger = self._evaluator.ledger
        return ledger.sending(case.pod) if ledger is not None else super().sending(key, case, plan)

    def done(self, key: Key, case: GateCase, plan: Plan) -> None:
        if (failure := case.failure) is not None:
            self._evaluator.report(failure, key)
        if plan.released:
            self._releases.inc()
            because = [*map(str, plan.because)]
            _log.info("Released", extra={"gate": self._gate, "object": str(key), "because": because})


def _index(gate: Gate, place: int) -> str:
    return f"{gate.name} {place}"


def _indexer(gate: Gate, reads: Reads) -> Callable[[Object], Iterable[Hashable]]:
    """What the Pod reads of one kind, while it has the gate; nothing of a Pod for which the class raises."""

    def index(pod: Object) -> Iterable[Hashable]:
        if gate.name not in pods.gate_names(pod):
            return ()
        try:
            return set(reads.of_pod(pod))
        except Exception:  # whatever code of others raises: the reconcile reports it
            return ()

    return index


def _reading(held: Store, index: str, reads: Reads) -> Callable[[Delta], Iterable[Key]]:
    def pods_that_read(delta: Delta) -> Iterable[Key]:
        for obj in delta.objects:
            values = reads.cached.indexers[reads.by](obj) if reads.by else (key_of(obj),)
            for value in values:
                yield from held.keys_by_index(index, value)

    return pods_that_read


def _changed(delta: Delta) -> bool:
    """Whether the Pod changed in anything but its resourceVersion and its status's conditions."""
    if delta.old is None or delta.new is None:
        return True
    return _decided_by(delta.old) != _decided_by(delta.new)


def _decided_by(pod: Object) -> object:
    meta = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
    status = {name: value for name, value in (pod.get("status") or {}).items() if name != "conditions"}
    return meta, spec(pod), status


def _namespace_changed(delta: Delta) -> bool:
    if delta.old is None or delta.new is None:
        return True
    return any(of(delta.old) != of(delta.new) for of in (labels_of, annotations_of))
