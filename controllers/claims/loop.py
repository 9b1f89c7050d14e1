"""The claims controller as a whole: refuse while something speaks against Replace, then watch, decide and write.

Called by `controllers.__main__` in the mode Replace, when this process leads and its caches are filled.  Refusing is
said four times: in the log, as an Event on Tollbar's namespace, by the readiness check `claims`, and by the condition
on the Lease.  It is tried again every `RETRY` seconds, so that switching kube-controller-manager's controller off is
all that is needed.  When that one is switched on beside us it is the same from there on: our controller does nothing
while another one works, and looks at everything when it is alone again.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from controllers.claims import guard, mappers
from controllers.claims.counts import ClaimCounts
from controllers.claims.deps import Deps
from controllers.claims.guard import Problem
from controllers.claims.handover import HandOver
from controllers.claims.reconcile import reconcile
from controllers.claims.rivals import Rivals
from controllers.claims.view import View
from tollbar.api.reasons import ModeReason
from tollbar.decide.claims import events
from tollbar.model.objects import Object
from tollbar.model.plan import DONE, Outcome
from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.controller import Controller
from tollbar.runtime.errors import ApiError
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.caches import ClaimCaches

_log: Final = logging.getLogger(__name__)

RETRY: Final = 15.0
"""Seconds between two trials while something speaks against working."""
SELDOM: Final = 300.0
"""Seconds, at the most, until what could not be tried beside the work is tried again."""


class Claims:
    """`recorder` must be the claims controller's own; `namespace` is Tollbar's; `instance` names this process.

    `handed_over`: whether another process of ours generated until a moment ago, so that nobody else can.
    """

    def __init__(
        self,
        client: Client,
        caches: ClaimCaches,
        recorder: Recorder,
        *,
        namespace: str,
        instance: str,
        workers: int,
        clock: Clock,
        metrics: Metrics,
        handed_over: Callable[[], bool],
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._namespace = namespace
        self._instance = instance
        self._clock = clock
        self._handed_over = handed_over
        self._view = View(caches, clock)
        self._handover = HandOver(client, self._view)
        self._rivals = Rivals(clock)
        self._queue = WorkQueue[mappers.ClaimKey]("resource_claim", clock=clock, metrics=metrics)
        self._deps = Deps(client, self._view, recorder, metrics, self._handover.learn)
        self._controller = Controller(
            "claims", queue=self._queue, reconcile=self._reconcile, workers=workers, metrics=metrics, clock=clock
        )
        self.refused: Problem | None = None
        """Why this process, though it leads, does not replace anybody."""
        self.is_working = False
        """While it is not, kube-controller-manager's controller may be at work."""
        self.gives_way = False
        """Whether somebody else was found to generate, and nothing has shown since that it has ended."""
        self._followers: list[Callable[[], None]] = []
        ClaimCounts(caches.claims, clock).expose(metrics)

    def problem(self) -> str | None:
        """A readiness check."""
        return self.refused.message if self.refused is not None else None

    def subscribe(self, follower: Callable[[], None]) -> None:
        """`follower` is called when `gives_way` has changed."""
        self._followers.append(follower)

    async def run(self) -> None:
        """Work until cancelled."""
        self._rivals.watch(self._view.caches.claims)
        await self._until_allowed(await self._ask(trial=not self._handed_over()))
        mappers.subscribe(self._view, self._queue)
        async with asyncio.TaskGroup() as running:
            running.create_task(self._controller.run(), name="controller claims")
            running.create_task(self._give_way(), name="other generators")

    async def _reconcile(self, key: mappers.ClaimKey) -> Outcome:
        """What is dropped while somebody else works is found again by `mappers.replay`."""
        pod = self._view.caches.pods.get(key.key) if key.kind == PODS.kind else None
        if not self.is_working or (pod is not None and guard.is_trial(pod, self._instance)):
            return DONE
        return await reconcile(key, self._deps)

    async def _give_way(self) -> None:
        """Stop for as long as somebody else generates.  A suspicion that cannot be tried is no reason to stop."""
        pause = RETRY
        while True:
            manager = await self._rivals.suspect()
            _log.warning("somebody else may generate ResourceClaims", extra={"manager": manager})
            problem = await self._ask()
            if problem is not None and problem.reason != ModeReason.ANOTHER_GENERATOR:
                _log.warning("that cannot be tried out", extra={"problem": problem.message, "again": pause})
                await self._clock.sleep(pause)
                pause = min(2 * pause, SELDOM)
                continue
            pause = RETRY
            if problem is None:
                self._rivals.clear(manager)
            else:
                self.is_working = False
                await self._until_allowed(problem)
                mappers.replay(self._view, self._queue)
            await self._clock.sleep(RETRY)

    async def _until_allowed(self, problem: Problem | None) -> None:
        """Say what speaks against working, until nothing does."""
        while problem is not None or (problem := await self._catch_up()) is not None:
            if problem != self.refused:
                _log.error("ResourceClaims are not replaced", extra={"problem": problem.message})
            self.refused = problem
            self._set_gives_way(self.gives_way or problem.reason == ModeReason.ANOTHER_GENERATOR)
            event = events.claims_not_replaced(problem.message)
            self._recorder.emit(self._namespace_object(), event)
            await self._clock.sleep(RETRY)
            self._rivals.forget()
            problem = await self._ask()
        self.refused = None
        self._set_gives_way(False)
        self.is_working = True
        _log.info("ResourceClaims are replaced: nobody else generates them")

    def _set_gives_way(self, gives_way: bool) -> None:
        if self.gives_way != gives_way:
            self.gives_way = gives_way
            for follower in self._followers:
                follower()

    async def _ask(self, *, trial: bool = True) -> Problem | None:
        try:
            return await guard.problem(self._client, self._namespace, self._clock, self._instance, trial=trial)
        except ApiError as error:
            return Problem(ModeReason.NOT_TRIED, f"the API server does not say what is allowed: {error}")

    async def _catch_up(self) -> Problem | None:
        try:
            await self._handover.begin()
        except ApiError as error:
            return Problem(ModeReason.NOT_TRIED, f"cannot list ResourceClaims: {error}")
        return None

    def _namespace_object(self) -> Object:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
