"""How far the controller under test has come: objects that it acts on, made after everything that it has to know.

One `Fences` a round, used by its scenarios.  A controller has a watch for each kind, and one may be behind another; a
fence is an object of every kind, so that what was before it is known when the controller has dealt with all of them.
Events are sent later than they are recorded, but in their order.

Hazard: while the controller is down a fence is waited for in vain.
"""

import asyncio
import itertools
from typing import Final

from history.recording import Recorder

from tollbar.model.objects import Object, metadata
from tollbar.model.resources import EVENTS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import Client

NAMESPACE: Final = "fences"
FINALIZER: Final = "resource.kubernetes.io/delete-protection"
_POLL_SECONDS: Final = 0.05


class Fences:
    """`turn` names the round, `spec` is a claim's, `groups` what PodGroups are here, and `seconds` a fence's time."""

    def __init__(
        self, client: Client, recorder: Recorder, turn: str, spec: Object, groups: Resource | None, seconds: float
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._turn = turn
        self._spec = spec
        self._groups = groups
        self._seconds = seconds
        self._one_at_a_time = asyncio.Lock()
        self._begun = 0
        self._passed = True
        self._untold = itertools.count(1)

    async def passed(self) -> bool:
        """Wait until the controller knows all that was there at the call.  Who comes meanwhile shares a fence."""
        wanted = self._begun + 1
        async with self._one_at_a_time:
            if self._begun < wanted:
                self._begun = wanted
                self._passed = await self._pass(f"{self._turn}-{wanted}")
        return self._passed

    async def told(self) -> bool:
        """Wait until every event is stored that the controller has recorded up to now."""
        name = f"{self._turn}-untold-{next(self._untold)}"
        await self._client.create(PODS, _pod(name, template="none"))
        try:
            async with asyncio.timeout(self._seconds):
                while not await self._events_about(name):  # noqa: ASYNC110 - of Events there is no recorder
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            return False
        return True

    async def _pass(self, name: str) -> bool:
        meta = {"name": name, "namespace": NAMESPACE}
        await self._client.create(RESOURCE_CLAIM_TEMPLATES, {"metadata": meta, "spec": {"spec": self._spec}})
        await self._client.create(
            RESOURCE_CLAIMS, {"metadata": {**meta, "finalizers": [FINALIZER]}, "spec": self._spec}
        )
        await self._client.delete(RESOURCE_CLAIMS, name, NAMESPACE)
        if self._groups is not None:
            await self._client.create(self._groups, _group(name))
        await self._client.create(PODS, _pod(name, template=name))
        return await self._recorder.until(lambda: self._is_dealt_with(name), self._seconds)

    def _is_dealt_with(self, name: str) -> bool:
        """Claims are made and recorded, and the one that is being deleted has lost its finalizer."""
        now = self._recorder.objects[NAMESPACE]
        users = ("Pod",) if self._groups is None else ("Pod", self._groups.kind)
        return all("resourceClaimStatuses" in now.get((kind, name), {}).get("status", {}) for kind in users) and any(
            change.deleted and change.kind == RESOURCE_CLAIMS.kind and metadata(change.object)["name"] == name
            for change in reversed(self._recorder.changes[NAMESPACE])
        )

    async def _events_about(self, name: str) -> bool:
        page = await self._client.list(EVENTS, NAMESPACE, field_selector=f"regarding.name={name}")
        return bool(page["items"])


def _pod(name: str, *, template: str) -> Object:
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "schedulingGates": [{"name": "example.com/fence"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": template}],
        },
    }


def _group(name: str) -> Object:
    reference = {"name": "gpu", "resourceClaimTemplateName": name}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": [reference]},
    }
