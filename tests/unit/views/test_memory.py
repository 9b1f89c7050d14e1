"""What Pods take in the caches of the controllers, and Pods and devices in those of the scheduler."""

import gc
import hashlib
import tracemalloc
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from fakes.engine import has_label, rule
from objects.builders import CREATED, Pod, pod
from objects.devices import device, published

from tollbar.model.objects import Object, key_of, spec
from tollbar.runtime import packed, sharing
from tollbar.runtime.caches import Caches
from tollbar.runtime.store import footprint
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.views import kinds, scheduling
from tollbar.views.devices import dra_manager
from tollbar.views.matches import Matches

COUNT = 1000
DEVICES = 8
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

    def keep(decoded: Object) -> None:
        for store in stores:
            store.apply(decoded)
        matches.record(key_of(decoded), [RULE], CREATED)

    return traced(make, keep)


def traced(make: Callable[[int], Object], keep: Callable[[Object], None]) -> float:
    """Bytes for each object, once it has been kept."""
    texts = [orjson.dumps(make(number)) for number in range(COUNT)]
    tracemalloc.start()
    try:
        for text in texts:
            keep(orjson.loads(text))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / COUNT
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_a_pod_without_a_node_takes_a_part_of_its_text() -> None:
    assert (len(orjson.dumps(of_a_workload(0))) > 8000, taken(of_a_workload) < 3000) == (True, True)


SHAPES: dict[str, Callable[[int], Any]] = {
    "a long text": lambda number: f"{number}" * 3000,
    "a text with one character that takes four bytes": lambda number: f"{number}\U0001f600" + "x" * 9000,
    "a text of characters that take two bytes": lambda number: f"{number}" + "\u4e2d" * 3000,
    "short texts": lambda number: [f"{number}{n}" for n in range(500)],
    "texts of one character": lambda _: [str(n % 10) for n in range(500)],
    "numbers": lambda number: [number * 1000 + n + 0.5 for n in range(500)],
    "empty objects": lambda _: [{} for _ in range(500)],
    "objects of one member": lambda _: [{"a": n} for n in range(500)],
    "empty lists": lambda _: [[] for _ in range(500)],
    "members with names of their own": lambda number: {f"{number}-{n}": f"{n}" for n in range(500)},
    "a few levels": lambda number: [{"cel": {"expression": f"{number}{n}"}} for n in range(300)],
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_what_is_said_to_be_taken_is_at_least_half_of_what_is(shape: Callable[[int], Any]) -> None:
    kept: list[Object] = []
    taken = traced(lambda number: {"spec": shape(number)}, kept.append)
    said = sum(footprint(spec(each)) for each in kept) / len(kept)
    assert taken < 2 * said


def test_a_bound_pod_without_claims_takes_nothing() -> None:
    assert taken(lambda number: pod(f"web-{number}").bound()) < 50


def test_a_bound_pod_takes_little_more_than_its_names_in_the_scheduler() -> None:
    caches, shapes, known = Caches(), Shapes(), list[PodInfo]()
    store = caches.store(scheduling.SCHEDULABLE_PODS)
    store.subscribe(lambda delta: known.append(shapes.pod_info(delta.new or {})))

    def bound(number: int) -> Pod:
        made = pod(f"web-{number}").bound().labelled(app="web").tolerating({"operator": "Exists"})
        return made.but("status.startTime", f"2026-01-01T00:00:{number % 60:02}Z")

    assert traced(bound, store.apply) < 900


def test_of_pods_that_wait_for_a_node_only_what_they_have_in_common_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known: dict[bytes, Object] = {}
    monkeypatch.setattr(sharing, "known", known)
    store = Caches().store(scheduling.SCHEDULABLE_PODS)
    env = [{"name": "LEVEL", "value": "debug"}]
    for number in range(COUNT):
        mount = {"name": f"kube-api-access-{number}", "mountPath": "/var/run/secrets", "readOnly": True}
        container = {"name": "main", "image": "example.com/web", "env": list(env), "volumeMounts": [mount]}
        store.apply(pod(f"web-{number}").labelled(app="web").but("spec.containers", [container]))
    kept = [spec(each)["containers"][0] for each in store.values()]
    assert len(known) < 10
    assert {id(each["env"]) for each in kept} == {id(kept[0]["env"])}
    assert len({each["volumeMounts"][0]["name"] for each in kept}) == COUNT


def test_a_device_with_an_attribute_of_its_own_takes_little_more_than_that_in_the_scheduler() -> None:
    caches = Caches()
    manager, store = dra_manager(caches.store), caches.store(kinds.SLICES)

    def of_a_node(number: int) -> Object:
        given = [
            device(f"gpu-{index}", uuid=f"GPU-{number:030}-{index}", model="a100", numa=index % 2, index=index)
            for index in range(DEVICES)
        ]
        return published(f"node-{number}-gpu", *given, node=f"node-{number}")

    each = traced(of_a_node, store.apply) / DEVICES
    assert (each < 1000, len(list(manager.slices()))) == (True, COUNT)
