"""What Pods take in the caches of the controllers, and Pods and devices in those of the scheduler."""

import hashlib
from collections.abc import Callable

import orjson
import pytest
from fakes.engine import has_label, rule
from objects.builders import CREATED, Pod, pod
from objects.devices import device, node, published
from objects.memory import traced

from tollbar.model.objects import Object, key_of, spec
from tollbar.runtime import packed, sharing
from tollbar.runtime.caches import Caches
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

    return traced(make, keep, COUNT)


@pytest.mark.usefixtures("_nothing_stays_decoded")
def test_a_pod_without_a_node_takes_a_part_of_its_text() -> None:
    assert (len(orjson.dumps(of_a_workload(0))) > 8000, taken(of_a_workload) < 3000) == (True, True)


def test_a_bound_pod_without_claims_takes_nothing() -> None:
    assert taken(lambda number: pod(f"web-{number}").bound()) < 50


def test_a_bound_pod_takes_little_more_than_its_names_in_the_scheduler() -> None:
    caches, shapes, known = Caches(), Shapes(), list[PodInfo]()
    store = caches.store(scheduling.SCHEDULABLE_PODS)
    store.subscribe(lambda delta: known.append(shapes.pod_info(delta.new or {})))

    def bound(number: int) -> Pod:
        made = pod(f"web-{number}").bound().labelled(app="web").tolerating({"operator": "Exists"})
        return made.but("status.startTime", f"2026-01-01T00:00:{number % 60:02}Z")

    assert traced(bound, store.apply, COUNT) < 900


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

    size = traced(of_a_node, store.apply, COUNT) / DEVICES
    nodes = [node(f"node-{number}") for number in range(COUNT)]
    offered = sum(len(pool.devices) for each in nodes for pool in manager.inventory.pools(each))
    assert (size < 1000, offered) == (True, COUNT * DEVICES)
