"""The manager of a process, as in controller-runtime: client, caches, clock, metrics, health checks, leader election.

Each `setup` function gets the manager, declares the stores that it reads and registers what it runs.  `phases` then
lists the services of the process in the order in which they start; they stop in reverse (`tollbar.runtime.chassis`).

Every replica fills its caches; only the leader runs what is registered with `leads`.  A leader that loses the lease
ends that, keeps its caches and is a standby again; so what leads may begin several times in a process, and has to begin
each time as if the process had just started.
"""

import asyncio
import os
import random
import socket
import uuid
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Final, TypeAlias

from tollbar.model.objects import Object
from tollbar.runtime import asking, collector, creating
from tollbar.runtime.budget import Budget
from tollbar.runtime.caches import Caches, listed
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import Configuration
from tollbar.runtime.events import Recorder
from tollbar.runtime.health import Health, LoopLag
from tollbar.runtime.leader import Elector
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.metricsauth import MetricsAuth
from tollbar.runtime.service import Background, LeaderServices, Service

Run: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
"""Something that runs until it is cancelled."""

_FILLED_WITHIN: Final = 600.0
"""Seconds for which the garbage collector spares what caches are filled with, at most."""
_LOOK_EVERY: Final = 60.0
"""Seconds between two looks of the garbage collector where no events of watches ask for any."""
_GRACE: Final = 4.0
"""Seconds for which what leads may finish what it has begun, at most."""


class Manager:
    """One process.  `instance` names it uniquely, for Events and the Lease."""

    def __init__(
        self,
        configuration: Configuration,
        client: Client,
        metrics: Metrics,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        budget: Budget | None = None,
    ) -> None:
        """`budget` limits the memory of the caches (`Caches`)."""
        self.configuration = configuration
        self.client = client
        self.metrics = metrics
        self.clock = clock or SystemClock()
        self.rng = rng or random.Random()
        # The manifests set POD_NAME: Pods with hostNetwork share the name of their host.
        self.instance = f"{os.environ.get('POD_NAME') or socket.gethostname()}-{uuid.uuid4().hex[:8]}"
        self.caches = Caches(budget)
        self.reading = asyncio.Semaphore(asking.AT_ONCE)
        """Within it whoever reads what tenants make has it in memory (`tollbar.runtime.asking`)."""
        self.listing = asyncio.Semaphore(1)
        """The same for whoever lists before anything is granted: no tenant's reads keep it from coming to an end."""
        self.creating = asyncio.Semaphore(creating.AT_ONCE)
        """Within it whoever creates what may be large has it as text (`tollbar.runtime.creating`)."""
        self.health = Health(metrics)
        self.lease_annotations: dict[str, str] = {}
        """Annotations that the holder of the Lease writes on it with every renewal."""
        self.lease_taken_over: Object = {}
        """The Lease as its last holder left it when this process took it; empty before, and without election."""
        self._recorders: dict[str, Recorder] = {}
        self._background: list[Service] = []
        self._serving: list[Service] = []
        self._leading: dict[str, Run] = {}
        self._elector: Elector | None = None

    @cached_property
    def leader_client(self) -> Client:
        """The client for writes of the leader that no precondition makes safe where two processes make them.

        Such are creations under generated names, and allocations of devices to different claims.  A process that was
        suspended until another one led does not send them: they raise NotLeading.  The API server gives them up when
        this client no longer waits for their answer.
        """
        return self.client.fenced(lambda: self._elector is None or self._elector.may_write)

    def recorder(self, controller: str) -> Recorder:
        """The recorder that reports Events as `tollbar.dev/<controller>`; it runs on every replica."""
        if controller not in self._recorders:
            recorder = Recorder(
                self.client, controller=controller, instance=self.instance, clock=self.clock, metrics=self.metrics
            )
            self._recorders[controller] = recorder
            self.background(f"event recorder of {controller}", recorder.run)
        return self._recorders[controller]

    def background(self, name: str, run: Run) -> None:
        """Run this on every replica until the process ends; it starts after the caches and stops before them."""
        self._background.append(Background(name, run))

    def serves(self, service: Service) -> None:
        """Run this on every replica; it starts after everything in the background and stops before it."""
        self._serving.append(service)

    def leads(self, name: str, run: Run) -> None:
        """Run this while leading, until it is cancelled; again whenever this process leads again."""
        self._leading[name] = run

    @property
    def elects(self) -> bool:
        """Whether the process takes part in leader election."""
        return bool(self._leading) and self.configuration.leader_election.enabled

    def grace(self) -> float:
        """Seconds for which what leads may finish what it has begun when it is cancelled now.

        The process exits if that has not ended before the lease expires (`tollbar.runtime.leader`).
        """
        return _GRACE if self._elector is None else min(_GRACE, self._elector.grace)

    def phases(self, election_client: Client | None = None) -> Sequence[Sequence[Service]]:
        """The services of the process.

        The elector has a client of its own, since one that is paused by a 429 or busy with patches could not renew in
        time.  Without `election_client` this process leads at once.
        """
        self.caches.fill(self.client, clock=self.clock, rng=self.rng, metrics=self.metrics)
        lag = LoopLag(self.clock)
        self.health.alive("event-loop", lag.check)
        self.health.ready("caches", self.caches.unsynced)
        self.health.ready("watches", self.caches.silent)
        addresses = (self.configuration.health.bind_address, self.configuration.metrics.bind_address)
        auth = MetricsAuth(self.client, self.clock) if self.configuration.metrics.secure else None
        lease, work = self._elected(election_client)
        return (
            lease,
            (*self.health.servers(*addresses, auth), Background("event loop lag", lag.run)),
            (Background("reflectors", self._reflect),),
            self._background,
            (*self._serving, *work),
            (self.health.readiness,),
        )

    async def _reflect(self) -> None:
        async with asyncio.TaskGroup() as running:
            running.create_task(self.caches.run())
            await self._collect()

    async def _collect(self) -> None:
        """Have garbage collected where watches have few events, too, and where a kind is never listed."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FILLED_WITHIN):
                await listed(self.caches.needed)
        collector.leave_alone()
        while True:
            await self.clock.sleep(_LOOK_EVERY)
            collector.look()

    def _elected(self, client: Client | None) -> tuple[Sequence[Service], Sequence[Service]]:
        """The services that hold the lease, and those that do the leader's work."""
        if not self._leading:
            return (), ()
        if client is None:
            return (), (Background("controllers", self._lead),)
        election = self.configuration.leader_election
        elector = self._elector = Elector(
            client,
            name=election.lease_name,
            namespace=self.configuration.system_namespace,
            identity=self.instance,
            clock=self.clock,
            rng=self.rng,
            metrics=self.metrics,
            lease=election.lease_duration,
            renew=election.renew_deadline,
            retry=election.retry_period,
            annotations=self.lease_annotations,
            takes_over=self._take_over,
        )
        services = LeaderServices(elector.run, self._lead)
        return (services.lease,), (services.work,)

    def _take_over(self, lease: Object) -> None:
        self.lease_taken_over = lease

    async def _lead(self) -> None:
        async with asyncio.TaskGroup() as running:
            for name, run in self._leading.items():
                running.create_task(run(), name=name)
