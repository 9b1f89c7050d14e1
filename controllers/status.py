"""Writes the statuses of Tollbar's own kinds: one merge patch of `/status` per object.

It remembers the time of each write, because numbers are written at most once in `tollbar.decide.status.PERIOD`.
"""

from typing import Final

from tollbar.decide.status import StatusPlan
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.plan import DONE, Outcome
from tollbar.runtime.client import PatchType
from tollbar.runtime.errors import NotFound
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store

STATUS_WORKERS: Final = 2
"""Statuses are few and may wait; patches of Pods go first."""
COUNTING: Final = 1.0
"""Seconds for which changes of a count are collected, so that a burst of Pods causes one reconcile."""


class StatusWriter:
    """For the objects of one store; `controller` is the one that Events come from."""

    def __init__(self, manager: Manager, store: Store, controller: str) -> None:
        self._client = manager.client
        self._store = store
        self._recorder = manager.recorder(controller)
        self._clock = manager.clock
        self._written: dict[Key, float] = {}

    def written(self, key: Key) -> float | None:
        """When this process last wrote the object's status, in epoch seconds."""
        return self._written.get(key)

    def forget(self, key: Key) -> None:
        self._written.pop(key, None)

    async def write(self, obj: Object, plan: StatusPlan) -> Outcome:
        if plan.status is not None:
            key = key_of(obj)
            body = {"status": plan.status}
            try:
                new = await self._client.patch(
                    self._store.resource,
                    key.name,
                    body,
                    namespace=key.namespace,
                    patch_type=PatchType.MERGE,
                    subresource="status",
                )
            except NotFound:
                return DONE
            self._written[key] = self._clock.now()
            self._store.assume(new)
        for event in plan.events:
            self._recorder.emit(obj, event)
        return plan.outcome
