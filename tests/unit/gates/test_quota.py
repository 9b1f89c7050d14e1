"""The ledger of the gate class quota: what it counts, whom it lets go, and what it remembers of releases under way."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from fakes.manager import Managed, turns
from objects.builders import CREATED, Built, Pod, claim, device_class, namespace, pod, template

from tollbar.gates import Answer, ClusterCopy, Facts, GateExplanation, Hold, NotMine, Release
from tollbar.gates import quota as quotas
from tollbar.gates.quota import DOUBTFUL_FOR, LOOK_AGAIN, REFUSED_FOR, SETTLED, PodQuotas, QuotaLedger
from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, RetryAfter
from tollbar.runtime.client import PAGE_TEXT
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Conflict, Forbidden, ServerError, Unreachable, error_from_status

ENROLLED = namespace().labelled({"tollbar.dev/quota": ""})
OTHER = namespace("other").labelled({"tollbar.dev/quota": ""})
GATE = PodQuotas.name
ALL = Key("", "pods")
UNSEEN = Hold("QuotaUncounted", "the quotas of its namespace to be looked at")


class Clock(SystemClock):
    time = CREATED + 10.0

    def now(self) -> float:
        return self.time

    async def sleep(self, _seconds: float) -> None:
        raise AssertionError("it is waited for")


def asking(name: str, cpu: str = "1", *, gated: bool = True) -> Pod:
    made = pod(name).but("metadata.uid", f"uid-of-{name}").but("metadata.resourceVersion", "5")
    made = made.but("spec.containers", [{"name": "main", "resources": {"requests": {"cpu": cpu}}}])
    return made.gated(GATE) if gated else made


def quota(name: str = "q", **spec: Any) -> Object:
    body = {"limits": {"cpu": "2"}, **spec}
    meta = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", "generation": 1}
    return Built({"apiVersion": "tollbar.dev/v1alpha1", "kind": "PodQuota", "metadata": meta}, spec=body)


class World(Managed):
    def __init__(self, *objects: Object) -> None:
        self.time = Clock()
        super().__init__(clock=self.time)
        self.ledger: QuotaLedger = PodQuotas().ledger(self)
        self.woken: list[str] = []
        self.ledger.changed.subscribe(lambda key: self.woken.append(key.name))
        self.fill(objects)

    async def looks(self) -> set[str]:
        """Whom the ledger lets go at this look."""
        self.woken.clear()
        await self.ledger.reconcile(ALL)
        return set(self.woken)

    def says(self, name: str, of: Object = ENROLLED) -> Answer:
        found = self.caches.stores["counted pods"].get(Key("ml", name)) or {}
        return self.ledger.decide(Facts(found, of, at_admission=False, objects={}))

    def shows(self, obj: Object, version: str = "9") -> None:
        self.fill([Built(obj).but("metadata.resourceVersion", version)])


def fails(world: World, name: str, code: int, **status: Any) -> None:
    error = error_from_status({"code": code, **status})
    with pytest.raises(type(error)), world.ledger.sending(asking(name)):
        raise error


async def test_those_that_fit_go_and_the_others_say_what_for_they_wait() -> None:
    world = World(ENROLLED, quota(), asking("a"), asking("b"), asking("c"))
    assert world.says("a") == UNSEEN
    assert await world.looks() == {"a", "b"}
    assert (world.says("a"), world.says("c")) == (Release(), Hold("QuotaExceeded", "cpu in PodQuota q"))


async def test_a_pod_that_comes_later_is_asked_about_again_once_it_has_been_counted() -> None:
    world = World(ENROLLED, quota())
    await world.looks()
    world.shows(asking("a", "3"))
    before = world.says("a")
    await world.looks()
    now = Hold("QuotaTooSmall", "a PodQuota q that allows it as much cpu")
    assert (before, world.says("a")) == (replace(UNSEEN, again=1.0), now)


@pytest.mark.parametrize("cluster", [(), (ENROLLED, quota(), asking("a"))], ids=["nothing", "a Pod"])
async def test_it_has_begun_when_it_has_looked_once_and_again_when_its_process_leads_again(
    monkeypatch: pytest.MonkeyPatch, cluster: tuple[Object, ...]
) -> None:
    monkeypatch.setattr(Clock, "sleep", SystemClock.sleep)
    world = World(*cluster)
    lists: Any = Lists()
    world.client = lists
    steps = []
    for _ in range(2):
        begun = asyncio.create_task(world.ledger.begun())
        await turns()
        before = begun.done()
        running = asyncio.create_task(world.leading("quota ledger")())
        await begun
        steps.append((before, [key.name for key in world.ledger.may_go()]))
        running.cancel()
        await asyncio.wait({running})
    assert steps == [(False, ["a"] if cluster else [])] * 2


async def test_what_is_granted_counts_until_the_cache_shows_the_release_and_after_it() -> None:
    world = World(ENROLLED, quota(), asking("a"), asking("b", "2"))
    assert await world.looks() == {"a"}
    assert await world.looks() == set()
    world.shows(asking("a", gated=False))
    assert await world.looks() == set()
    world.remove(asking("a", gated=False))
    assert await world.looks() == {"b"}


async def test_what_makes_no_difference_is_not_decided_about_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a release others may go by the shares that there are then, and as time goes by they lose their patience."""
    world, decided = World(ENROLLED, quota(), asking("a"), asking("b", "2")), 0
    admit = quotas.admit

    def counted(*arguments: Any) -> Any:
        nonlocal decided
        decided += 1
        return admit(*arguments)

    monkeypatch.setattr(quotas, "admit", counted)
    steps: list[tuple[Callable[[], object], set[str]]] = [
        (lambda: None, {"a"}),
        (lambda: None, set()),
        (lambda: world.shows(asking("a", gated=False)), set()),
        (lambda: world.shows(asking("b", "2").annotated({"seen": "again"})), set()),
        (lambda: world.shows(Built(quota()).but("status.running", 1)), set()),
        (lambda: world.shows(ENROLLED.annotated({"seen": "again"})), set()),
        (lambda: setattr(world.time, "time", world.time.time + LOOK_AGAIN), set()),
        (lambda: world.remove(asking("a", gated=False)), {"b"}),
    ]
    found = []
    for change, _ in steps:
        change()
        found.append((await world.looks(), decided))
    assert found == [(go, count) for (_, go), count in zip(steps, (1, 2, 2, 2, 2, 2, 3, 4), strict=True)]


