"""Uids of objects that are known to be deleted, so that the API server need not be asked.

An object whose uid is not here may be deleted all the same: after a restart, and after `LIMIT` further deletions, the
API server has to be asked.  kube-controller-manager's claim controller has the same cache (uidCache).

Invariant: only DELETED events of a watch count.  A list may lack an object because its API is no longer served, and an
object that a store no longer accepts may still exist.
"""

from collections import OrderedDict
from typing import Final

from tollbar.model.objects import uid_of
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

LIMIT: Final = 5000
"""About a megabyte of memory; the end of a large Job or of a node may delete as many Pods at once."""


class DeletedUids:
    """Uids of objects deleted from these stores.  Create it before subscribing handlers that read it."""

    def __init__(self, *stores: Store, limit: int = LIMIT) -> None:
        self._limit = limit
        self._uids: OrderedDict[str, None] = OrderedDict()
        for store in stores:
            store.subscribe(self._on_delta)

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, uid: str) -> None:
        self._uids[uid] = None
        self._uids.move_to_end(uid)
        if len(self._uids) > self._limit:
            self._uids.popitem(last=False)

    def discard(self, uid: str) -> None:
        self._uids.pop(uid, None)

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None and not delta.initial:
            self.add(uid_of(delta.old))
