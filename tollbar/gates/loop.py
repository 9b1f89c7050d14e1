"""The loop of every gate controller: gather, decide, one patch, and then Events and metrics.

Invariants: no gate of another controller is removed; Events and metrics report only what the API server has accepted,
or what other admission has refused.

Hazard: if two run, the second patch fails its `test` and nothing is written twice.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, TypeVar

from tollbar.decide.gates.release import Case, Plan, Refusal
from tollbar.gates.refusals import Refusals
from tollbar.model import resources
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, STALE, Outcome
from tollbar.runtime.errors import ApiError, Conflict, Invalid, NotFound
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store

P = TypeVar("P", bound=Plan)
C = TypeVar("C", bound=Case[Any])


class Loop(ABC, Generic[C, P]):
    """Reconciles the Pods with one gate; `pods` is the store of Pods without a Node."""

    def __init__(self, manager: Manager, gate: str, pods: Store) -> None:
        self.manager = manager
        self.client = manager.client
        self.pods = pods
        self.recorder: Recorder = manager.recorder("gates")
        self._refusals = Refusals(pods, gate)

    @abstractmethod
    def case(self, pod: Object, refusal: Refusal | None, now: float) -> C:
        """Gather the facts for the decision about the Pod."""

    def pod(self, key: Key) -> Object | None:
        return self.pods.get(key)

    def decided(self, key: Key, plan: P) -> None:
        """Report the decision, whether or not the patch succeeds."""

    def sending(self, _key: Key, _case: C, _plan: P) -> AbstractContextManager[None]:
        """A context around the call that patches the Pod; ApiError is raised in it."""
        return nullcontext()

    def done(self, key: Key, case: C, plan: P) -> None:
        """Report a plan that was carried out, or what remains of it after a refusal."""

    async def reconcile(self, key: Key) -> Outcome:
        pod = self.pod(key)
        if pod is None:
            return DONE
        case = self.case(pod, self._refusals.of(pod), self.manager.clock.now())
        plan: P = case.decide()
        self.decided(key, plan)
        return await self._act(key, case, plan) if key in self.pods else DONE

    async def _act(self, key: Key, case: C, plan: P) -> Outcome:
        if plan.patch:
            try:
                await self._patch(key, case, plan)
            except ApiError as error:
                if not error.refused:
                    return _not_patched(error)
                plan = case.at(self.manager.clock.now()).refused(plan, error.excerpt)
                if plan.refusal is not None:
                    self._refusals.remember(case.pod, plan.refusal)
        for event in plan.events:
            self.recorder.emit(case.pod, event)
        self.done(key, case, plan)
        return plan.outcome

    async def _patch(self, key: Key, case: C, plan: P) -> None:
        with self.sending(key, case, plan):
            answer = await self.client.patch(resources.PODS, key.name, plan.patch, namespace=key.namespace)
            self.pods.assume(answer)


def _not_patched(error: ApiError) -> Outcome:
    """The outcome when the Pod is gone or the view was stale.  Raises all other errors."""
    if isinstance(error, NotFound):
        return DONE
    if isinstance(error, Conflict | Invalid):
        return STALE
    raise error
