"""What Pods take in the caches of the controllers."""

import gc
import hashlib
import tracemalloc
from collections.abc import Callable

import orjson
import pytest
from builders import CREATED, Pod, pod
from fakes import has_label, rule

from tollbar.model.objects import key_of
from tollbar.runtime import packed
from tollbar.runtime.caches import Caches
from tollbar.views import kinds
from tollbar.views.matches import Matches

COUNT = 1000
WORKLOADS = 10
RULE = rule("gpu", has_label("app"))


def of_a_workload(number: int) -> Pod:
    """A Pod of 8 KB, held for a claim of its own; the next one is of another workload."""
    workload = f"app-{number % WORKLOADS}"
    words = (hashlib.sha256(f"{workload}{n}".encode()).hexdigest() for n in range(80))
    env = [{"name": f"VARIABLE_{n}", "value": word} for n, word in enumerate(words)]
    made = pod(f"{workload}-{number}").gated().claims(f"claim-{number}").labelled(app=workload)
    return made.but("spec.containers", [{"name": "main", "image": f"example.com/{workload}", "env": env}])


@pytest.fixture
def _nothing_stays_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The few objects that do are no part of what each Pod takes."""
    monkeypatch.setattr(packed, "RECENT_BYTES", 0)


def taken(make: Callable[[int], Pod]) -> float:
    """Bytes for each Pod in what the controllers keep, once it has been decided about."""
    caches = Caches()
    stores = [caches.store(cached) for cached in (kinds.PENDING_PODS, kinds.CLAIM_CONSUMERS)]
    matches = Matches(stores[0])
    texts = [orjson.dumps(make(number)) for number in range(COUNT)]
    tracemalloc.start()
    try:
        for text in texts:
            decoded = orjson.loads(text)
            for store in stores:
                store.apply(decoded)
            matches.record(key_of(decoded), [RULE], CREATED)
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_a_pod_without_a_node_takes_a_part_of_its_text() -> None:
    assert (len(orjson.dumps(of_a_workload(0))) > 8000, taken(of_a_workload) < 3000) == (True, True)


def test_a_bound_pod_without_claims_takes_nothing() -> None:
    assert taken(lambda number: pod(f"web-{number}").bound()) < 50
