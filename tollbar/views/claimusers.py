"""The Pods that use claims, of every phase; and, from the same watch, those that have no node yet.

Filled by one reflector without a field selector, where controllers of claims run; without them nobody watches bound
Pods.  Pods that refer to no claim are not kept, so that the memory follows the use of claims, not the cluster.

Invariants: `pending` is what a watch with `spec.nodeName=` would have made it: complete Pods, and a Pod that gets a
node leaves; here every Pod is projected to `indexers.claim_user`.  Both are synced together.
"""

from collections.abc import Collection, Iterator

from tollbar.model import pods, resources
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.store import Store
from tollbar.views import indexers


class ClaimUsers(Store):
    def __init__(self, pending: Store) -> None:
        super().__init__(resources.PODS, project=indexers.claim_user, indexers=indexers.CLAIM_USERS)
        self._pending = pending
        self.synced = pending.synced

    def apply(self, obj: Object, *, initial: bool = False) -> None:
        if not pods.is_bound(obj):
            self._pending.apply(obj, initial=initial)
        else:
            self._pending.remove(obj)
            self._pending.discard(key_of(obj))  # another Pod that had the name
        if pods.uses_claims(obj):
            super().apply(obj, initial=initial)
        else:
            super().discard(key_of(obj))

    def remove(self, obj: Object) -> None:
        self._pending.remove(obj)
        super().remove(obj)

    def keys(self) -> Iterator[Key]:
        return iter({**dict.fromkeys(super().keys()), **dict.fromkeys(self._pending.keys())})

    def absent(self, seen: Collection[Key]) -> list[Key]:
        return list(dict.fromkeys([*super().absent(seen), *self._pending.absent(seen)]))

    def discard(self, key: Key) -> None:
        self._pending.discard(key)
        super().discard(key)
