"""Migrations of StatefulSets with failures at any point: never two Pods of one ordinal, in order, and nothing stuck.

The world has two StatefulSets with their controllers, kubelets, somebody who moves the Pods over, and the leader's
ledger behind a watch that lags, whose calls fail in every way and whose process ends at any time.
"""

import os
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest
from builders import namespace
from managing import Managed

from tollbar.gates import Facts, Release
from tollbar.gates.ordinal import PODS, SETS, OrdinalGate, OrdinalLedger
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.errors import ApiError, error_from_status
from tollbar.views import kinds

CASES: Final = int(os.environ.get("TOLLBAR_MIGRATIONS", "60"))
GATE: Final = "tollbar.dev/ordinal"
OLD, NEW = Key("old", "db"), Key("new", "db")
PEER = {OLD: NEW, NEW: OLD}


@dataclass
class Pod:
    key: Key
    set: Key
    ordinal: int
    uid: str
    gated: bool
    ready: bool = False
    ending: bool = False

    def as_object(self, version: int) -> Object:
        meta = {
            "name": self.key.name,
            "namespace": self.key.namespace,
            "uid": self.uid,
            "resourceVersion": str(version),
            "labels": {GATE: ""},
            "annotations": {"tollbar.dev/ordinal-peer": str(PEER[self.set])},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": self.set.name, "controller": True}
            ],
        }
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if self.ending else {})},
            "spec": {"schedulingGates": [{"name": GATE}] if self.gated else []},
            "status": {"conditions": [{"type": "Ready", "status": str(self.ready)}]},
        }


@dataclass
class Set:
    key: Key
    start: int
    replicas: int
    parallel: bool

    @property
    def wanted(self) -> range:
        return range(self.start, self.start + self.replicas)

    def as_object(self, version: int) -> Object:
        annotations = {"tollbar.dev/ordinal-peer": str(PEER[self.key])}
        meta = {
            "name": self.key.name,
            "namespace": self.key.namespace,
            "uid": f"{self.key}",
            "annotations": annotations,
        }
        return {
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": {**meta, "resourceVersion": str(version)},
            "spec": {"replicas": self.replicas, "ordinals": {"start": self.start}},
        }


