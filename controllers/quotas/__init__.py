"""Quotas: writes into the status of each PodQuota what of its limits is used, and how many Pods wait for it.

It only reports what the ledger of the gate class has decided (`tollbar.gates.quota`).  Hazard: down, the numbers are
old.
"""

from functools import partial

from controllers.quotas.reconcile import Deps, reconcile
from controllers.status import COUNTING, STATUS_WORKERS, StatusWriter
from tollbar.gates.quota import QuotaLedger
from tollbar.model.objects import Key
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import itself, spec_changed


def setup(manager: Manager, ledger: QuotaLedger) -> Controller[Key]:
    """A PodQuota is reconciled when it changes, and when the ledger has looked at it."""
    deps = Deps(ledger, StatusWriter(manager, ledger.counts.quotas, "gates"), manager.clock)
    return (
        Builder[Key](manager, "quotas")
        .watches(ledger.counts.quotas, itself, predicate=spec_changed, initial=True, delay=COUNTING)
        .watches(ledger.counted, lambda name: (Key("", name),), delay=COUNTING)
        .complete(partial(reconcile, deps=deps), workers=STATUS_WORKERS)
    )