async def test_a_pod_that_ends_makes_room() -> None:
    runs = asking("r", "2", gated=False)
    world = World(ENROLLED, quota(), runs, asking("a"))
    assert await world.looks() == set()
    world.shows(runs.but("status.phase", "Succeeded"))
    assert await world.looks() == {"a"}


async def test_a_pod_that_is_deleted_while_it_waits_takes_nothing() -> None:
    going = asking("a", "2").but("metadata.deletionTimestamp", "2026-01-01T00:00:00Z")
    assert await World(ENROLLED, quota(), going, asking("b")).looks() == {"b"}


async def test_a_release_that_other_admission_refuses_gives_its_room_back_for_a_while() -> None:
    world = World(ENROLLED, quota(), asking("a", "2"), asking("b", "1"))
    assert await world.looks() == {"a"}
    fails(world, "a", 403, reason="Forbidden", message="no")
    assert await world.looks() == {"b"}
    assert world.says("a") == Hold("QuotaRefused", "other admission to accept its release")
    world.remove(asking("b", "1"))
    assert await world.looks() == set()
    world.time.time += REFUSED_FOR
    assert await world.looks() == {"a"}


@pytest.mark.parametrize("code", [500, 503, 409, 404])
async def test_a_release_of_which_nobody_knows_whether_it_came_to_pass_keeps_its_room(code: int) -> None:
    world = World(ENROLLED, quota(), asking("a", "2"), asking("b"))
    await world.looks()
    fails(world, "a", code)
    assert (await world.looks(), world.says("a")) == (set(), Release())


ANSWERS: dict[str, tuple[BaseException, set[str]]] = {
    "none": (Unreachable("cut off"), set()),
    "an error of the server": (ServerError(504, "Timeout", "late"), set()),
    "none, since this process ceased to lead": (asyncio.CancelledError(), set()),
    "none, since it was never sent": (Unreachable("no connection", sent=False), {"b"}),
    "the Pod has changed": (Conflict(409, "Conflict", "changed"), {"b"}),
}


