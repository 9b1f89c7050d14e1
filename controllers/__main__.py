"""The controllers process: `python -m controllers`, or `tollbar controllers`.

Puts the parts together: caches and what fills them, one queue and one loop each for gates, rules and the watchdog, the
event recorder, and the elector around everything that writes.  Every replica keeps its caches warm; only the leader
fills its queues, since nothing would ever leave those of a standby.  What wakes whom is in `controllers.routes`.
"""

import asyncio
import os
import random
import socket
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from controllers import routes
from controllers.claims.loop import Claims
from controllers.gates import reconcile as gates
from controllers.gates.refusals import Refusals
from controllers.reservations import loop as reservations
from controllers.reservations.states import States
from controllers.rules import reconcile as rules
from controllers.standing import Standing, waiting
from controllers.status import StatusWriter
from controllers.watchdog import reconcile as watchdog
from controllers.watchdog.declare import declare
from tollbar import cel, wellknown
from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.modes import ModeFacts
from tollbar.model import resources
from tollbar.model.objects import Key, Object, spec
from tollbar.runtime import detection, options, process
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import Configuration
from tollbar.runtime.controller import Controller
from tollbar.runtime.events import Recorder
from tollbar.runtime.health import Health, LoopLag
from tollbar.runtime.leader import Elector
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.process import Connect
from tollbar.runtime.retry import READ
from tollbar.runtime.service import Background, Elected, Service
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.caches import ClaimCaches, PodCaches
from tollbar.views.matches import Matches
from tollbar.views.oscillations import Oscillations
from tollbar.views.reflectors import Reflectors, listed

_STATUS_WORKERS: Final = 2
"""Statuses are few and unhurried: the API's capacity belongs to Pods."""
_LEASE_SILENCE: Final = 60.0
"""Seconds without an answer about the lease after which the process is no use."""


async def assemble(configuration: Configuration, metrics: Metrics, connect: Connect) -> Sequence[Sequence[Service]]:
    """The services of this process, in the order in which they start; they stop in reverse."""
    clock, rng = SystemClock(), random.Random()
    client = await connect()
    caches = await _caches(configuration, client)
    metrics.gauge("tollbar_gated_pods").set_function(lambda: len(caches.pods.by_index("gate", wellknown.GATE)))
    reflectors = Reflectors(client, caches.stores, clock=clock, rng=rng, metrics=metrics)
    # The manifests set POD_NAME; a host's name stands for several Pods when they share its network.
    instance = f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
    recorded = partial(Recorder, client, instance=instance, clock=clock, metrics=metrics)
    recorder, claims_recorder = recorded(controller="gates"), recorded(controller="claims")
    user = await _user_name(client)
    standing = Standing(configuration.claims, clock)
    replacing = _replacing(configuration, client, caches, claims_recorder, standing, instance, clock, metrics)
    states, oscillations = States(metrics), Oscillations(clock)

    def hot_loop() -> bool:
        return replacing is None or not replacing.is_working

    def known(facts: ModeFacts) -> ModeFacts:
        facts = replace(facts, too_old=states.count(ReservedReason.UPSTREAM_TOO_OLD), oscillating=oscillations.count())
        if replacing is None:
            return replace(facts, waiting=waiting(caches, clock.now()))
        return replace(facts, working=replacing.is_working, refused=replacing.refused)

    async def work() -> None:
        await listed(caches.decisive)
        async with asyncio.TaskGroup() as running:
            running.create_task(declare(client, caches.gates, user, clock), name="declare the gate")
            releasing, *loops = _controllers(configuration, client, caches, recorder, user, clock, metrics)
            running.create_task(releasing.run(), name=f"controller {releasing.name}")
            await listed(caches.stores)
            if replacing is not None:
                running.create_task(replacing.run(), name="controller claims")
            for loop in loops:
                running.create_task(loop.run(), name=f"controller {loop.name}")
            if isinstance(caches, ClaimCaches):
                standing.watch(caches.claims)
                running.create_task(standing.run(client, known), name="how claims are looked after")
                reserving = reservations.run(
                    client,
                    caches,
                    states=states,
                    oscillations=oscillations,
                    hot_loop=hot_loop,
                    replaces=lambda: replacing is not None and not replacing.gives_way,
                    replaces_changed=replacing.subscribe if replacing is not None else lambda _: None,
                    instance=instance,
                    clock=clock,
                    rng=rng,
                    metrics=metrics,
                )
                running.create_task(reserving, name="reservations")

    health = Health(metrics)
    lag = LoopLag(clock)
    health.alive("event-loop", lag.check)
    health.ready("caches", reflectors.unsynced)
    health.ready("watches", reflectors.silent)
    health.ready("gate-owner", partial(_owner_problem, caches, user))
    if replacing is not None:
        health.ready("claims", replacing.problem)
    lease, elected = await _elected(configuration, connect, work, instance, standing, health, clock, rng, metrics)
    return (
        lease,
        (*health.servers(configuration.health.bind_address, configuration.metrics.bind_address), lag),
        (Background("reflectors", reflectors.run),),
        (Background("event recorder", recorder.run), Background("claims event recorder", claims_recorder.run)),
        elected,
        (health.readiness,),
    )


