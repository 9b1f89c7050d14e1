"""Evaluates a gate class for a Pod: gathers the facts from the stores that it reads, asks it, and checks the answer.

A class may come from another package: an exception, or a change that the API server would refuse, becomes a `Failure`
that names the class, and the Pod is held as its SchedulingGate says.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

import orjson

from tollbar import wellknown
from tollbar.api.webhooks import GateWebhook
from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.decide.pods.events import GateFailure
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, UNLIMITED, GatePolicy
from tollbar.gates.explanation import ClusterCopy, Section
from tollbar.gates.gate import Facts, Gate, Ledger, Reads
from tollbar.gates.guarded import guarded
from tollbar.model import pods
from tollbar.model.fields import printable
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import SCHEDULING_GATES
from tollbar.runtime.caches import Cached
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.views.gatherer import Gatherer, policy_of

_log: Final = logging.getLogger(__name__)

_SHOWN: Final = 200
"""Characters of what a gate raised that are told."""


@dataclass(frozen=True, slots=True)
class Failure:
    """`why` names the class."""

    reason: GateFailure
    why: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The checked answer of a gate for a Pod; with a failure it is a Hold."""

    answer: Answer
    failure: Failure | None = None


class GateEvaluator:
    """One gate with the stores that it reads."""

    def __init__(
        self,
        gate: Gate,
        store: Callable[[Cached], Store],
        gatherer: Gatherer,
        metrics: Metrics,
        ledger: Ledger | None = None,
    ) -> None:
        """`store` is `Caches.store`; the `ledger` answers in place of the gate."""
        self.gate = gate
        self.ledger = ledger
        self.gatherer = gatherer
        self._errors = metrics.counter("tollbar_gate_errors_total")
        self._told = ""
        declared = (replace(each, cached=guarded(each.cached, self._not_cached)) for each in gate.reads)
        self._stores = [(each, store(each.cached)) for each in declared]

    @property
    def stores(self) -> list[Store]:
        """The stores that must have synced before a decision."""
        return [self.gatherer.lookup.namespaces, self.gatherer.gates, *(store for _, store in self._stores)]

    @property
    def synced(self) -> bool:
        return all(store.synced.is_set() for store in self.stores)

    @property
    def policy(self) -> GatePolicy:
        """Of the SchedulingGate; as the class has it while there is none."""
        return self.gatherer.gate_policy(self.gate.name, default_policy(self.gate))

    def reads(self) -> Iterator[tuple[Reads, Store]]:
        """The rows of `Gate.reads`, each with its store."""
        yield from self._stores

    def evaluate(self, pod: Object, *, at_admission: bool = False) -> Evaluation:
        """The answer of the gate for this Pod.  Raises nothing."""
        return self._evaluation(pod, (self.ledger or self.gate).decide, at_admission=at_admission)

    def explain(self, pod: Object, copy: ClusterCopy) -> tuple[Evaluation, Sequence[Section]]:
        """The answer for this Pod on the copy, with the tables of the class.  Raises nothing."""
        sections: list[Section] = []

        def answer(facts: Facts) -> Answer:
            explanation = self.gate.explain(facts, copy)
            sections.extend(explanation.sections)
            return explanation.answer

        return self._evaluation(pod, answer), sections

    def _evaluation(self, pod: Object, decide: Callable[[Facts], Answer], *, at_admission: bool = False) -> Evaluation:
        name = key_of(pod).namespace
        namespace = self.gatherer.lookup.namespace(name)
        if namespace is None:
            return Evaluation(Hold("NamespaceUnknown", f"Namespace {name}"))
        try:
            answer = decide(Facts(pod, namespace, at_admission, self._objects(pod)))
            wrong = _wrong(pod, answer, self.gate.name, gated=at_admission or bool(pods.gate_names(pod)))
        except Exception as error:  # whatever code of others raises
            return self._failed(GateFailure.RAISED, _raised(error))
        return self._failed(GateFailure.FORBIDDEN, wrong) if wrong else Evaluation(answer)

    async def begun(self) -> None:
        """Return once the ledger has begun; one that raises counts as begun, and is counted and logged."""
        try:
            if self.ledger is not None:
                await self.ledger.begun()
        except Exception as error:  # whatever code of others raises
            self._errors.labels(self.gate.name, GateFailure.RAISED).inc()
            self._log("the ledger of a gate class failed", self._why(_raised(error)))

    def report(self, failure: Failure, pod: Key) -> None:
        """Count and log it."""
        self._errors.labels(self.gate.name, failure.reason).inc()
        self._log("a gate class failed", failure.why, object=str(pod))

    def _objects(self, pod: Object) -> dict[str, list[Object]]:
        """Each object once, in the order of what the Pod reads."""
        found: dict[str, dict[Key, Object]] = {}
        for each, store in self._stores:
            found.setdefault(each.cached.name, {}).update((key_of(obj), obj) for obj in _read(pod, each, store))
        return {name: list(objects.values()) for name, objects in found.items()}

    def _not_cached(self, obj: Object, error: Exception) -> None:
        """The class raised for an object to be cached.  The log tells it once for objects that have the same error."""
        self._errors.labels(self.gate.name, GateFailure.RAISED).inc()
        why = self._why(_raised(error))
        if why != self._told:
            self._told = why
            self._log("a gate class failed for an object that it reads", why, object=str(key_of(obj)))

    def _log(self, message: str, why: str, **about: str) -> None:
        _log.error(message, extra={"gate": self.gate.name, "class": class_name(self.gate), **about, "error": why})

    def _failed(self, reason: GateFailure, what: str) -> Evaluation:
        why = self._why(what)
        return Evaluation(Hold(reason, f"{why}; this needs its author"), Failure(reason, why))

    def _why(self, what: str) -> str:
        return f"gate class {class_name(self.gate)} {printable(what)[:_SHOWN]}"