@dataclass
class World:
    rng: Random
    pods: dict[Key, Pod] = field(default_factory=dict)
    sets: dict[Key, Set] = field(default_factory=dict)
    events: list[tuple[str, Object]] = field(default_factory=list)
    """What the watch brings, in its order."""
    seen: int = 0
    made: int = 0

    def __post_init__(self) -> None:
        count = self.rng.randint(1, 4)
        self.count = count
        self.sets[OLD] = Set(OLD, 0, count, self.rng.random() < 0.5)
        upwards = self.rng.random() < 0.5  # from the last ordinal down, or from the first one up
        self.sets[NEW] = Set(NEW, 0, 0, parallel=True) if upwards else Set(NEW, count, 0, parallel=True)
        for key in self.sets:
            self.tell(self.sets[key])
        for ordinal in range(count):
            self.create(OLD, ordinal, gated=False).ready = True
            self.tell(self.pods[Key("old", f"db-{ordinal}")])
        self.begin()

    # The API server.

    def tell(self, changed: Pod | Set, kind: str = "PUT") -> None:
        self.events.append((kind, changed.as_object(len(self.events) + 1)))

    def create(self, set_: Key, ordinal: int, *, gated: bool = True) -> Pod:
        self.made += 1
        made = Pod(Key(set_.namespace, f"db-{ordinal}"), set_, ordinal, f"uid-{self.made}", gated)
        self.pods[made.key] = made
        self.tell(made)
        self.check()
        return made

    def check(self) -> None:
        """The invariant: what may run is what exists without the gate."""
        free = [pod.ordinal for pod in self.pods.values() if not pod.gated]
        assert len(free) == len(set(free)), f"two of one ordinal: {sorted(free)}"

    # The others.

    def controller(self, set_: Set) -> bool:
        """One step of a StatefulSet's controller, which creates or deletes one Pod; whether it had something to do."""
        mine = {pod.ordinal: pod for pod in self.pods.values() if pod.set == set_.key}
        for ordinal in set_.wanted:
            if ordinal not in mine:
                self.create(set_.key, ordinal)
                return True
            if not set_.parallel and not mine[ordinal].ready:
                break
        for ordinal in sorted(mine, reverse=True):
            if ordinal not in set_.wanted and not mine[ordinal].ending:
                self.end(mine[ordinal])
                return True
        return False

    def end(self, pod: Pod) -> None:
        if pod.gated:
            self.remove(pod)
        else:
            pod.ending, pod.ready = True, False
            self.tell(pod)

    def remove(self, pod: Pod) -> None:
        del self.pods[pod.key]
        self.tell(pod, "DELETED")

    def kubelet(self, pod: Pod) -> bool:
        if pod.ending:
            self.remove(pod)
            return True
        if not pod.gated and not pod.ready:
            pod.ready = True
            self.tell(pod)
            return True
        return False

    def move_on(self) -> None:
        """Whoever moves the StatefulSet: one ordinal less there, one more here, in one order or the other."""
        old, new = self.sets[OLD], self.sets[NEW]
        if self.rng.random() < 0.5 and old.replicas:
            if new.start == 0 and self.rng.random() < 0.8:
                old.start += 1
            old.replicas -= 1
            self.tell(old)
        elif new.replicas < self.count:
            new.replicas += 1
            new.start = max(0, new.start - 1) if new.start else 0
            self.tell(new)

    # The leader.

    def begin(self) -> None:
        """A process leads, whose caches are a list of now, or of before and caught up."""
        self.manager = Managed()
        self.ledger = OrdinalLedger(self.manager)
        store = self.manager.caches.store
        self.held = store(kinds.PENDING_PODS)
        self.stores = {"Pod": (self.held, store(PODS)), "StatefulSet": (store(SETS),)}
        self.seen = 0
        self.watch(len(self.events))
        self.ledger._leads = True

    def watch(self, count: int) -> None:
        for kind, obj in self.events[self.seen : self.seen + count]:
            for store in self.stores[obj["kind"]]:
                store.remove(obj) if kind == "DELETED" else store.apply(obj)
        self.seen = min(len(self.events), self.seen + count)

    def look(self, key: Key, outcome: str) -> None:
        """One reconcile of a held Pod."""
        obj = self.held.get(key)
        if obj is None or GATE not in [each["name"] for each in obj["spec"]["schedulingGates"]]:
            return
        answer = self.ledger.decide(Facts(obj, namespace(), at_admission=False, objects={}))
        if not isinstance(answer, Release):
            return
        self.in_order(obj)
        try:
            with self.ledger.sending(obj):
                self.patch(obj, outcome)
        except ApiError:
            return

    def in_order(self, obj: Object) -> None:
        """When a Pod is let go its predecessor is Ready, as far as the leader knows."""
        set_ = next(each for each in self.sets.values() if each.key.namespace == key_of(obj).namespace)
        known = self.manager.caches.store(SETS).get(set_.key)
        ordinal = int(key_of(obj).name.rpartition("-")[2])
        assert known is not None
        if ordinal > known["spec"]["ordinals"]["start"]:
            before = self.manager.caches.store(PODS).get(Key(set_.key.namespace, f"db-{ordinal - 1}"))
            assert before is not None
            assert before["status"]["conditions"] == [{"type": "Ready", "status": "True"}]

    def patch(self, obj: Object, outcome: str) -> None:
        """`lost` has its effect, and the answer is lost; `unsent` has none, and nobody knows."""
        if outcome == "refused":
            text = 'admission webhook "x" denied the request: no'
            raise error_from_status({"code": 403, "reason": "Forbidden", "message": text})
        if outcome == "unsent":
            raise error_from_status({"code": 504, "reason": "Timeout", "message": "timed out"})
        pod = self.pods.get(key_of(obj))
        if pod is None:
            raise error_from_status({"code": 404, "reason": "NotFound", "message": "gone"})
        if pod.uid != uid_of(obj) or not pod.gated:
            raise error_from_status({"code": 422, "reason": "Invalid", "message": "a test failed"})
        pod.gated = False
        self.tell(pod)
        self.check()
        if outcome == "lost":
            raise error_from_status({"code": 504, "reason": "Timeout", "message": "timed out"})
        self.held.assume(pod.as_object(len(self.events)))

    # What happens.

    def step(self) -> None:
        rng = self.rng
        pods = list(self.pods.values())
        match rng.randrange(20):
            case 0 | 1 | 2:
                self.controller(rng.choice(list(self.sets.values())))
            case 3 | 4 | 5 if pods:
                self.kubelet(rng.choice(pods))
            case 6 | 7:
                self.move_on()
            case 8 if pods:  # a Node fails, or somebody deletes it
                self.end(rng.choice(pods))
            case 9 if pods:
                pod = rng.choice(pods)
                if pod.ready:
                    pod.ready = False
                    self.tell(pod)
            case 10:
                self.begin()
            case 11 | 12 | 13 | 14:
                self.watch(rng.randint(1, 4))
            case _ if keys := list(self.held.keys()):
                self.look(rng.choice(keys), rng.choice(["done", "done", "done", "refused", "lost", "unsent"]))

    def settle(self) -> None:
        """No more faults; the move is completed.  Everybody does what there is to do until nothing changes."""
        old, new = self.sets[OLD], self.sets[NEW]
        old.replicas, new.start, new.replicas = 0, 0, self.count
        self.tell(old)
        self.tell(new)
        for _ in range(200):
            before = len(self.events)
            for set_ in self.sets.values():
                self.controller(set_)
            for pod in list(self.pods.values()):
                self.kubelet(pod)
            self.watch(len(self.events))
            for key in list(self.held.keys()):
                self.look(key, "done")
            self.watch(len(self.events))
            if len(self.events) == before:
                break
        assert {key: (pod.gated, pod.ready) for key, pod in self.pods.items()} == {
            Key("new", f"db-{ordinal}"): (False, True) for ordinal in range(self.count)
        }


@pytest.mark.parametrize("seed", range(CASES))
def test_a_migration(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(world.rng.randint(0, 150)):
        world.step()
    world.settle()


def test_who_creates_the_gate_holds_every_pod_at_its_creation() -> None:
    pod = Pod(Key("new", "db-0"), NEW, 0, "u", gated=False).as_object(1)
    answer = OrdinalGate().decide(Facts(pod, namespace(), at_admission=True, objects={}))
    assert getattr(answer, "reason", None) == "Starting"
