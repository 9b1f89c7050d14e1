"""Takes over ResourceClaims: probes, runs the controller, and stops it while another generator works.

A problem is reported in the log, as an Event on Tollbar's namespace, by the readiness check `claims` and by the
condition on the Lease.  The probe is repeated every `RETRY` seconds, so it is enough to switch
kube-controller-manager's controller off.  When that one is switched on later, the controller here creates no claims
while it probes (`CompetingGenerators.holds`), does nothing until the other one is off again, and then reconciles
everything.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from controllers.claims import probe
from controllers.claims.competing import CompetingGenerators
from controllers.claims.mappers import ClaimKey
from controllers.claims.unseen import UnseenClaims
from tollbar.api.reasons import ModeReason
from tollbar.decide.claims import events, modes
from tollbar.model.objects import Object
from tollbar.model.resources import NAMESPACES
from tollbar.runtime.caches import listed
from tollbar.runtime.controller import Controller
from tollbar.runtime.errors import ApiError
from tollbar.runtime.manager import Manager
from tollbar.views.takeover import Problem, Takeover

_log: Final = logging.getLogger(__name__)

RETRY: Final = 15.0
"""Seconds between two probes while there is a problem."""
MAX_RETRY: Final = 300.0
"""Seconds, at most, between two probes of a suspicion when the probe itself fails; the time doubles from `RETRY`."""


@dataclass(frozen=True, slots=True)
class TakeoverRunner:
    """Runs `controller`, which does nothing unless `takeover.works`."""

    manager: Manager
    takeover: Takeover
    unseen: UnseenClaims
    competing: CompetingGenerators
    controller: Controller[ClaimKey]

    async def run(self) -> None:
        """Run until cancelled.  No probe is needed when the last leader generated claims until a moment ago."""
        await listed(self.controller.needs)
        self.competing.start()
        handed_over = modes.was_generating(self.manager.lease_taken_over, self.manager.clock.now())
        try:
            await self._until_working(await self._ask(with_pod=not handed_over))
            async with asyncio.TaskGroup() as running:
                running.create_task(self.controller.run(), name="controller claims")
                running.create_task(self._yield_to_others(), name="other generators")
        finally:
            self.takeover.reset()

    async def _yield_to_others(self) -> None:
        """Stop for as long as somebody else generates claims, but not because a probe failed."""
        clock, pause = self.manager.clock, RETRY
        while True:
            manager = await self.competing.suspect()
            _log.warning("somebody else may generate ResourceClaims", extra={"manager": manager})
            problem = await self._ask()
            if problem is not None and problem.reason != ModeReason.ANOTHER_GENERATOR:
                _log.warning("cannot probe for another generator", extra={"problem": problem.message, "again": pause})
                await clock.sleep(pause)
                pause = min(2 * pause, MAX_RETRY)
                continue
            pause = RETRY
            if problem is None:
                self.competing.clear(manager)
                await clock.sleep(RETRY)
            else:
                await self._until_working(problem)
                self.controller.resync()

    async def _until_working(self, problem: Problem | None) -> None:
        """Report the problem and probe again, until there is none."""
        while problem is not None or (problem := await self._catch_up()) is not None:
            if problem != self.takeover.problem:
                _log.error("ResourceClaims are not replaced", extra={"problem": problem.message})
            self.takeover.found(problem)
            event = events.claims_not_replaced(problem.message)
            self.manager.recorder("claims").emit(self._namespace, event)
            await self.manager.clock.sleep(RETRY)
            self.competing.forget()
            problem = await self._ask()
        self.takeover.found(None)
        _log.info("ResourceClaims are replaced: nobody else generates them")

    async def _ask(self, *, with_pod: bool = True) -> Problem | None:
        manager = self.manager
        namespace = manager.configuration.system_namespace
        try:
            return await probe.problem(manager.client, namespace, manager.clock, manager.instance, with_pod=with_pod)
        except ApiError as error:
            return Problem(ModeReason.NOT_TRIED, f"cannot read the permissions of this process: {error}")

    async def _catch_up(self) -> Problem | None:
        try:
            await self.unseen.begin()
        except ApiError as error:
            return Problem(ModeReason.NOT_TRIED, f"cannot list ResourceClaims: {error}")
        return None

    @property
    def _namespace(self) -> Object:
        name = self.manager.configuration.system_namespace
        return {**NAMESPACES.type_meta, "metadata": {"name": name}}
