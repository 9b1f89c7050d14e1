"""Builds a controller from its watches, the stores that it needs and its reconcile function (as controller-runtime).

    Builder[Key](manager, "watchdog").watches(gates, itself, initial=True).complete(reconcile, workers=2)

Apart from retries, only these watches add keys to the controller's queue.
"""

from collections.abc import Awaitable, Callable, Hashable, Iterable
from typing import Generic, TypeVar

from tollbar.model.plan import Outcome
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Source, Watch, always
from tollbar.runtime.store import Store
from tollbar.runtime.workqueue import LIVE, WorkQueue

E = TypeVar("E")
K = TypeVar("K", bound=Hashable)


class Builder(Generic[K]):
    """One controller of this manager; `queue` names its queue in the metrics, by default as the controller."""

    def __init__(self, manager: Manager, name: str, *, queue: str = "") -> None:
        self._manager = manager
        self._name = name
        self._queue = queue or name
        self._watches: list[Watch[object, K]] = []
        self._needs: list[Store] = []

    def watches(
        self,
        source: Source[E],
        mapper: Callable[[E], Iterable[K]],
        *,
        predicate: Callable[[E], bool] = always,
        initial: bool | Callable[[], Iterable[K]] = False,
        delay: float = 0.0,
        priority: int = LIVE,
    ) -> "Builder[K]":
        """Queue the keys that `mapper` returns for events of the source that pass `predicate` (see `Watch`)."""
        self._watches.append(Watch(source, mapper, predicate, initial, delay, priority))  # type: ignore[arg-type]
        return self.needs(source) if isinstance(source, Store) else self

    def needs(self, *stores: Store) -> "Builder[K]":
        """Start only when these stores and all watched ones have synced."""
        self._needs += (store for store in stores if store not in self._needs)
        return self

    def build(self, reconcile: Callable[[K], Awaitable[Outcome]], *, workers: int) -> Controller[K]:
        """The controller, which the caller has to run."""
        manager = self._manager
        return Controller(
            self._name,
            queue=WorkQueue(self._queue, clock=manager.clock, metrics=manager.metrics),
            reconcile=reconcile,
            watches=tuple(self._watches),
            needs=tuple(self._needs),
            workers=workers,
            metrics=manager.metrics,
            clock=manager.clock,
            grace=manager.grace,
        )

    def complete(self, reconcile: Callable[[K], Awaitable[Outcome]], *, workers: int) -> Controller[K]:
        """The controller, registered to run while this process leads."""
        controller = self.build(reconcile, workers=workers)
        self._manager.leads(f"controller {self._name}", controller.run)
        return controller