@pytest.mark.parametrize(("first", "others"), ANSWERS.values(), ids=ANSWERS)
async def test_a_refusal_gives_no_room_back_while_the_release_before_it_may_come_to_pass(
    first: BaseException, others: set[str]
) -> None:
    world = World(ENROLLED, quota(), asking("a", "2"), asking("b"))
    await world.looks()
    for error in (first, Forbidden(403, "Forbidden", "no")):
        with pytest.raises(type(error)), world.ledger.sending(asking("a")):
            raise error
    assert await world.looks() == others
    world.time.time += DOUBTFUL_FOR
    fails(world, "a", 403)
    world.remove(asking("b"))
    world.shows(asking("c"))
    assert await world.looks() == {"c"}


async def test_a_webhook_that_denies_with_a_code_of_the_server_refuses() -> None:
    world = World(ENROLLED, quota(), asking("a", "2"), asking("b"))
    await world.looks()
    fails(world, "a", 500, message='admission webhook "x" denied the request: no')
    assert await world.looks() == {"b"}


async def test_many_pods_are_counted_in_turns_and_decided_about_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "COUNTED_AT_ONCE", 2)
    world = World(ENROLLED, quota(limits={"pods": 3}), *(asking(name) for name in "abcdefgh"))
    others = 0

    async def other() -> None:
        nonlocal others
        while not world.woken:
            others += 1
            if others == 2:
                world.shows(asking("ran", gated=False))
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await world.looks() == {"a", "b"}
    await task
    assert others >= 4


async def test_a_namespace_without_the_label_has_no_quota() -> None:
    world = World(namespace(), quota(), asking("a", "9"))
    found = [await world.looks(), world.says("a", namespace())]
    world.time.time = CREATED + SETTLED
    assert [*found, world.says("a", namespace())] == [set(), replace(UNSEEN, again=20.0), NotMine()]


COVERS: dict[str, tuple[Object, bool]] = {
    "everything": ({}, True),
    "Pods with a label": ({"podSelector": {"matchLabels": {"team": "red"}}}, True),
    "other Pods": ({"podSelector": {"matchLabels": {"team": "blue"}}}, False),
    "namespaces with a label": ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ml"}}}, True),
    "other namespaces": ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "x"}}}, False),
    "nothing, since it is not valid": ({"limits": {"cpu": "much"}}, False),
}


@pytest.mark.parametrize(("spec", "holds"), COVERS.values(), ids=COVERS)
async def test_which_pods_a_quota_covers(spec: Object, holds: bool) -> None:
    world = World(ENROLLED, quota(**spec), asking("a", "3").labelled(team="red"))
    assert (await world.looks() == set()) is holds


async def test_a_limit_that_is_raised_lets_more_go() -> None:
    world = World(ENROLLED, quota(), asking("a", "3"))
    assert await world.looks() == set()
    world.shows(quota(limits={"cpu": "3"}))
    assert await world.looks() == {"a"}


async def test_the_labels_of_a_namespace_count_as_they_are_now() -> None:
    world = World(ENROLLED, quota(namespaceSelector={"matchLabels": {"team": "red"}}), asking("a", "3"))
    world.shows(ENROLLED.labelled({"team": "red", "tollbar.dev/quota": ""}))
    assert await world.looks() == set()


async def test_it_looks_again_while_pods_wait_since_patience_is_lost_without_an_event() -> None:
    world = World(ENROLLED, quota(), asking("a", "3"))
    assert await world.ledger.reconcile(ALL) == RetryAfter(5.0)
    world.remove(asking("a", "3"))
    assert await world.ledger.reconcile(ALL) == DONE


async def test_what_changes_what_is_used_is_looked_at() -> None:
    world = World(ENROLLED, quota(), asking("a"))
    queue = world.ledger.controller.queue
    world.ledger.controller.connect()
    changes: list[Callable[[], object]] = [
        lambda: None,
        lambda: world.shows(asking("b")),
        lambda: world.remove(asking("b")),
        lambda: world.shows(quota(limits={"cpu": "5"})),
        lambda: world.shows(Built(quota(limits={"cpu": "5"})).but("status.used", {"cpu": "1"}), "10"),
        lambda: world.shows(namespace(), "11"),
        lambda: world.shows(asking("a").but("status.conditions", [{"type": "Ready"}]), "12"),
    ]
    found = []
    for change in changes:
        change()
        found.append(bool(queue._due))
        queue._due.clear()
    assert found == [True, True, True, True, False, True, False]


