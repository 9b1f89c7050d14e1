"""Swaps: finds running Pods that got tolerations by other claims than they run with, tells of them, and evicts them
where that is configured.

Hazard: down or behind, they are found later, and at the latest by the next leader; doubled, they are told of twice: the
second eviction changes nothing.  A Pod whose record was removed is not found.
"""

from functools import partial
from typing import Final

from controllers.swaps.mappers import PodsOf
from controllers.swaps.reconcile import Deps, reconcile
from tollbar.model.objects import Key
from tollbar.runtime.asking import Asker
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.manager import Manager
from tollbar.views import kinds
from tollbar.views.gatherer import Gatherer

_WORKERS: Final = 2
"""A look takes a millisecond and awaits nothing, but for the few Pods that are found."""


def setup(manager: Manager, gatherer: Gatherer) -> Controller[Key]:
    """Bound Pods with a record of Tollbar's are reconciled when they get their Node or their claims are reserved."""
    store = manager.caches.store
    claims, consumers = store(kinds.CLAIMS_WITH_STATUS), store(kinds.CLAIM_CONSUMERS)
    deps = Deps(manager, consumers, gatherer, manager.recorder("gates"), Asker(manager.client, manager.reading))
    pods_of = PodsOf(consumers)
    return (
        Builder[Key](manager, "swaps")
        .watches(consumers, pods_of.pod, initial=True)
        .watches(claims, pods_of.claim, initial=deps.known)
        .needs(*gatherer.stores)
        .complete(partial(reconcile, deps=deps), workers=_WORKERS)
    )
