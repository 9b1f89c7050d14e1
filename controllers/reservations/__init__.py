"""Reservations: keeps a ResourceClaim for a workload while its Pods come and go; makes claims for WorkloadClaims.

Runs with claims: Complement and with claims: Replace.  Hazard: down, claims stay as they are: the devices of a deleted
workload stay allocated until this is back, and a claim whose last Pod goes before it was reserved loses its devices;
doubled, the second of two equal writes conflicts or changes nothing; behind, the same as down.
"""

from functools import partial
from typing import Final, NamedTuple

from controllers.reservations import reconcile, workloadclaims
from controllers.reservations.mappers import KeptClaimsOf, WorkloadClaimsOf
from controllers.reservations.workloads import Workloads
from controllers.status import STATUS_WORKERS, StatusWriter
from tollbar.decide.claims.reservations import ConsumersOf, IsBefore, LookUp
from tollbar.model.objects import Key
from tollbar.runtime.asking import Asker
from tollbar.runtime.builder import Builder
from tollbar.runtime.controller import Controller
from tollbar.runtime.detection import ServedPodGroups, ServerVersion
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import itself, key_itself
from tollbar.views import kinds
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.evictions import Evictions
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

_WORKERS: Final = 8
"""Reserved claims are few, but each write waits for the API server."""


class Controllers(NamedTuple):
    reservations: Controller[Key]
    workload_claims: Controller[Key]


def setup(
    manager: Manager,
    takeover: Takeover | None,
    states: ReservationStates,
    oscillations: Oscillations,
    tolerations: DeviceTolerations,
) -> Controllers:
    """Two controllers: of claims that are reserved for a workload, and of WorkloadClaims.

    `takeover` tells whether this process generates claims; it is None where kube-controller-manager does.
    `tolerations` are those that claims of WorkloadClaims get by rules.
    """
    store = manager.caches.store
    claims, consumers = store(kinds.CLAIMS_WITH_STATUS), store(kinds.CLAIM_CONSUMERS)
    templates, workload_claims = store(kinds.TEMPLATES), store(kinds.WORKLOAD_CLAIMS)
    pod_groups = store(kinds.POD_GROUPS)
    server = ServerVersion(manager.client, manager.clock)
    workloads = Workloads(manager.client, clock=manager.clock, rng=manager.rng, metrics=manager.metrics)
    manager.leads("watches of workloads", workloads.run)
    manager.metrics.gauge("tollbar_claims_oscillating").set_function(oscillations.count)
    found = manager.metrics.counter("tollbar_claim_oscillations_total")
    oscillations.subscribe(lambda _: found.inc())
    manager.leads("oscillations of claims", oscillations.run)
    evictions = Evictions(claims, consumers)
    deps = reconcile.Deps(
        manager=manager,
        claims=claims,
        consumers=consumers,
        workload_claims=workload_claims,
        pod_groups=pod_groups,
        recorder=manager.recorder("reservations"),
        workloads=workloads,
        states=states,
        oscillations=oscillations,
        evictions=evictions,
        takeover=takeover,
        asker=Asker(
            manager.client,
            manager.reading,
            {
                LookUp: workloads.look_up,
                IsBefore: lambda asked: server.is_before(asked.version),
                ConsumersOf: partial(reconcile.consumers_of, client=manager.client, reading=manager.reading),
            },
        ),
    )
    status = StatusWriter(manager, workload_claims, "reservations")
    claim_deps = workloadclaims.Deps(
        manager=manager,
        claims=claims,
        templates=templates,
        workload_claims=workload_claims,
        pod_groups=pod_groups,
        served=ServedPodGroups(manager.client, manager.clock),
        states=states,
        status=status,
        refusals=workloadclaims.PodGroupRefusals(manager.clock),
        tolerations=tolerations,
        asker=Asker(manager.client, manager.reading),
    )
    kept_claims_of, workload_claims_of = KeptClaimsOf(claims), WorkloadClaimsOf(workload_claims)
    builder = (
        Builder[Key](manager, "reservations")
        .watches(claims, kept_claims_of.claim, initial=True)
        .watches(consumers, kept_claims_of.pod)
        .watches(workload_claims, kept_claims_of.workload_claim)
        .watches(pod_groups, kept_claims_of.pod)
        .watches(workloads.changes, key_itself)
        .watches(oscillations, key_itself, initial=True)
        .watches(evictions.changes, key_itself)
    )
    if takeover is not None:
        builder.watches(takeover.changes, kept_claims_of.any_change)
    return Controllers(
        builder.complete(partial(reconcile.reconcile, deps=deps), workers=_WORKERS),
        Builder[Key](manager, "workloadclaims")
        .watches(workload_claims, itself, initial=True)
        .watches(claims, workload_claims_of.claim)
        .watches(templates, workload_claims_of.template)
        .watches(pod_groups, workload_claims_of.pod_group)
        .watches(states.changes, workload_claims_of.key)
        .complete(partial(workloadclaims.reconcile, deps=claim_deps), workers=STATUS_WORKERS),
    )
