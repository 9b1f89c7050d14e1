"""Evictions from tainted devices, as the Pods' conditions tell them, and the allocations that they are about."""

from builders import Pod, claim, pod

from tollbar.model.claims import allocation_of
from tollbar.model.objects import Key
from tollbar.runtime.source import Delta
from tollbar.views import kinds
from tollbar.views.evictions import Evictions
from tollbar.views.lookup import filled

GPU = Key("ml", "gpu")
ALLOCATED = claim().allocated()
RUNNING = pod().claims("gpu", "none").bound()


def disrupted(reason: str, status: str = "True") -> Pod:
    return RUNNING.but("status.conditions", [{"type": "DisruptionTarget", "status": status, "reason": reason}])


EVICTED = disrupted("DeletionByDeviceTaintManager")


def test_the_allocation_of_which_a_pod_is_evicted() -> None:
    store = filled([ALLOCATED, RUNNING], (kinds.CLAIMS_WITH_STATUS, kinds.CLAIM_CONSUMERS))
    claims, consumers = store(kinds.CLAIMS_WITH_STATUS), store(kinds.CLAIM_CONSUMERS)
    evictions, told = Evictions(claims, consumers), list[Key]()
    evictions.changes.subscribe(told.append)
    for other in (disrupted("PreemptionByScheduler"), disrupted("DeletionByDeviceTaintManager", "False")):
        consumers.apply(other)
    assert (evictions.evicted_from(GPU), told) == ("", [])
    for _ in range(2):
        consumers.apply(EVICTED)
    assert (evictions.evicted_from(GPU), told) == (allocation_of(ALLOCATED), [GPU])
    later = claim().allocated().but("status.allocation.allocationTimestamp", "2026-01-01T00:00:05Z")
    claims.apply(later.but("metadata.resourceVersion", "2"))
    consumers.apply(EVICTED.but("metadata.uid", "another"))
    assert told == [GPU, GPU]
    evictions.forget(GPU)
    assert evictions.evicted_from(GPU) == ""


def test_a_claim_that_is_not_allocated_has_nothing_to_be_evicted_from() -> None:
    store = filled([claim(), EVICTED], (kinds.CLAIMS_WITH_STATUS, kinds.CLAIM_CONSUMERS))
    evictions = Evictions(store(kinds.CLAIMS_WITH_STATUS), store(kinds.CLAIM_CONSUMERS))
    evictions._on_delta(Delta(RUNNING, EVICTED, initial=False))
    assert evictions.evicted_from(GPU) == ""


def test_what_is_kept_of_a_pod_tells_it() -> None:
    (store,) = (filled([EVICTED], (kinds.CLAIM_CONSUMERS,))(kinds.CLAIM_CONSUMERS),)
    (kept,) = store.values()
    assert kept["status"]["conditions"] == EVICTED["status"]["conditions"]
