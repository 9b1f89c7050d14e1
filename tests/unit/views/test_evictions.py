"""Evictions from tainted devices, as the Pods' conditions tell them, and the allocations that they are about."""

import pytest
from objects.builders import Claim, Pod, claim, pod, pod_group

from tollbar.model.claims import allocation_of, pod_entry, pod_group_entry
from tollbar.model.objects import Key
from tollbar.runtime.store import Store
from tollbar.views import kinds
from tollbar.views.evictions import Evictions
from tollbar.views.lookup import filled

GPU = Key("ml", "gpu")
RUNNING = pod().claims("gpu", "none").bound()
FREE = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})
HELD = FREE.allocated().reserved(pod_entry(RUNNING))


def disrupted(reason: str, status: str = "True", who: Pod = RUNNING) -> Pod:
    return who.but("status.conditions", [{"type": "DisruptionTarget", "status": status, "reason": reason}])


EVICTED = disrupted("DeletionByDeviceTaintManager")
GROUPED = EVICTED.in_group("train")
BY_GROUP = FREE.allocated().reserved(pod_group_entry(pod_group("train")))


class World:
    """What is evicted, and which claims that was told of; objects have a new resourceVersion with every change."""

    def __init__(self, *objects: Claim | Pod) -> None:
        store = filled(objects, (kinds.CLAIMS_WITH_STATUS, kinds.CLAIM_CONSUMERS))
        self.claims, self.consumers = store(kinds.CLAIMS_WITH_STATUS), store(kinds.CLAIM_CONSUMERS)
        self.evictions, self.told = Evictions(self.claims, self.consumers), list[Key]()
        self.evictions.changes.subscribe(self.told.append)
        self._version = 1

    def change(self, store: Store, obj: Claim | Pod) -> str:
        """From which allocation of the claim Pods are evicted then."""
        self._version += 1
        store.apply(obj.but("metadata.resourceVersion", str(self._version)))
        return self.evictions.evicted_from(GPU)


EVICTIONS: dict[str, tuple[Claim, Pod, str]] = {
    "a Pod of the claim is evicted": (HELD, EVICTED, allocation_of(HELD)),
    "one of its PodGroup": (BY_GROUP, GROUPED, allocation_of(HELD)),
    "another reason": (HELD, disrupted("PreemptionByScheduler"), ""),
    "not any more": (HELD, disrupted("DeletionByDeviceTaintManager", "False"), ""),
    "a claim that is not allocated": (FREE, EVICTED, ""),
    "a claim that nobody keeps": (claim().allocated().reserved(pod_entry(RUNNING)), EVICTED, ""),
    "the claim has a new allocation, for another Pod": (
        FREE.allocated().reserved(pod_entry(pod("other"))),
        EVICTED,
        "",
    ),
    "the Pod has ended, and got its entry again": (HELD, EVICTED.phase("Failed"), ""),
    "the Pod has ended, and others of its PodGroup got the claim again": (BY_GROUP, GROUPED.phase("Failed"), ""),
}


@pytest.mark.parametrize(("given", "evicted", "want"), EVICTIONS.values(), ids=EVICTIONS)
def test_the_allocation_from_which_a_pod_is_evicted(given: Claim, evicted: Pod, want: str) -> None:
    world = World(given, RUNNING)
    for _ in range(2):
        assert world.change(world.consumers, evicted) == want
    assert world.told == ([GPU] if want else [])


ENDS: dict[str, Claim | None] = {
    "the claim is freed": FREE,
    "it has other devices": HELD.but("status.allocation.devices.results", [{"device": "gpu-1"}]),
    "it has the same devices since another time": HELD.but("status.allocation.allocationTimestamp", "later"),
    "it is another claim of that name": HELD.but("metadata.uid", "another").but("status", {}),
    "it is gone": None,
}


@pytest.mark.parametrize("then", ENDS.values(), ids=ENDS)
def test_nothing_is_remembered_of_an_allocation_that_is_over(then: Claim | None) -> None:
    world = World(HELD, RUNNING)
    assert world.change(world.consumers, EVICTED) == allocation_of(HELD)
    touched = HELD.annotated({"example.com/touched": "1"})
    assert world.change(world.claims, touched) == allocation_of(HELD)
    if then is None:
        world.claims.discard(GPU)
    else:
        world.change(world.claims, then)
    assert world.evictions._from == {}


def test_the_next_allocation_is_told_of_as_well() -> None:
    world = World(HELD, RUNNING)
    world.change(world.consumers, EVICTED)
    world.change(world.claims, FREE)
    replacement = pod("next").claims("gpu").bound()
    world.change(world.claims, FREE.allocated().reserved(pod_entry(replacement)))
    evicted = disrupted("DeletionByDeviceTaintManager", who=replacement)
    assert world.change(world.consumers, evicted) == allocation_of(HELD)
    assert world.told == [GPU, GPU]


def test_what_is_kept_of_a_pod_tells_it() -> None:
    (store,) = (filled([EVICTED], (kinds.CLAIM_CONSUMERS,))(kinds.CLAIM_CONSUMERS),)
    (kept,) = store.values()
    assert kept["status"]["conditions"] == EVICTED["status"]["conditions"]
