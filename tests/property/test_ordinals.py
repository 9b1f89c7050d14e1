"""Migrations of StatefulSets with failures at any point: never two Pods of one ordinal, in order, and nothing stuck.

The world has two StatefulSets with their controllers, kubelets, somebody who moves the Pods over, and the leader's
ledger behind a watch that lags, whose calls fail in every way and whose process ends at any time.  A Pod is looked at
when its own change or the ledger asks for it, as in the controllers; who begins to lead may be behind with the watch.
"""

import os
from collections.abc import Coroutine, Generator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from fakes.manager import Managed
from objects.builders import namespace

from tollbar.gates import Facts, Release
from tollbar.gates.ordinal import PODS, SETS, OrdinalGate, OrdinalLedger
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.plan import Outcome
from tollbar.runtime.errors import ApiError, error_from_status
from tollbar.runtime.source import Delta
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
    version: int = 0

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
    agrees: bool = True

    @property
    def wanted(self) -> range:
        return range(self.start, self.start + self.replicas)

    def as_object(self, version: int) -> Object:
        annotations = {"tollbar.dev/ordinal-peer": str(PEER[self.key])} if self.agrees else {}
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


class Stepped:
    """A clock on which a sleep ends when the sleeper is stepped, unless it is for ever: no event loop runs it."""

    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await self
        while seconds == float("inf"):
            await self

    def __await__(self) -> Generator[None, None, None]:
        yield