async def _caches(configuration: Configuration, client: Client) -> PodCaches:
    """Bound Pods and the claims' statuses are read only where a controller of claims runs."""
    common: dict[str, Any] = {
        "engine": cel.engine(configuration.cel_engine),
        "managed_namespaces": configuration.managed_namespace_selector,
        "system_namespace": configuration.system_namespace,
    }
    match configuration.claims:
        case "Disabled":
            return PodCaches(**common)
        case "Complement":
            return ClaimCaches(**common)
        case _:
            return ClaimCaches(**common, pod_groups=await detection.pod_groups(client) or resources.POD_GROUPS)


def _replacing(
    configuration: Configuration,
    client: Client,
    caches: PodCaches,
    recorder: Recorder,
    standing: Standing,
    instance: str,
    clock: Clock,
    metrics: Metrics,
) -> Claims | None:
    """The ResourceClaim controller, in the mode Replace."""
    if configuration.claims != "Replace" or not isinstance(caches, ClaimCaches):
        return None
    return Claims(
        client,
        caches,
        recorder,
        namespace=configuration.system_namespace,
        instance=instance,
        workers=configuration.workers,
        clock=clock,
        metrics=metrics,
        handed_over=standing.handed_over,
    )


def _controllers(
    configuration: Configuration,
    client: Client,
    caches: PodCaches,
    recorder: Recorder,
    user: str,
    clock: Clock,
    metrics: Metrics,
) -> list[Controller[Key]]:
    """The three loops, the one that releases Pods first, with their queues connected to the caches from here on."""
    queues = {name: WorkQueue[Key](name, clock=clock, metrics=metrics) for name in ("gates", "rules", "watchdog")}
    routes.subscribe(caches, queues)
    matches = Matches(caches.pods)
    matches.subscribe(lambda rule: queues["rules"].add_after(Key("", rule), routes.COUNTING))
    rule_status = StatusWriter(client, caches.rules, recorder, clock)
    gate_status = StatusWriter(client, caches.gates, recorder, clock)
    pods = gates.Deps(client, caches, recorder, metrics, matches, clock, Refusals(caches.pods))
    reconcilers = {
        "gates": partial(gates.reconcile, deps=pods),
        "rules": partial(rules.reconcile, deps=rules.Deps(caches, matches, metrics, clock, rule_status)),
        "watchdog": partial(watchdog.reconcile, deps=watchdog.Deps(caches, clock, gate_status, user)),
    }
    return [
        Controller(
            name,
            queue=queues[name],
            reconcile=reconcile,
            workers=configuration.workers if name == "gates" else _STATUS_WORKERS,
            metrics=metrics,
            clock=clock,
        )
        for name, reconcile in reconcilers.items()
    ]


async def _elected(
    configuration: Configuration,
    connect: Connect,
    work: Callable[[], Awaitable[None]],
    identity: str,
    standing: Standing,
    health: Health,
    clock: Clock,
    rng: random.Random,
    metrics: Metrics,
) -> tuple[Sequence[Service], Sequence[Service]]:
    """The lease's services and the work's; without election the work runs at once."""
    election = configuration.leader_election
    if not election.enabled:
        return (), (Background("controllers", work),)
    elector = Elector(
        # A client of its own: one that waits out a 429, or is full of patches, could not renew.
        await connect(),
        name=election.lease_name,
        namespace=configuration.system_namespace,
        identity=identity,
        clock=clock,
        rng=rng,
        metrics=metrics,
        lease=election.lease_duration,
        renew=election.renew_deadline,
        retry=election.retry_period,
        annotations=standing.annotations,
        takes_over=standing.take_over,
    )
    health.alive("lease", lambda: "no answer about the lease" if elector.answer_age > _LEASE_SILENCE else None)
    elected = Elected(elector.run, work)
    return (elected.lease,), (elected.work,)


async def _user_name(client: Client) -> str:
    """Who the API server takes us for: what SchedulingGate.spec.owners must name."""
    review: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer: Object = await READ(client.create, resources.SELF_SUBJECT_REVIEWS, review)
    return str(answer["status"]["userInfo"]["username"])


def _owner_problem(caches: PodCaches, user: str) -> str | None:
    """Where gate ownership is enforced, a process that is not an owner could release nothing."""
    for gate in caches.gates.by_index("gate-name", wellknown.GATE):
        if user not in (spec(gate).get("owners") or ()):
            return f"{user} is not among the owners of SchedulingGate {gate['metadata']['name']}"
    return None


command = options.command(
    "controllers",
    partial(process.run, "controllers", assemble),
    help="Run the controllers: release gated Pods, add tolerations late, report on rules.",
    flags=(*options.LEADING, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
