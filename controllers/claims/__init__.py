"""ResourceClaims in place of kube-controller-manager (`claims: Replace`): creates them from templates, reserves them
for Pods that were bound without a scheduler, deallocates and deletes them when their Pods are done.

Hazard: down, Pods that need a generated claim wait and devices of finished Pods stay allocated; doubled, or beside
kube-controller-manager's own controller, the second writer gets conflicts, and the Pods that come before either sees a
claim of the other may have two claims, one of which the garbage collector deletes with the Pod; behind, the same as
down.
"""

from functools import partial

from controllers.claims.competing import CompetingGenerators
from controllers.claims.counts import ClaimCounts
from controllers.claims.deps import Deps
from controllers.claims.mappers import ClaimKey, WorkOf
from controllers.claims.reconcile import reconcile
from controllers.claims.takeover import TakeoverRunner
from controllers.claims.unseen import Existing, UnseenClaims
from tollbar.runtime.asking import Asker
from tollbar.runtime.builder import Builder
from tollbar.runtime.manager import Manager
from tollbar.views import kinds
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.lookup import ClaimLookup
from tollbar.views.takeover import Takeover


def setup(manager: Manager, takeover: Takeover, tolerations: DeviceTolerations) -> TakeoverRunner:
    """Pods, PodGroups and claims are reconciled when there is something to do about them.

    The controller works only while `takeover` tells that nobody else generates claims.  `tolerations` are those that
    claims get by rules.
    """
    lookup = ClaimLookup(manager.caches.store)
    ClaimCounts(lookup.claims, manager.clock).expose(manager.metrics)
    manager.health.ready("claims", takeover.readiness)
    unseen = UnseenClaims(manager.client, manager.reading, lookup.claims)
    competing = CompetingGenerators(lookup.claims, manager.clock)
    deps = Deps(
        manager=manager,
        lookup=lookup,
        unseen=unseen,
        competing=competing,
        asker=Asker(manager.client, manager.reading, {Existing: unseen.show}),
        pending=manager.caches.store(kinds.PENDING_PODS),
        recorder=manager.recorder("claims"),
        takeover=takeover,
        tolerations=tolerations,
    )
    work_of = WorkOf(lookup)
    controller = (
        Builder[ClaimKey](manager, "claims", queue="resource_claim")
        .watches(lookup.consumers, work_of.pod, initial=True)
        .watches(lookup.claims, work_of.claim, initial=True)
        .watches(lookup.pod_groups, work_of.pod_group, initial=True)
        .watches(lookup.templates, work_of.template)
        .build(partial(reconcile, deps=deps), workers=manager.configuration.workers)
    )
    runner = TakeoverRunner(manager, takeover, unseen, competing, controller)
    manager.leads("controller claims", runner.run)
    return runner
