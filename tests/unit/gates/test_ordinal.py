"""The ledger of the gate class `ordinal`: what it has granted, when it takes that back, and whom it wakes."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from fakes.manager import Managed, turns
from objects.builders import Built, Pod, namespace, pod

from tollbar.decide.gates import ordinals
from tollbar.gates import Facts, Hold, Release
from tollbar.gates.ordinal import PODS, SETS, OrdinalLedger
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.errors import ApiError, error_from_status

GATE = "tollbar.dev/ordinal"
DENIED = {"code": 403, "reason": "Forbidden", "message": "no"}
LOST = {"code": 504, "reason": "Timeout", "message": "timed out"}
STALE = {"code": 422, "reason": "Invalid", "message": "a test failed"}


def member(set_: str, peer: str, ordinal: int = 0) -> Pod:
    built = pod(f"{set_}-{ordinal}").owned_by("StatefulSet", set_, api_version="apps/v1").labelled({GATE: ""})
    built = built.annotated({"tollbar.dev/ordinal-peer": peer})
    return built.gated(GATE).but("metadata.resourceVersion", "5").but("metadata.uid", f"uid-of-{set_}")


def stateful_set(name: str, peer: str) -> Object:
    meta = {"name": name, "namespace": "ml", "uid": name, "resourceVersion": "1"}
    annotations = {"tollbar.dev/ordinal-peer": peer}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {**meta, "annotations": annotations},
        "spec": {},
    }


OLD, NEW = member("old", "new"), member("new", "old")
SETS_OF_BOTH = (stateful_set("old", "new"), stateful_set("new", "old"))


class Client:
    """Lists these Pods."""

    def __init__(self, *found: Object) -> None:
        self.found = list(found)

    async def list(self, _: Any, namespace: str = "", *, field_selector: str = "", **__: Any) -> Object:
        named = [each for each in self.found if field_selector in ("", f"metadata.name={key_of(each).name}")]
        return {"items": [each for each in named if namespace in ("", key_of(each).namespace)], "metadata": {}}


class World(Managed):
    def __init__(self, *objects: Object, newest: tuple[Object, ...] = ()) -> None:
        super().__init__(Client(*newest))
        self.ledger = OrdinalLedger(self)
        self.fill((*objects, *SETS_OF_BOTH))
        self.woken: list[Key] = []
        self.not_applied: list[Key] = []
        self.ledger._not_applied.subscribe(self.not_applied.append)
        self.ledger.changed.subscribe(self.woken.append)

    def led(self) -> "World":
        self.ledger._leads = True
        return self

    def says(self, about: Object) -> Any:
        return self.ledger.decide(Facts(about, namespace(), at_admission=False, objects={}))

    def answered(self, about: Object, status: Object) -> None:
        with pytest.raises(ApiError), self.ledger.sending(about):
            raise error_from_status(status)


def test_what_is_granted_counts_before_the_watch_shows_it() -> None:
    world = World(OLD, NEW).led()
    assert isinstance(world.says(NEW), Release)
    assert world.says(OLD).subject == "Pod ml/new-0 to be gone"
    assert isinstance(world.says(NEW), Release)


def test_a_release_that_is_refused_is_taken_back_and_the_other_one_woken() -> None:
    world = World(OLD, NEW).led()
    world.says(NEW)
    world.answered(NEW, DENIED)
    assert world.woken == [key_of(OLD)]
    assert isinstance(world.says(OLD), Release)


def test_one_without_an_answer_may_come_to_pass_whatever_the_next_attempt_is_answered() -> None:
    world = World(OLD, NEW).led()
    world.says(NEW)
    world.answered(NEW, LOST)
    world.answered(NEW, STALE)
    assert isinstance(world.says(OLD), Hold)


def test_one_whose_patch_does_not_apply_counts_until_the_watch_tells_why() -> None:
    """Here somebody else has taken its gate off, and the cache does not show it yet."""
    world = World(OLD, NEW).led()
    world.says(NEW)
    world.answered(NEW, STALE)
    assert (world.woken, world.says(OLD).subject) == ([], "Pod ml/new-0 to be gone")
    world.caches.store(PODS).apply(NEW.but("spec.schedulingGates", []).but("metadata.resourceVersion", "6"))
    assert world.says(OLD).subject == "Pod ml/new-0 to be gone"
    world.caches.store(PODS).remove(NEW)
    assert isinstance(world.says(OLD), Release)


def ready(ordinal: int, *, is_ready: bool) -> Pod:
    of_set = member("new", "old", ordinal).but("spec.schedulingGates", [])
    return of_set.but("status.conditions", [{"type": "Ready", "status": str(is_ready)}])


async def test_one_whose_patch_did_not_apply_does_not_count_when_its_turn_is_over_before_the_next() -> None:
    """Another gate had left it at the same moment; then its predecessor is not Ready any more."""
    old, new = member("old", "new", 1), member("new", "old", 1)
    world = World(old, new, ready(0, is_ready=True), newest=(old, new)).led()
    assert isinstance(world.says(new), Release)
    world.answered(new, STALE)
    world.caches.store(PODS).apply(ready(0, is_ready=False).but("metadata.resourceVersion", "6"))
    assert (world.says(new).reason, world.says(old).subject) == ("PredecessorNotReady", "Pod ml/new-1 to be gone")
    world.woken.clear()
    assert world.not_applied == [key_of(new)]
    await world.ledger.settle(key_of(new))
    assert key_of(old) in world.woken
    assert world.says(new).reason == "PredecessorNotReady"
    assert world.says(old).subject == "Pod ml/old-0 to be Ready"


STILL_THERE: dict[str, tuple[Object, bool]] = {
    "somebody else has taken its gate off": (NEW.but("spec.schedulingGates", []), False),
    "it is another Pod of its name": (NEW.but("metadata.uid", "another"), False),
    "it has its gate": (NEW, True),
}


@pytest.mark.parametrize(("there", "may_go"), STILL_THERE.values(), ids=STILL_THERE)
async def test_one_whose_patch_did_not_apply_is_taken_back_only_with_its_gate(there: Object, may_go: bool) -> None:
    world = World(OLD, NEW, newest=(OLD, there)).led()
    world.says(NEW)
    world.answered(NEW, STALE)
    await world.ledger.settle(key_of(NEW))
    assert isinstance(world.says(OLD), Release) is may_go


@pytest.mark.parametrize("then", ["is under way", "has come to pass", "has no answer"])
async def test_one_that_is_sent_anew_meanwhile_is_not_taken_back(then: str) -> None:
    world = World(OLD, NEW, newest=(OLD, NEW)).led()
    world.says(NEW)
    world.answered(NEW, STALE)
    if then == "has no answer":
        world.answered(NEW, LOST)
    with world.ledger.sending(NEW) if then != "has no answer" else nullcontext():
        if then == "is under way":
            await world.ledger.settle(key_of(NEW))
    await world.ledger.settle(key_of(NEW))
    assert world.says(OLD).subject == "Pod ml/new-0 to be gone"


def test_of_a_stateful_set_little_is_kept_whatever_its_author_writes() -> None:
    world = World(OLD, NEW)
    large = Built(stateful_set("old", "new"))
    large = large.but("spec", {"ordinals": {"start": 3}, "template": {"spec": {"containers": [{"name": "x" * 1000}]}}})
    large = large.annotated({"tollbar.dev/ordinal-peer": "n/" + "x" * 1000, "example.com/note": "x" * 1000})
    world.caches.store(SETS).apply(large)
    kept = world.caches.store(SETS).get(Key("ml", "old"))
    assert kept is not None
    assert (len(str(kept)) < 600, kept["spec"], ordinals.peer_of(kept)) == (True, {"ordinals": {"start": 3}}, None)


def test_one_that_is_gone_is_forgotten() -> None:
    world = World(OLD, NEW).led()
    world.says(NEW)
    world.answered(NEW, LOST)
    world.caches.store(PODS).remove(NEW)
    assert world.woken == [key_of(OLD)]
    assert isinstance(world.says(OLD), Release)


def test_a_change_of_either_set_wakes_the_pods() -> None:
    world = World(OLD, NEW).led()
    world.caches.store(SETS).apply({**stateful_set("old", "other")})
    assert set(world.woken) == {key_of(OLD), key_of(NEW)}
    assert world.says(NEW).subject == "the annotation tollbar.dev/ordinal-peer: ml/new on StatefulSet ml/old"


async def test_who_begins_to_lead_grants_nothing_until_its_cache_has_what_was_released_before() -> None:
    world = World(OLD, NEW, newest=(NEW.but("metadata.resourceVersion", "9"),))
    assert world.says(NEW).reason == "Starting"
    granting = asyncio.Event()
    world.ledger.changed.subscribe(lambda _: granting.set())
    leading = asyncio.create_task(world.leading("ordinal ledger")())
    await turns()
    assert world.says(NEW).reason == "Starting"
    world.caches.store(PODS).resource_version = "9"
    await granting.wait()
    assert isinstance(world.says(NEW), Release)
    leading.cancel()
    await asyncio.gather(leading, return_exceptions=True)
    assert world.says(OLD).reason == "Starting"