@dataclass
class World:
    rng: Random
    pods: dict[Key, Pod] = field(default_factory=dict)
    sets: dict[Key, Set] = field(default_factory=dict)
    events: dict[str, list[tuple[str, Object]]] = field(default_factory=lambda: {"Pod": [], "StatefulSet": []})
    """What the watch of each kind brings, in its order."""
    seen: dict[str, int] = field(default_factory=dict)
    version: int = 0
    made: int = 0
    queue: set[Key] = field(default_factory=set)
    """Pods that the controllers are to look at."""
    leading: Coroutine[Any, Any, None] | None = None
    settling: list[Coroutine[Any, Any, Outcome]] = field(default_factory=list)
    """The ledger's questions about Pods, each with its answer under way or yet to be asked."""

    def __post_init__(self) -> None:
        self.count = count = self.rng.randint(1, 3)
        self.both = self.rng.random() < 0.5
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
        self.version += 1
        if isinstance(changed, Pod):
            changed.version = self.version
        obj = changed.as_object(self.version)
        self.events[obj["kind"]].append((kind, obj))

    async def list(self, _: Any, namespace: str = "", *, field_selector: str = "", **__: Any) -> Object:
        """All Pods have the label.  The answer about a single one takes its time."""
        found = [
            each.as_object(each.version)
            for each in self.pods.values()
            if namespace in ("", each.key.namespace) and field_selector in ("", f"metadata.name={each.key.name}")
        ]
        if field_selector:
            await Stepped()
        return {"items": found, "metadata": {}}

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
        """Whoever moves the StatefulSet: one ordinal less there, one more here, in one order or the other.

        Or all of them here while all are there, so that who comes first may go.
        """
        old, new = self.sets[OLD], self.sets[NEW]
        if self.both:
            new.start, new.replicas = 0, self.count
            self.tell(new)
        elif self.rng.random() < 0.5 and old.replicas:
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
        """A process begins to lead, whose caches are a list of now or of before."""
        if self.leading is not None:
            self.leading.close()
        while self.settling:
            self.settling.pop().close()
        self.manager = Managed(self, clock=Stepped())
        self.ledger = OrdinalLedger(self.manager)
        self.ledger.controller.run = partial(Stepped().sleep, float("inf"))  # type: ignore[method-assign]
        self.ledger._not_applied.subscribe(lambda key: self.settling.append(self.ledger.settle(key)))
        store = self.manager.caches.store
        self.held = store(kinds.PENDING_PODS)
        self.stores = {"Pod": (self.held, store(PODS)), "StatefulSet": (store(SETS),)}
        self.queue = set()
        self.held.subscribe(self.changed)
        self.ledger.changed.subscribe(self.queue.add)
        for each in self.manager.caches.stores.values():
            each.synced.set()
        self.seen = dict.fromkeys(self.events, 0)
        for kind, events in self.events.items():
            self.watch(kind, len(events) - self.rng.randint(0, 8))
        self.leading = self.manager.leading("ordinal ledger")()
        self.lead()

    def lead(self) -> None:
        """What runs in the process that leads goes on for one step: it waits for its cache first."""
        assert self.leading is not None
        self.leading.send(None)

    def ask(self) -> None:
        """A question of the ledger about a Pod is asked, or its answer comes."""
        question = self.rng.choice(self.settling)
        try:
            question.send(None)
        except StopIteration:
            self.settling.remove(question)

    def changed(self, delta: Delta) -> None:
        """The loop looks at Pods with the gate that are created or changed in anything but conditions."""
        old, new = delta.old, delta.new
        if new is not None and is_gated(new) and (old is None or told(old) != told(new)):
            self.queue.add(key_of(new))

    def watch(self, kind: str, count: int) -> None:
        before, self.seen[kind] = self.seen[kind], min(len(self.events[kind]), self.seen[kind] + max(0, count))
        for change, obj in self.events[kind][before : self.seen[kind]]:
            for store in self.stores[kind]:
                store.remove(obj) if change == "DELETED" else store.apply(obj)
                store.resource_version = obj["metadata"]["resourceVersion"]

    def catch_up(self) -> None:
        for kind, events in self.events.items():
            self.watch(kind, len(events))

    def look(self, key: Key, outcome: str) -> None:
        """One reconcile.  What was not carried out is tried again."""
        self.queue.discard(key)
        obj = self.held.get(key)
        if obj is None or not is_gated(obj):
            return
        answer = self.ledger.decide(Facts(obj, namespace(), at_admission=False, objects={}))
        if not isinstance(answer, Release):
            return
        self.in_order(obj)
        try:
            with self.ledger.sending(obj):
                self.patch(obj, outcome)
        except ApiError:
            self.queue.add(key)

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
        """`lost` has its effect, and the answer is lost; `unsent` has none, and nobody knows.

        `stale` does not apply, since another gate has just left the Pod.
        """
        if outcome == "refused":
            text = 'admission webhook "x" denied the request: no'
            raise error_from_status({"code": 403, "reason": "Forbidden", "message": text})
        if outcome == "unsent":
            raise error_from_status({"code": 504, "reason": "Timeout", "message": "timed out"})
        pod = self.pods.get(key_of(obj))
        if pod is None:
            raise error_from_status({"code": 404, "reason": "NotFound", "message": "gone"})
        if pod.uid != uid_of(obj) or not pod.gated or outcome == "stale":
            raise error_from_status({"code": 422, "reason": "Invalid", "message": "a test failed"})
        pod.gated = False
        self.tell(pod)
        self.check()
        if outcome == "lost":
            raise error_from_status({"code": 504, "reason": "Timeout", "message": "timed out"})
        self.held.assume(pod.as_object(pod.version))

    # What happens.

    def step(self) -> None:
        rng = self.rng
        pods = list(self.pods.values())
        match rng.randrange(40):
            case 0 | 1 | 2 | 3 | 4 | 5:
                self.controller(rng.choice(list(self.sets.values())))
            case 6 | 7 | 8 | 9 | 10 if pods:
                self.kubelet(rng.choice(pods))
            case 11 | 12:
                self.move_on()
            case 13 | 14 if pods:  # a Node fails, or somebody deletes it
                self.end(rng.choice(pods))
            case 15 if pods:
                pod = rng.choice(pods)
                if pod.ready:
                    pod.ready = False
                    self.tell(pod)
            case 16:
                set_ = rng.choice(list(self.sets.values()))
                set_.agrees = not set_.agrees
                self.tell(set_)
            case 17:
                self.begin()
            case 18 | 19 | 20:
                self.lead()
            case 21 | 22 | 23 | 24 | 25 | 26 | 27 | 28:
                self.watch(rng.choice(list(self.events)), rng.randint(1, 4))
            case 29 | 30 if self.settling:
                self.ask()
            case _:  # several, while the watch is quiet
                for _ in range(rng.randint(1, 6)):
                    if self.queue:
                        how = rng.choice(["done", "done", "refused", "lost", "unsent", "stale"])
                        self.look(rng.choice(sorted(self.queue)), how)

    def settle(self) -> None:
        """No more faults; the move is completed.  Everybody does what there is to do until nothing changes."""
        old, new = self.sets[OLD], self.sets[NEW]
        old.replicas, new.start, new.replicas = 0, 0, self.count
        old.agrees = new.agrees = True
        self.tell(old)
        self.tell(new)
        for _ in range(200):
            before = self.version
            for set_ in self.sets.values():
                self.controller(set_)
            for pod in list(self.pods.values()):
                self.kubelet(pod)
            self.catch_up()
            self.lead()
            while self.settling:
                self.ask()
            for key in sorted(self.queue):
                self.look(key, "done")
            self.catch_up()
            if self.version == before and not self.queue:
                break
        assert {key: (pod.gated, pod.ready) for key, pod in self.pods.items()} == {
            Key("new", f"db-{ordinal}"): (False, True) for ordinal in range(self.count)
        }


def is_gated(pod: Object) -> bool:
    return {"name": GATE} in pod["spec"]["schedulingGates"]


def told(pod: Object) -> Object:
    """What of a Pod the loop compares."""
    meta = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
    return {"metadata": meta, "spec": pod["spec"]}


@pytest.mark.parametrize("seed", range(CASES))
def test_a_migration(seed: int) -> None:
    world = World(Random(seed))
    for _ in range(world.rng.randint(0, 300)):
        world.step()
    world.settle()


def test_who_creates_the_gate_holds_every_pod_at_its_creation() -> None:
    pod = Pod(Key("new", "db-0"), NEW, 0, "u", gated=False).as_object(1)
    answer = OrdinalGate().decide(Facts(pod, namespace(), at_admission=True, objects={}))
    assert getattr(answer, "reason", None) == "Starting"
