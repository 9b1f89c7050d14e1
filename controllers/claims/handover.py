"""What the leader before us created and our cache does not show yet: asked for before the first claim is made.

A leader that ends may have made a claim a moment ago; names are generated, so a second one for the same Pod would meet
no conflict.  Once is enough: whoever led before has stopped when we begin, and a cache that has come as far as the API
server was then shows all that there was.  Until it has, the claims of a namespace are listed, once, before the first
one is made in it.

Called by `controllers.claims`.  Costs one read when we begin to lead, and one list for each namespace in which a claim
is made before the watch has caught up, which takes a minute at the most; nothing is written.

Hazard: a process that was frozen while it created a claim may wake up and do so after all.
"""

import asyncio
from collections import defaultdict
from typing import Final

from controllers.claims.view import View
from tollbar.model import resourceversion
from tollbar.model.objects import Object, metadata
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime import pager
from tollbar.runtime.client import Client
from tollbar.runtime.retry import READ

_NEVER: Final = float("inf")


class HandOver:
    def __init__(self, client: Client, view: View) -> None:
        self._client = client
        self._view = view
        self._version = _NEVER
        self._listed: set[str] = set()
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def begin(self) -> None:
        """Whoever generated before has stopped: note how far the API server has come.  Raises ApiError."""
        self._listed.clear()
        self._version = _NEVER
        page: Object = await READ(self._client.list, RESOURCE_CLAIMS, limit=1)
        self._version = resourceversion.number(str(metadata(page).get("resourceVersion"))) or _NEVER

    async def learn(self, namespace: str) -> bool:
        """Whether the view may know more claims of the namespace than before: then decide again.  Raises ApiError."""
        if self._has_caught_up() or namespace in self._listed:
            return False
        async with self._locks[namespace]:
            if namespace not in self._listed:
                async for claim in pager.every(self._client, RESOURCE_CLAIMS, namespace):
                    self._view.created.add(claim)
                self._listed.add(namespace)
        return True

    def _has_caught_up(self) -> bool:
        """Whether the cache shows everything that there was when we began; what was kept for that long is dropped."""
        if self._version == 0:
            return True
        if (resourceversion.number(self._view.caches.claims.resource_version) or 0) < self._version:
            return False
        self._version = 0
        self._listed.clear()
        self._locks.clear()
        return True
