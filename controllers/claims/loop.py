"""The claims controller as a whole: refuse while something speaks against Replace, then watch, decide and write.

Called by `controllers.__main__` in the mode Replace, when this process leads and its caches are filled.  Refusing is
said three times: in the log, as an Event on Tollbar's namespace, and by the readiness check `claims`.  It is tried
again every `RETRY` seconds, so that switching kube-controller-manager's controller off is all that is needed.
"""

import logging
from functools import partial
from typing import Final

from controllers.claims import guard, mappers
from controllers.claims.counts import ClaimCounts
from controllers.claims.deps import Deps
from controllers.claims.reconcile import reconcile
from controllers.claims.view import View
from tollbar import wellknown
from tollbar.model.objects import Object
from tollbar.model.plan import Event
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


class Claims:
    """`recorder` must be the claims controller's own; `namespace` is Tollbar's."""

    def __init__(
        self,
        client: Client,
        caches: ClaimCaches,
        recorder: Recorder,
        *,
        namespace: str,
        workers: int,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._namespace = namespace
        self._workers = workers
        self._clock = clock
        self._metrics = metrics
        self._view = View(caches, clock)
        self._problem: str | None = None
        self.is_working = False
        """Until then kube-controller-manager's controller may be at work."""
        ClaimCounts(caches.claims, clock).expose(metrics)

    def problem(self) -> str | None:
        """A readiness check: why this process, though it leads, does not replace anybody."""
        return self._problem

    async def run(self) -> None:
        """Work until cancelled."""
        await self._until_allowed()
        queue = WorkQueue[mappers.ClaimKey]("resource_claim", clock=self._clock, metrics=self._metrics)
        deps = Deps(self._client, self._view, self._recorder, self._metrics)
        controller = Controller(
            "claims",
            queue=queue,
            reconcile=partial(reconcile, deps=deps),
            workers=self._workers,
            metrics=self._metrics,
            clock=self._clock,
        )
        mappers.subscribe(self._view, queue)
        await controller.run()

    async def _until_allowed(self) -> None:
        while (problem := await self._ask()) is not None:
            if problem != self._problem:
                _log.error("ResourceClaims are not replaced", extra={"problem": problem})
            self._problem = problem
            self._recorder.emit(
                self._namespace_object(), Event("Warning", wellknown.CLAIMS_NOT_REPLACED, problem, "Start")
            )
            await self._clock.sleep(RETRY)
        self._problem = None
        self.is_working = True
        _log.info("ResourceClaims are replaced: nobody else generates them")

    async def _ask(self) -> str | None:
        try:
            return await guard.problem(self._client, self._namespace, self._clock)
        except ApiError as error:
            return f"the API server does not say what is allowed: {error}"

    def _namespace_object(self) -> Object:
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._namespace}}
