"""The gauge `dynamic_resource_allocation_resource_claims`: counts the claims in the cache by its labels."""

from collections import Counter
from functools import partial
from itertools import product
from typing import Final

from tollbar import wellknown
from tollbar.model import claims
from tollbar.model.objects import Object, annotations_of
from tollbar.runtime.clock import Clock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store

Labels = tuple[str, str, str]
"""Values of the labels: allocated, admin_access, source."""
FRESH: Final = 1.0
"""Seconds for which counts are reused: a scrape reads every combination of labels, but the claims are counted once."""
_TRUTH: Final = ("true", "false")
_SOURCES: Final = ("", "resource_claim_template", "extended_resource")


def _labels(claim: Object) -> Labels:
    """The series that the claim counts for."""
    annotations = annotations_of(claim)
    if annotations.get(wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true":
        source = "extended_resource"
    else:
        source = "resource_claim_template" if claims.reference_of(claim) else ""
    allocated = claims.allocation(claim) is not None
    return str(allocated).lower(), str(claims.has_admin_access(claim)).lower(), source


class ClaimCounts:
    """Counts the claims of this store, once for all series of a scrape."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._counted = float("-inf")
        self._counts: Counter[Labels] = Counter()

    def expose(self, metrics: Metrics) -> None:
        gauge = metrics.gauge("dynamic_resource_allocation_resource_claims")
        for labels in product(_TRUTH, _TRUTH, _SOURCES):
            gauge.labels(*labels).set_function(partial(self.count, labels))

    def count(self, labels: Labels) -> int:
        now = self._clock.monotonic()
        if now - self._counted >= FRESH:
            self._counts = Counter(map(_labels, self._store.values()))
            self._counted = now
        return self._counts[labels]
