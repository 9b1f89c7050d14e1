"""The one table of what wakes whom: kind -> predicate -> mapper -> controller.

Read by `controllers.__main__`, which subscribes it to the caches.  A predicate says whether a change can change a
decision, a mapper whose.  Nothing else adds keys to a queue, apart from retries and the rules' own counts.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from controllers import mappers, predicates
from tollbar.model.objects import Key
from tollbar.runtime.store import Delta, Store
from tollbar.runtime.workqueue import LIVE, RELIST, WorkQueue
from tollbar.views.caches import PodCaches

Predicate = Callable[[Delta, PodCaches], bool]
Mapper = Callable[[Delta, PodCaches], Iterable[Key]]


COUNTING: Final = 1.0
"""Seconds in which changes of a mere count are collected: every Pod of a burst makes one, one look sees them all."""


@dataclass(frozen=True, slots=True)
class Route:
    """`store` names an attribute of the caches, `controller` a queue; `after` are seconds that the keys wait first."""

    store: str
    predicate: Predicate
    mapper: Mapper
    controller: str
    after: float = 0.0


def always(_delta: Delta, _caches: PodCaches) -> bool:
    return True


ROUTES: Final = (
    Route("pods", predicates.pod_matters, mappers.itself, "gates"),
    Route("claims", predicates.claim_matters, mappers.pods_of_claim, "gates"),
    Route("templates", predicates.template_matters, mappers.pods_of_template, "gates"),
    Route("classes", predicates.class_matters, mappers.pods_of_class, "gates"),
    Route("namespaces", predicates.namespace_matters, mappers.pods_of_namespace, "gates"),
    Route("rules", predicates.spec_matters, mappers.pods_of_rule, "gates"),
    Route("gates", predicates.spec_matters, mappers.held_pods, "gates"),
    Route("rules", predicates.spec_matters, mappers.itself, "rules"),
    Route("webhooks", always, mappers.every_rule, "rules"),
    Route("gates", always, mappers.itself, "watchdog"),
    Route("pods", predicates.gates_changed, mappers.declared_gates, "watchdog", after=COUNTING),
)


def subscribe(caches: PodCaches, queues: Mapping[str, WorkQueue[Key]]) -> None:
    """Connect every route.  Call it once, when there is somebody to drain the queues.

    What is in the caches by then is itself added to the queues; whom else it would wake is there as well.
    """
    for route in ROUTES:
        store: Store = attrgetter(route.store)(caches)
        store.subscribe(_handler(route, caches, queues[route.controller]), replay=route.mapper is mappers.itself)


def _handler(route: Route, caches: PodCaches, queue: WorkQueue[Key]) -> Callable[[Delta], None]:
    def on_delta(delta: Delta) -> None:
        if route.predicate(delta, caches):
            for key in route.mapper(delta, caches):
                if route.after:
                    queue.add_after(key, route.after)
                else:
                    queue.add(key, priority=RELIST if delta.initial else LIVE)

    return on_delta