class Lists:
    """A client that answers lists of Pods with a page for each of these versions."""

    def __init__(self, *versions: int) -> None:
        self.versions = versions
        self.asked: list[tuple[str, str]] = []
        self.bounds: set[float] = set()

    async def list(self, resource: Any, namespace: str, *, continue_: str, most: float, **_: Any) -> Object:
        self.asked.append((resource.plural, namespace))
        self.bounds.add(most)
        place = int(continue_ or 0)
        items = [{"metadata": {"resourceVersion": str(each)}} for each in self.versions[place : place + 1]]
        more = str(place + 1) if place + 1 < len(self.versions) else ""
        return {"metadata": {"continue": more}, "items": items}


@pytest.mark.parametrize(("seen", "waits"), [("7", False), ("6", True)])
async def test_who_begins_to_lead_waits_until_its_cache_has_all_that_was_released(
    monkeypatch: pytest.MonkeyPatch, seen: str, waits: bool
) -> None:
    world = World(ENROLLED, namespace("other"), quota())
    lists: Any = Lists(7, 3)
    world.client = lists
    world.caches.stores["counted pods"].resource_version = seen
    runs = AsyncMock()
    monkeypatch.setattr(world.ledger.controller, "run", runs)
    with pytest.raises(AssertionError, match="waited for") if waits else nullcontext():
        await world.leading("quota ledger")()
    assert (lists.asked, runs.await_count) == ([("pods", "ml")] * 2, 0 if waits else 1)


