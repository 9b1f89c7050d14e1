"""The gauge over claims: computed from the cache, once for a scrape."""

from clusters.claims import ClaimsWorld
from objects.builders import claim, pod

ADMIN = [{"name": "r", "exactly": {"deviceClassName": "gpu", "adminAccess": True}}]


def test_claims_are_counted_by_sort() -> None:
    extended = {"resource.kubernetes.io/extended-resource-claim": "true"}
    world = ClaimsWorld(
        None,
        claim("mine"),
        claim("used").allocated(),
        claim("a").generated_for(pod(), "a").allocated(),
        claim("b").generated_for(pod(), "b").allocated(),
        claim("admin").but("spec.devices.requests", ADMIN),
        claim("extended").generated_for(pod(), "e").annotated(extended),
    )
    name = "dynamic_resource_allocation_resource_claims"
    samples = {
        tuple(sample.labels.values()): sample.value
        for metric in world.manager.metrics.registry.collect()
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