class Evaluated:
    """A mixin of cases: their answer is that of the gate class, which is evaluated once."""

    evaluator: GateEvaluator
    pod: Object
    at_admission = False

    @cached_property
    def evaluation(self) -> Evaluation:
        return self.evaluator.evaluate(self.pod, at_admission=self.at_admission)

    @cached_property
    def answer(self) -> Answer:
        return self.evaluation.answer

    @property
    def failure(self) -> Failure | None:
        """Of the class, if it was evaluated: it is not for a Pod that Tollbar leaves alone."""
        return self.evaluation.failure if "evaluation" in vars(self) else None


def _raised(error: Exception) -> str:
    return f"raised {type(error).__name__}: {error}"


def class_name(gate: Gate) -> str:
    """The class by its module and name, for its author."""
    return f"{type(gate).__module__}.{type(gate).__qualname__}"


def declaration(gate: Gate, owners: Sequence[str]) -> Object:
    """The SchedulingGate of a class, as the controllers create it."""
    body: Object = {"gateName": gate.name, "owners": list(owners), "onExpiry": gate.on_expiry}
    if gate.max_hold is not None:
        body["maxHold"] = gate.max_hold
    meta = {"name": declaration_name(gate), "labels": {"app.kubernetes.io/name": "tollbar"}}
    return {**SCHEDULING_GATES.type_meta, "metadata": meta, "spec": body}


def declaration_name(gate: Gate) -> str:
    """The name of that SchedulingGate."""
    return gate.name.replace("/", ".")


def webhook_of(gate: Gate) -> GateWebhook:
    """The webhook of the class, as registered with the API server."""
    return GateWebhook(gate.name, gate.applies_to, gate.fails_open, gate.namespaces)


def default_policy(gate: Gate) -> GatePolicy:
    """The policy that the class declares, which applies while there is no valid SchedulingGate."""
    return GatePolicy(gate.max_hold_seconds, release_on_expiry=gate.on_expiry == "Release")


def default_policies(classes: Iterable[Gate]) -> Mapping[str, GatePolicy]:
    """By the name of the gate, the policies that hold where no valid SchedulingGate says otherwise.

    They are those of these gate classes, and that of Tollbar's own gate.
    """
    return {wellknown.GATE: SHIPPED_GATE_POLICY, **{each.name: default_policy(each) for each in classes}}


def policy_in_force(name: str, declared: Object, defaults: Mapping[str, GatePolicy]) -> GatePolicy:
    """The policy of the gate of this name by its SchedulingGate, valid or not; `defaults` are `default_policies`."""
    return policy_of(declared, defaults.get(name, UNLIMITED))


def _read(pod: Object, reads: Reads, store: Store) -> Iterator[Object]:
    for value in dict.fromkeys(reads.of_pod(pod)):
        found = store.by_index(reads.by, value) if reads.by else [store.get(value)]  # type: ignore[arg-type]
        yield from (obj for obj in found if obj is not None)


def _wrong(pod: Object, answer: Any, gate: str, *, gated: bool) -> str:
    """What is wrong with this answer; empty if it is valid."""
    match answer:
        case NotMine():
            return ""
        case Hold(reason, subject) if not (reason and subject):
            return "answered Hold without saying what the Pod waits for"
        case Hold(otherwise=release) | (Release() as release):
            errors = mutations.errors(pod, release.mutation, gated=gated)
            if errors:
                return f"asks for a change that the API server refuses: {'; '.join(map(str, errors))}"
            try:
                orjson.dumps(mutations.patch(pod, release.mutation, gate=gate, action="keep", fenced=False))
            except orjson.JSONEncodeError as error:
                return f"asks for a change that is not JSON: {error}"
            return ""
        case _:
            return f"answered {type(answer).__name__}, which is neither Hold, Release nor NotMine"
