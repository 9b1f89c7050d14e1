"""The reservations controller as one thing to run: two loops, the watches of workloads, the detector, its events."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from controllers.reservations import mappers, reconcile, workloadclaims
from controllers.reservations.states import States
from controllers.reservations.workloads import Workloads
from controllers.status import StatusWriter
from tollbar.model.objects import Key, key_of
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.controller import Controller
from tollbar.runtime.detection import ServerVersion, described
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.caches import ClaimCaches
from tollbar.views.oscillations import Oscillations

_log: Final = logging.getLogger(__name__)

_WORKERS: Final = 8
"""Claims of workloads are few; a worker may wait for the first list of a kind."""
_STATUS_WORKERS: Final = 2
_KEEPS_ENTRIES: Final = (1, 36)
"""The Kubernetes from which on the claim controller keeps entries that are not Pods' and goes on
(kubernetes/kubernetes#136450)."""


async def run(
    client: Client,
    caches: ClaimCaches,
    *,
    states: States,
    oscillations: Oscillations,
    hot_loop: Callable[[], bool],
    replaces: Callable[[], bool],
    replaces_changed: Callable[[Callable[[], None]], None],
    instance: str,
    clock: Clock,
    rng: Random,
    metrics: Metrics,
) -> None:
    """Work until cancelled.  The caches are filled, and this process leads.

    `hot_loop`: whether kube-controller-manager's own claim controller may run beside us; `replaces`: whether we are to
    take its place, and have not found it at work; `replaces_changed` takes what is to be called when that changes.
    """
    _log.info("reservations begin", extra={"hotLoop": hot_loop(), **await described(client)})
    queues = {name: WorkQueue[Key](name, clock=clock, metrics=metrics) for name in ("reservations", "workloadclaims")}
    recorder = Recorder(client, controller="reservations", instance=instance, clock=clock, metrics=metrics)
    workloads = Workloads(client, queues["reservations"].add, clock=clock, rng=rng, metrics=metrics)
    server = ServerVersion(client, clock)

    _observe(oscillations, caches, queues["reservations"], metrics)

    def report(claim: Key) -> None:
        for obj in caches.workload_claims.by_index("claim", claim):
            queues["workloadclaims"].add(key_of(obj))

    states.subscribe(report)
    mappers.subscribe(caches, queues)
    replaces_changed(partial(mappers.replay, caches, queues["reservations"]))
    status = StatusWriter(client, caches.workload_claims, recorder, clock)
    reconcilers = {
        "reservations": partial(
            reconcile.reconcile,
            deps=reconcile.Deps(
                client,
                caches,
                recorder,
                workloads,
                states,
                oscillations,
                hot_loop,
                replaces,
                wedged_by_pins=partial(server.is_before, _KEEPS_ENTRIES),
            ),
        ),
        "workloadclaims": partial(
            workloadclaims.reconcile, deps=workloadclaims.Deps(client, caches, states, status, clock)
        ),
    }
    async with asyncio.TaskGroup() as running:
        running.create_task(recorder.run(), name="event recorder of reservations")
        running.create_task(workloads.run(), name="watches of workloads")
        for name, reconciler in reconcilers.items():
            loop = Controller(
                name,
                queue=queues[name],
                reconcile=reconciler,
                workers=_WORKERS if name == "reservations" else _STATUS_WORKERS,
                metrics=metrics,
                clock=clock,
            )
            running.create_task(loop.run(), name=f"controller {name}")


def _observe(oscillations: Oscillations, caches: ClaimCaches, queue: WorkQueue[Key], metrics: Metrics) -> None:
    """Every claim, also those that nobody wants to keep: what is found is said on the claim."""
    found = metrics.counter("tollbar_claim_oscillations_total")
    metrics.gauge("tollbar_claims_oscillating").set_function(oscillations.count)

    def report(claim: Key) -> None:
        found.inc()
        queue.add(claim)

    oscillations.subscribe(report)
    oscillations.watch(caches.claims)
