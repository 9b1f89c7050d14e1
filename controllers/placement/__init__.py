"""Placement: reports in the status of each PlacementRule whether it is in force.

The rules are decided by the gate class `tollbar.gates.placement`.  Hazard: down or behind, only statuses are stale;
doubled, the same status is written twice.
"""

from dataclasses import dataclass

from controllers.status import STATUS_WORKERS, StatusWriter
from tollbar import cel
from tollbar.cel import CelEngine
from tollbar.decide.rules import rulestatus
from tollbar.decide.rules.placements import compile_placement
from tollbar.model.objects import Key
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import itself, spec_changed
from tollbar.runtime.store import Store
from tollbar.views import kinds


def setup(manager: Manager) -> Controller[Key]:
    """A rule is reconciled when its spec changes."""
    rules = manager.caches.store(kinds.PLACEMENT_RULES)
    reconciler = _Reconciler(manager, rules, StatusWriter(manager, rules, "gates"), cel.engine())
    return (
        Builder[Key](manager, "placement rules")
        .watches(rules, itself, predicate=spec_changed, initial=True)
        .complete(reconciler.reconcile, workers=STATUS_WORKERS)
    )


@dataclass(frozen=True, slots=True)
class _Reconciler:
    manager: Manager
    rules: Store
    status: StatusWriter
    engine: CelEngine

    async def reconcile(self, key: Key) -> Outcome:
        rule = self.rules.get(key)
        if rule is None:
            self.status.forget(key)
            return DONE
        now, written = self.manager.clock.now(), self.status.written(key)
        plan = rulestatus.of_placement(rule, compile_placement(rule, self.engine), written, now)
        return await self.status.write(rule, plan)
