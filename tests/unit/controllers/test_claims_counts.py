"""The gauge over claims: computed from the cache, once for a scrape."""

from builders import claim, pod

from controllers.claims.counts import ClaimCounts
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store

ADMIN = [{"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]


def test_claims_are_counted_by_sort() -> None:
    store = Store(RESOURCE_CLAIMS)
    extended = {"resource.kubernetes.io/extended-resource-claim": "true"}
    for each in (
        claim("mine"),
        claim("used").allocated(),
        claim("a").generated_for(pod(), "a").allocated(),
        claim("b").generated_for(pod(), "b").allocated(),
        claim("admin").but("spec.devices.requests", ADMIN),
        claim("extended").generated_for(pod(), "e").annotated(extended),
    ):
        store.apply(each)
    metrics = Metrics()
    ClaimCounts(store, SystemClock()).expose(metrics)
    name = "dynamic_resource_allocation_resource_claims"
    samples = {
        tuple(sample.labels.values()): sample.value
        for metric in metrics.registry.collect()
        for sample in metric.samples
        if sample.name == name and sample.value
    }
    assert samples == {
        ("false", "false", ""): 1,
        ("true", "false", ""): 1,
        ("true", "false", "resource_claim_template"): 2,
        ("false", "true", ""): 1,
        ("false", "false", "extended_resource"): 1,
    }
