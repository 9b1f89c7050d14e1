"""Uids of objects that are known to be gone: what is found here needs no question to the API server.

Used by the controllers of claims for consumers.  What is not found here may be gone all the same: after a restart, and
for more than `LIMIT` deletions ago, the API server is asked.

Invariant: only a watch that told of the end counts.  What a list lacks may lack its whole kind, as when an API is not
served any more, and what a store lets go may exist.
"""

from collections import OrderedDict
from typing import Final

from tollbar.model.objects import uid_of
from tollbar.runtime.store import Delta, Store

LIMIT: Final = 5000
"""A megabyte of memory; a Job that ends, or a node, takes so many Pods along at once."""


class DeletedUids:
    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def discard(self, uid: str) -> None:
        self._uids.pop(uid, None)

    def watch(self, store: Store) -> None:
        """Take note of what leaves the store: subscribe before anybody who asks."""
        store.subscribe(self._on_delta)

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None and not delta.initial:
            self.add(uid_of(delta.old))
