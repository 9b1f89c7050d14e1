"""What becomes of a Pod at its creation by a gate class, and what the API server is told of the class."""

from collections.abc import Callable
from typing import Any

import pytest
from fakes.engine import FakeEngine
from objects import patching
from objects.builders import Pod, namespace, pod
from objects.reviews import about_pod
from unit.gates.zones import BATCH, ZONE, Closed, Reporting, Zone, config_map, saying

from tollbar.api import webhooks
from tollbar.gates import Gate, Release
from tollbar.gates.evaluation import GateEvaluator, webhook_of
from tollbar.model.objects import Object
from tollbar.runtime import config
from tollbar.runtime.caches import Caches
from tollbar.runtime.metrics import Metrics
from tollbar.views.gatherer import Gatherer
from webhooks.gates import GateHandler
from webhooks.review import Answer

NEW = pod().being_created().labelled(BATCH)
ML, MAP = namespace(), config_map()
GATED = ({"op": "add", "path": "/spec/schedulingGates", "value": [{"name": Zone.name}]},)
PLACED = ({"op": "add", "path": "/spec/nodeSelector", "value": {ZONE: "a"}},)


class Webhook:
    """The handler of one class over these objects, which are listed unless it is `late`."""

    def __init__(self, gate: Gate, objects: tuple[Object, ...], *, releasing: bool = True, late: bool = False) -> None:
        caches, self.metrics = Caches(), Metrics()
        evaluator = GateEvaluator(
            gate, caches.store, Gatherer(caches.store, config.load(None, {}), FakeEngine()), self.metrics
        )
        self._handler = GateHandler(evaluator, metrics=self.metrics, releasing=lambda: releasing)
        for store in caches.stores.values():
            for obj in objects:
                if store.resource.kind == obj["kind"]:
                    store.apply(obj)
            if not late:
                store.synced.set()

    def __call__(self, created: Object, **more: Any) -> Answer:
        return self._handler(about_pod(created, **more))

    def counted(self, metric: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric, {"gate": Zone.name, **labels})


def raising(_: Any) -> Any:
    raise OSError("no disk")


NOBODY = f"tollbar: {Zone.name}: not held, because no controller could release it: key zone of ConfigMap ml/zone"
CASES: dict[str, tuple[Callable[[], Webhook], Pod, Answer]] = {
    "it is decided at once": (lambda: Webhook(Zone(), (ML, MAP)), NEW, Answer(PLACED)),
    "it is decided, and whoever creates it is told something": (
        lambda: Webhook(saying(lambda _: Release(warnings=("mind the zone",))), (ML,)),
        NEW,
        Answer(warnings=(f"tollbar: {Zone.name}: mind the zone",)),
    ),
    "it is held": (lambda: Webhook(Zone(), (ML,)), NEW, Answer(GATED)),
    "it is not the gate's business": (lambda: Webhook(Zone(), (ML, MAP)), pod().being_created(), Answer()),
    "a Pod of an unknown namespace is held": (lambda: Webhook(Zone(), (MAP,)), NEW, Answer(GATED)),
    "it has the gate already": (lambda: Webhook(Zone(), (ML, MAP)), NEW.gated(Zone.name), Answer()),
    "it has a gate of somebody else": (
        lambda: Webhook(Zone(), (ML,)),
        NEW.gated("a.dev/x"),
        Answer(({"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": Zone.name}},)),
    ),
    "it opts out": (lambda: Webhook(Zone(), (ML,)), NEW.labelled({"tollbar.dev/skip": "true"}), Answer()),
    "nobody could release it": (
        lambda: Webhook(Zone(), (ML,), releasing=False),
        NEW,
        Answer(warnings=(NOBODY,)),
    ),
    "nobody could release it, and the class does not fail open": (
        lambda: Webhook(Closed(), (ML,), releasing=False),
        NEW,
        Answer(GATED),
    ),
    "the caches are not there yet": (lambda: Webhook(Zone(), (ML, MAP), late=True), NEW, Answer()),
    "the caches are not there yet, and the class does not fail open": (
        lambda: Webhook(Closed(), (ML, MAP), late=True),
        NEW,
        Answer(GATED),
    ),
    "the class raises": (lambda: Webhook(saying(raising), (ML, MAP)), NEW, Answer(GATED)),
}


@pytest.mark.parametrize(("webhook", "created", "answer"), CASES.values(), ids=CASES)
def test_answer(webhook: Callable[[], Webhook], created: Pod, answer: Answer) -> None:
    assert webhook()(created) == answer


@pytest.mark.parametrize("objects", [(ML, MAP), (ML,)], ids=["changed", "gated"])
def test_a_pod_that_is_reviewed_again_gets_nothing_more(objects: tuple[Object, ...]) -> None:
    webhook = Webhook(Zone(), objects)
    once = Pod(patching.apply(NEW, webhook(NEW).patch))
    assert patching.apply(once, webhook(once).patch) == once


def test_decisions_and_failures_are_counted_but_not_in_a_dry_run() -> None:
    webhook = Webhook(saying(raising), (ML, MAP))
    webhook(NEW)
    webhook(NEW, dryRun=True)
    counted = webhook.counted("tollbar_gate_decisions_total", decision="gated")
    assert (counted, webhook.counted("tollbar_gate_errors_total", reason="Raised")) == (1, 1)


def test_each_class_has_a_webhook_of_its_own() -> None:
    told = [webhook_of(each) for each in (Reporting(), Closed())]
    found = webhooks.gates_configuration(webhooks.at_service(), told)
    brief = [
        (each["name"], each["clientConfig"]["service"]["path"], each["failurePolicy"], each["matchConditions"][-1])
        for each in found["webhooks"]
    ]
    applies = {"name": "applies", "expression": Zone.applies_to}
    assert brief == [
        ("zone.gates.example.com", "/gates/example.com/zone", "Ignore", applies),
        ("zone.gates.tollbar.dev", "/gates/tollbar.dev/zone", "Fail", applies),
    ]


def test_a_class_may_be_asked_about_in_some_namespaces_only() -> None:
    enrolled = {"key": "example.com/enrolled", "operator": "Exists"}
    found = webhooks.gates_configuration(webhooks.at_service(), [webhook_of(saying(raising, namespaces=[enrolled]))])
    (webhook,) = found["webhooks"]
    *ours, theirs = webhook["namespaceSelector"]["matchExpressions"]
    assert ([each["key"] for each in ours], theirs) == (["kubernetes.io/metadata.name", "tollbar.dev/skip"], enrolled)
