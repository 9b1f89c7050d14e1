"""Rules: reports in the status of each TolerationRule whether it is in force and which Pods it matches.

Hazard: down or behind, only statuses are stale; doubled, the same status is written twice.
"""

from collections.abc import Iterable
from functools import partial

from controllers.rules.reconcile import Deps, reconcile
from controllers.status import COUNTING, STATUS_WORKERS, StatusWriter
from tollbar.model.objects import Key, key_of
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.detection import KeptTolerations
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Delta, itself, key_itself, spec_changed
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches


def setup(manager: Manager, gatherer: Gatherer, matches: Matches, kept: KeptTolerations) -> Controller[Key]:
    """A rule is reconciled when it, its count of Pods or a webhook configuration changes, and when the API server
    begins or ceases to keep tolerations of devices."""
    webhooks = manager.caches.store(kinds.WEBHOOKS)
    deps = Deps(manager, gatherer, webhooks, matches, StatusWriter(manager, gatherer.rules, "gates"), kept)

    def every_rule(_: Delta | bool) -> Iterable[Key]:
        return map(key_of, gatherer.rules.values())

    return (
        Builder[Key](manager, "rules")
        .watches(gatherer.rules, itself, predicate=spec_changed, initial=True)
        .watches(webhooks, every_rule)
        .watches(kept.changes, every_rule)
        .watches(matches.changes, key_itself, delay=COUNTING)
        .needs(manager.caches.store(kinds.PENDING_PODS))
        .complete(partial(reconcile, deps=deps), workers=STATUS_WORKERS)
    )
