"""Gates: removes Tollbar's scheduling gate from Pods and adds their tolerations, also those that admission missed.

Hazard: down, gated Pods wait and new ones are gated until it is back; doubled, the second patch fails its `test` and
nothing is written twice; behind, Pods start late, but never on a wrong node.
"""

from controllers.gates.mappers import PodsOf
from controllers.gates.predicates import Predicates
from controllers.gates.reconcile import TolerationLoop
from tollbar import wellknown
from tollbar.decide.pods import overdue
from tollbar.model.objects import Key, Object
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import itself, spec_changed
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches


def setup(manager: Manager, gatherer: Gatherer, matches: Matches) -> Controller[Key]:
    """Pods without a node are reconciled after every change that can affect the decision about them."""
    pods, lookup = manager.caches.store(kinds.PENDING_PODS), gatherer.lookup
    _expose(manager, pods, gatherer)
    expected: dict[Key, Object] = {}
    when, pods_of = Predicates(gatherer.ruleset, expected), PodsOf(pods, gatherer)
    loop = TolerationLoop(manager, pods, gatherer, matches, expected)
    return (
        Builder[Key](manager, "gates")
        .watches(pods, itself, predicate=when.pod, initial=pods.keys)
        .watches(lookup.claims, pods_of.claim, predicate=when.claim)
        .watches(lookup.templates, pods_of.template, predicate=when.template)
        .watches(lookup.classes, pods_of.device_class, predicate=when.device_class)
        .watches(lookup.namespaces, pods_of.namespace, predicate=when.namespace)
        .watches(gatherer.rules, pods_of.rule, predicate=spec_changed)
        .watches(gatherer.gates, pods_of.gate, predicate=spec_changed)
        .complete(loop.reconcile, workers=manager.configuration.workers)
    )


def _expose(manager: Manager, pods: Store, gatherer: Gatherer) -> None:
    """The metrics of held Pods.  The histogram is there from the start: alerts ask whether its count grows."""
    metrics = manager.metrics

    def overdue_namespaces() -> int:
        held_in = pods.values_of_index("held-in")
        since = {namespace: map(pods.created, pods.keys_by_index("held-in", namespace)) for namespace in held_in}
        return len(overdue.namespaces(since, gatherer.gate_policy(), manager.clock.now()))

    metrics.gauge("tollbar_gated_pods").set_function(lambda: len(pods.keys_by_index("gate", wellknown.GATE)))
    metrics.gauge("tollbar_overdue_namespaces").set_function(overdue_namespaces)
    metrics.histogram("tollbar_gate_hold_seconds")