async def test_what_is_listed_then_comes_a_page_of_bounded_length_at_one_time_and_waits_for_no_other_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tenants say how large Pods are, and how much is read for theirs."""
    world = World(ENROLLED, quota())
    lists: Any = Lists(7, 3)
    world.client = lists
    world.reading = asyncio.Semaphore(0)
    world.listing = asyncio.Semaphore(0)
    world.caches.stores["counted pods"].resource_version = "7"
    monkeypatch.setattr(world.ledger.controller, "run", AsyncMock())
    leading = asyncio.create_task(world.leading("quota ledger")())
    await turns()
    before = len(lists.asked)
    world.listing.release()
    await leading
    assert (before, len(lists.asked), lists.bounds) == (0, 2, {PAGE_TEXT})


async def test_who_leads_again_remembers_nothing_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ENROLLED, quota(), asking("a", "2"))
    await world.looks()
    lists: Any = Lists()
    world.client = lists

    async def runs() -> None:
        assert isinstance(world.says("a"), Hold)

    monkeypatch.setattr(world.ledger.controller, "run", runs)
    await world.leading("quota ledger")()
    assert isinstance(world.says("a"), Hold)


def ages(world: World) -> None:
    world.time.time += DOUBTFUL_FOR


FULL = Hold("QuotaExceeded", "cpu in PodQuota q")
ANOTHER = asking("a").but("metadata.uid", "another")
TAKES_IT = asking("b", "2", gated=False)
"""Released by another process that leads meanwhile, into room that `a` may have taken."""
LEADS_AGAIN: dict[str, list[tuple[Callable[[World], object], set[str], Answer]]] = {
    "it is sent again where there is room": [(lambda _: None, {"a"}, Release())],
    "it keeps its room, and is not sent where that was given to others": [
        (lambda world: world.fill([TAKES_IT]), set(), FULL),
        (lambda world: world.remove(TAKES_IT), {"a"}, Release()),
    ],
    "it waits when it cannot come to pass any more": [
        (lambda world: (world.fill([TAKES_IT]), ages(world)), set(), FULL),
        (lambda world: world.remove(TAKES_IT), {"c"}, FULL),
    ],
    "its Pod is gone, and another one has its name": [
        (lambda world: (world.remove(asking("a")), world.fill([ANOTHER])), {"c"}, FULL),
    ],
    "it comes to pass": [
        (lambda world: (world.shows(asking("a", gated=False)), ages(world)), set(), replace(UNSEEN, again=1.0)),
        (lambda world: world.fill([quota(limits={"cpu": "3"})]), {"c"}, replace(UNSEEN, again=1.0)),
    ],
}


@pytest.mark.parametrize("steps", LEADS_AGAIN.values(), ids=LEADS_AGAIN)
async def test_who_leads_again_counts_a_release_of_before_that_had_no_answer(
    monkeypatch: pytest.MonkeyPatch, steps: list[tuple[Callable[[World], object], set[str], Answer]]
) -> None:
    world = World(ENROLLED, quota(), asking("a"))
    await world.looks()
    with pytest.raises(Unreachable), world.ledger.sending(asking("a")):
        raise Unreachable("cut off")
    world.fill([asking("c", "2").but("spec.priority", 9)])
    lists: Any = Lists()
    world.client = lists
    monkeypatch.setattr(world.ledger.controller, "run", AsyncMock())
    await world.leading("quota ledger")()
    for change, go, says in steps:
        change(world)
        assert (await world.looks(), world.says("a")) == (go, says)


async def test_when_a_namespace_was_served_is_known_for_as_long_as_it_makes_a_difference() -> None:
    world = World(ENROLLED, quota("fair", sharing="Fair", patience="10m"), quota("first"), asking("a"))
    await world.looks()
    assert world.ledger._served.keys() == {("fair", "ml"), ("first", "ml")}
    world.time.time += 600.0
    await world.looks()
    assert world.ledger._served == {}


FAIR = {"limits": {"cpu": "2"}, "sharing": "Fair", "patience": "10m"}
FLICKERS: dict[str, tuple[Callable[["World"], object], Callable[["World"], object]]] = {
    "an invalid edit": (
        lambda world: world.fill([quota(**{**FAIR, "limits": {}})]),
        lambda world: world.fill([quota(**FAIR)]),
    ),
    "it does not share fairly": (
        lambda world: world.fill([quota(**{**FAIR, "sharing": "FirstCome"})]),
        lambda world: world.fill([quota(**FAIR)]),
    ),
    "its selector covers nothing": (
        lambda world: world.fill([quota(**FAIR, namespaceSelector={"matchLabels": {"no": "such"}})]),
        lambda world: world.fill([quota(**FAIR)]),
    ),
    "its patience is shorter": (
        lambda world: (
            world.fill([quota(**{**FAIR, "patience": "1s"})]),
            setattr(world.time, "time", world.time.time + 2.0),
        ),
        lambda world: world.fill([quota(**FAIR)]),
    ),
    "its patience is raised": (
        lambda world: world.fill([quota(**{**FAIR, "patience": "1h"})]),
        lambda world: setattr(world.time, "time", world.time.time + 900.0),
    ),
}


@pytest.mark.parametrize(("begin", "end"), FLICKERS.values(), ids=FLICKERS)
async def test_a_namespace_that_was_served_stays_so_through_a_flicker_of_the_quota(
    begin: Callable[[World], object], end: Callable[[World], object]
) -> None:
    """Both namespaces have a Pod that has waited for longer than any patience; of `ml` one went a moment ago."""
    world = World(ENROLLED, OTHER, quota(**FAIR), asking("a"), asking("b"))
    world.time.time += 7200.0
    assert await world.looks() == {"a", "b"}
    for change in (begin, end):
        change(world)
        await world.looks()
    world.fill([asking("waits"), asking("other's").but("metadata.namespace", "other")])
    world.time.time += 5.0
    assert await world.looks() == set()
    world.remove(asking("a"))
    assert await world.looks() == {"other's"}


def test_nothing_is_told_of_a_pod_that_has_ended_in_its_gate() -> None:
    ended = asking("a").phase("Failed")
    world = World(ENROLLED, quota(), ended)
    facts = Facts(ended, ENROLLED, at_admission=False, objects={})
    assert PodQuotas().explain(facts, ClusterCopy(world.caches.store, CREATED)) == GateExplanation(NotMine())


def test_every_pod_of_an_enrolled_namespace_is_held_at_its_creation() -> None:
    gate = PodQuotas()
    answers = [gate.decide(Facts(asking("a"), each, at_admission=True, objects={})) for each in (ENROLLED, namespace())]
    assert answers == [UNSEEN, UNSEEN]


GPUS = "gpu.deviceclass.resource.k8s.io/devices"
ONE, TWO = claim("one").request("gpu"), claim("two").request("gpu").request("gpu")
TEMPLATE, TWICE = template("each").request("gpu"), template("twice").request("gpu").request("gpu")


def limited(number: int = 2, name: str = GPUS) -> Object:
    return quota(limits={name: number})


def generated(name: str, made: Object) -> Pod:
    """A Pod whose claim from the template has been made."""
    return asking(name).templates("each").generated("each", made["metadata"]["name"])


DEVICES: dict[str, tuple[tuple[Object, ...], set[str], dict[str, Hold]]] = {
    "claims by name": (
        (limited(), ONE, TWO, asking("a").claims("one"), asking("b").claims("two")),
        {"a"},
        {"b": Hold("QuotaExceeded", f"{GPUS} in PodQuota q")},
    ),
    "a claim that two Pods use": (
        (limited(), TWO, asking("a").claims("two"), asking("b").claims("two")),
        {"a", "b"},
        {},
    ),
    "a claim that a Pod refers to twice": (
        (
            limited(),
            TWO,
            asking("a").but("spec.resourceClaims", [{"name": x, "resourceClaimName": "two"} for x in "xy"]),
        ),
        {"a"},
        {},
    ),
    "claims by template, one for each reference": (
        (limited(3), TEMPLATE, TWICE, asking("a").templates("each", "twice"), asking("b").templates("each")),
        {"a"},
        {"b": Hold("QuotaExceeded", f"{GPUS} in PodQuota q")},
    ),
    "a claim that is not needed": (
        (limited(0), asking("a").templates("each").generated("each", None)),
        {"a"},
        {},
    ),
    "extended resources of a class, by their name": (
        (limited(), device_class().backing("example.com/gpu"), asking("a").wants({"example.com/gpu": "3"})),
        set(),
        {"a": Hold("QuotaTooSmall", f"a PodQuota q that allows it as much {GPUS}")},
    ),
    "extended resources of a class, by its name": (
        (limited(), asking("a").wants({"deviceclass.resource.kubernetes.io/gpu": "3"})),
        set(),
        {"a": Hold("QuotaTooSmall", f"a PodQuota q that allows it as much {GPUS}")},
    ),
    "an extended resource counts devices of claims": (
        (
            limited(2, "example.com/gpu"),
            device_class().backing("example.com/gpu"),
            TWO,
            asking("a").claims("two"),
            asking("b").wants({"example.com/gpu": "1"}),
        ),
        {"a"},
        {"b": Hold("QuotaExceeded", "example.com/gpu in PodQuota q")},
    ),
    "an extended resource that no class stands for": (
        (limited(1), asking("a").wants({"example.com/gpu": "3"})),
        {"a"},
        {},
    ),
    "no claim of that name": (
        (limited(), asking("a").claims("absent")),
        set(),
        {"a": Hold("QuotaClaimMissing", "ResourceClaim absent")},
    ),
    "no template of that name": (
        (limited(), asking("a").templates("absent")),
        set(),
        {"a": Hold("QuotaClaimMissing", "ResourceClaimTemplate absent")},
    ),
    "no claim, and the extended resource of a class is limited": (
        (limited(2, "example.com/gpu"), device_class().backing("example.com/gpu"), asking("a").claims("absent")),
        set(),
        {"a": Hold("QuotaClaimMissing", "ResourceClaim absent")},
    ),
    "no claim, and devices are not limited": (
        (quota(limits={"cpu": 1, "example.com/gpu": 1}), asking("a").claims("absent")),
        {"a"},
        {},
    ),
    "more claims than anybody looks up": (
        (limited(), asking("a").claims(*(f"c{number}" for number in range(129)))),
        set(),
        {"a": Hold("QuotaClaimMissing", "fewer claims: more than 128 are not looked up")},
    ),
    "a reference of a kind that is yet to be": (
        (limited(), asking("a").but("spec.resourceClaims", [{"name": "new"}])),
        set(),
        {"a": Hold("QuotaClaimMissing", "a claim by name or by template")},
    ),
}


@pytest.mark.parametrize(("objects", "go", "held"), DEVICES.values(), ids=DEVICES)
async def test_devices(objects: tuple[Object, ...], go: set[str], held: dict[str, Hold]) -> None:
    world = World(ENROLLED, *objects)
    assert await world.looks() == go
    assert {name: world.says(name) for name in held} == held


async def test_a_claim_that_was_made_for_a_pod_counts_as_its_template_did() -> None:
    world = World(ENROLLED, limited(), TEMPLATE, asking("a").templates("each"), asking("b").templates("each"))
    assert await world.looks() == {"a", "b"}
    made = claim("made").request("gpu").generated_for(asking("a"), "each")
    world.fill([generated("a", made), made])
    world.remove(TEMPLATE)
    world.fill([asking("c").claims("one"), ONE])
    assert await world.looks() == set()


async def test_pods_of_one_template_are_alike_whatever_their_claims_are_called() -> None:
    made = [claim(f"made-{name}").request("gpu").generated_for(asking(name), "each") for name in "ab"]
    world = World(ENROLLED, limited(0), *made, *(generated(each, of) for each, of in zip("ab", made, strict=True)))
    await world.looks()
    assert [len(line) for line in world.ledger.counts.waiting] == [2]


COMES: dict[str, tuple[Pod, Object, Object]] = {
    "a claim": (asking("a").claims("one"), TWO, ONE),
    "a template": (asking("a").templates("each"), TWICE, TEMPLATE),
}


@pytest.mark.parametrize(("waiting", "another", "its_own"), COMES.values(), ids=COMES)
async def test_what_comes_lets_its_pod_go(waiting: Pod, another: Object, its_own: Object) -> None:
    world = World(ENROLLED, limited(), waiting, asking("b"))
    world.ledger.controller.connect()
    await world.looks()
    queue = world.ledger.controller.queue
    queue._due.clear()
    world.fill([another])
    assert not queue._due
    world.fill([its_own])
    assert queue._due
    assert await world.looks() == {"a"}


async def test_a_class_that_changes_is_looked_at() -> None:
    world = World(ENROLLED, limited(), device_class())
    world.ledger.controller.connect()
    await world.looks()
    queue = world.ledger.controller.queue
    queue._due.clear()
    world.fill([device_class().backing("example.com/gpu").but("metadata.generation", 2)])
    assert queue._due


async def test_a_class_that_begins_to_stand_for_a_resource() -> None:
    world = World(ENROLLED, limited(), device_class(), asking("a").wants({"example.com/gpu": "2"}))
    assert await world.looks() == {"a"}
    world.fill([asking("b").claims("one"), ONE, device_class().backing("example.com/gpu")])
    assert await world.looks() == set()


async def test_a_claim_that_is_gone_counts_on_for_a_pod_that_was_let_go_with_it() -> None:
    world = World(ENROLLED, limited(), TWO, asking("a").claims("two"))
    assert await world.looks() == {"a"}
    world.shows(asking("a", gated=False).claims("two"))
    world.remove(TWO)
    world.fill([asking("b").claims("one"), ONE])
    assert await world.looks() == set()
    world.remove(asking("a"))
    assert await world.looks() == {"b"}


async def test_who_begins_to_lead_waits_for_claims_where_devices_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(ENROLLED, limited())
    lists: Any = Lists()
    world.client = lists
    monkeypatch.setattr(world.ledger.controller, "run", AsyncMock())
    await world.leading("quota ledger")()
    assert [plural for plural, _ in lists.asked] == ["pods", "resourceclaims", "resourceclaimtemplates"]


async def test_a_decision_that_has_failed_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world, failing = World(ENROLLED, quota(), asking("a")), [RuntimeError("once")]
    admit = quotas.admit

    def failing_once(*arguments: Any) -> Any:
        if failing:
            raise failing.pop()
        return admit(*arguments)

    monkeypatch.setattr(quotas, "admit", failing_once)
    with pytest.raises(RuntimeError, match="once"):
        await world.ledger.reconcile(ALL)
    assert await world.looks() == {"a"}
