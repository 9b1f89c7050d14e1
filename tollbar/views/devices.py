"""The manager of Dynamic Resource Allocation, from the stores that it declares."""

from collections.abc import Callable
from typing import Final

from tollbar.dra.manager import DraManager
from tollbar.runtime.caches import Cached
from tollbar.runtime.store import Store
from tollbar.views import kinds

KINDS: Final = (kinds.CLAIMS_WITH_ALLOCATION, kinds.SLICES, kinds.CLASSES, kinds.TAINT_RULES)


def dra_manager(store: Callable[[Cached], Store]) -> DraManager:
    """`store` is `Caches.store`, or `lookup.filled` for given objects."""
    return DraManager(*map(store, KINDS))
