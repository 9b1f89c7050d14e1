"""What becomes of a Pod that a gate class holds: every answer, bad ones among them, and what wakes it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from fakes.clocks import Aged
from fakes.manager import Managed, drained, turns
from objects import patching
from objects.builders import Pod, namespace, pod, scheduling_gate
from unit.gates.zones import BATCH, MAPS, ZONE, Reporting, Zone, config_map, saying

from tollbar.gates import Answer, Facts, Gate, Hold, Ledger, Mutation, NotMine, Reads, Release, controller
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.plan import DONE, Failed, Outcome, Requeue, RetryAfter
from tollbar.model.resources import CONFIG_MAPS
from tollbar.runtime.caches import Cached
from tollbar.runtime.errors import ApiError, NotLeading, error_from_status
from tollbar.runtime.packed import Packed
from tollbar.runtime.store import Store
from tollbar.views import kinds

NAME = Zone.name
HELD = pod().gated(NAME).labelled(BATCH).but("metadata.resourceVersion", "6")
KEY = key_of(HELD)
ML, MAP = namespace(), config_map()


class Api:
    """Applies the patch, or refuses it with these Statuses one after the other."""

    pods: Store

    def __init__(self, refusals: tuple[Object, ...]) -> None:
        self.refusals = list(refusals)
        self.patches: list[Patch] = []

    async def patch(self, _resource: Any, _name: str, patch: Patch, **_: Any) -> Object:
        self.patches.append(patch)
        if self.refusals:
            raise error_from_status(self.refusals.pop(0))
        return Pod(patching.apply(self.pods.get(KEY) or {}, patch)).but("metadata.resourceVersion", "7")


class World(Managed):
    def __init__(
        self,
        objects: tuple[Object, ...],
        gate: Gate,
        age: float = 1.0,
        refusals: tuple[Object, ...] = (),
        leader: Any = None,
    ) -> None:
        self.api, self.time = Api(refusals), Aged(age)
        super().__init__(self.api, clock=self.time)
        self.leader_client = leader or self.client
        self.controller = controller.setup(self, self.gatherer(), gate)
        self.api.pods = self.caches.store(kinds.PENDING_PODS)
        self.fill(objects)

    async def outcome(self) -> tuple[Outcome, list[str]]:
        self.told.said.clear()
        return await self.controller.reconcile(KEY), list(self.told.said)

    def counted(self, metric: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(metric, {"gate": NAME, **labels})


def said(text: str) -> str:
    reason, _, note = text.partition(": ")
    return f"Pod web: {reason}: {NAME}: {note}"


RELEASED = said("GateReleased: released with zone a")
AS_IT_IS = said("GateReleased: released")
WAITS = "key zone of ConfigMap ml/zone"
DENIED = {"code": 403, "reason": "Forbidden", "message": "no"}


@dataclass
class Given:
    cluster: tuple[Object, ...] = (HELD, ML)
    gate: Gate = Zone()  # noqa: RUF009
    age: float = 1.0
    refusals: tuple[Object, ...] = ()

    def world(self, leader: Any = None) -> World:
        return World(self.cluster, self.gate, self.age, self.refusals, leader)


def raising(facts: Facts) -> Any:
    return facts.pod["nope"]


CLASS = "gate class unit.gates.zones.Saying"
RAISED = f"{CLASS} raised KeyError: 'nope'"
FORBIDDEN = f"{CLASS} asks for a change that the API server refuses: "
REPORT = scheduling_gate("zone", NAME).expiring("60s", "Report")

CASES: dict[str, tuple[Given, Outcome, list[str], int]] = {
    "it is released with its change": (Given((HELD, ML, MAP)), DONE, [RELEASED], 1),
    "it waits, and says so after two seconds": (
        Given(age=2.0),
        RetryAfter(58.0),
        [said(f"SchedulingHeld: waiting for {WAITS}")],
        0,
    ),
    "it waits for its namespace": (Given((HELD,)), RetryAfter(1.0), [], 0),
    "at maxHold it is released without": (
        Given(age=60.0),
        DONE,
        [said(f"GateOverdue: released after 60s, while Tollbar still waits for {WAITS}"), AS_IT_IS],
        1,
    ),
    "at maxHold it is only reported where the SchedulingGate says so": (
        Given((HELD, ML, REPORT), age=60.0),
        DONE,
        [said(f"GateOverdue: held for more than 60s, waiting for {WAITS}")],
        0,
    ),
    "while its SchedulingGate is not valid it is held as the class says": (
        Given(
            (HELD, ML, scheduling_gate("zone", NAME).expiring("soon")),
            saying(lambda _: Hold("Missing", WAITS), max_hold="10m", on_expiry="Report"),
            age=60.0,
        ),
        RetryAfter(540.0),
        [said(f"SchedulingHeld: waiting for {WAITS}")],
        0,
    ),
    "a Pod that is not its business is released as it is": (
        Given((HELD.but("metadata.labels", None), ML)),
        DONE,
        [AS_IT_IS],
        1,
    ),
    "a Pod that opts out is released as it is": (
        Given((HELD.labelled({"tollbar.dev/skip": "true"}), ML)),
        DONE,
        [AS_IT_IS],
        1,
    ),
    "a Pod without the gate is left alone": (Given((HELD.but("spec.schedulingGates", None), ML, MAP)), DONE, [], 0),
    "gates of others stay": (
        Given((pod().gated("a.dev/x", NAME).labelled(BATCH), ML, MAP)),
        DONE,
        [f"{RELEASED}; still waiting for a.dev/x"],
        1,
    ),
    "a class that raises holds the Pod, and is named": (
        Given(gate=saying(raising)),
        RetryAfter(1.0),
        [said(f"GateFailed: {RAISED}")],
        0,
    ),
    "a class that raises lets the Pod go at maxHold": (
        Given(gate=saying(raising), age=60.0),
        DONE,
        [
            said(f"GateOverdue: released after 60s, while Tollbar still waits for {RAISED}; this needs its author"),
            AS_IT_IS,
            said(f"GateFailed: {RAISED}"),
        ],
        1,
    ),
    "a class that raises in what it reads is named, too": (
        Given(gate=saying(raising, reads=[type(Zone.reads[0])(Zone.reads[0].cached, lambda pod: pod["nope"])])),
        RetryAfter(1.0),
        [said(f"GateFailed: {RAISED}")],
        0,
    ),
    "a class that answers nothing": (
        Given(gate=saying(lambda _: None)),
        RetryAfter(1.0),
        [said(f"GateFailed: {CLASS} answered NoneType, which is neither Hold, Release nor NotMine")],
        0,
    ),
    "a class that holds the Pod for nothing": (
        Given(gate=saying(lambda _: Hold("ZoneMissing", ""))),
        RetryAfter(1.0),
        [said(f"GateFailed: {CLASS} answered Hold without saying what the Pod waits for")],
        0,
    ),
    "it is asked again though nothing has changed but the time": (
        Given(gate=saying(lambda _: Hold("Early", "the evening", again=5.0)), age=10.0),
        RetryAfter(5.0),
        [said("SchedulingHeld: waiting for the evening")],
        0,
    ),
    "a class that changes a node selector of the Pod's": (
        Given(
            (HELD.but("spec.nodeSelector", {ZONE: "b"}), ML),
            saying(lambda _: Release(Mutation(node_selector={ZONE: "a"}))),
        ),
        RetryAfter(1.0),
        [
            said(
                f'GateFailed: {FORBIDDEN}nodeSelector[{ZONE}]: Invalid value: "a": only additions to'
                " spec.nodeSelector are allowed (no mutations or deletions)"
            )
        ],
        0,
    ),
    "a class that asks for what is no change": (
        Given(gate=saying(lambda _: Release(Mutation(tolerations=("x",))))),  # type: ignore[arg-type]
        RetryAfter(1.0),
        [said(f'GateFailed: {FORBIDDEN}tolerations[0]: Invalid value: "x": must be an object')],
        0,
    ),
    "a class that asks for what is no JSON": (
        Given(gate=saying(lambda _: Release(Mutation(tolerations=({"key": "a", "operator": "Exists", "x": {1}},))))),
        RetryAfter(1.0),
        [said(f"GateFailed: {CLASS} asks for a change that is not JSON: Type is not JSON serializable: set")],
        0,
    ),
    "a class that asks for a text that is none": (
        Given(gate=saying(lambda _: Release(Mutation(annotations={"example.com/a": "\ud800"})))),
        RetryAfter(1.0),
        [
            said(
                f"GateFailed: {CLASS} asks for a change that is not JSON: str is not valid UTF-8: surrogates not"
                " allowed"
            )
        ],
        0,
    ),
    "other admission refuses the change: it is tried again": (
        Given((HELD, ML, MAP), refusals=(DENIED,)),
        Failed("ReleaseRefused", at_most=59.0),
        [said("ReleaseRefused: the API server refused the patch: no")],
        1,
    ),
    "the Pod has moved": (Given((HELD, ML, MAP), refusals=({"code": 422},)), Requeue("StaleView"), [], 1),
    "the Pod is gone": (Given((HELD, ML, MAP), refusals=({"code": 404},)), DONE, [], 1),
}


@pytest.mark.parametrize(("given", "outcome", "events", "patches"), CASES.values(), ids=CASES)
async def test_outcome(given: Given, outcome: Outcome, events: list[str], patches: int) -> None:
    world = given.world()
    assert (await world.outcome(), len(world.api.patches)) == ((outcome, events), patches)


async def test_what_two_rows_read_of_one_kind_is_given_together_and_once() -> None:
    given: list[Object] = []

    def decide(facts: Facts) -> Answer:
        given.extend(facts.of(MAPS))
        return NotMine()

    rows = [Reads(MAPS, lambda _, of=of: [Key(each, "zone") for each in of]) for of in (["ml", "a"], ["b"], ["ml"])]
    maps = [config_map(namespace=each) for each in ("a", "b", "c", "ml")]
    await Given((HELD, ML, *maps), saying(decide, reads=rows)).world().outcome()
    assert given == [maps[3], maps[0], maps[1]]


async def test_one_patch_takes_the_gate_off_and_makes_the_change() -> None:
    world = Given((HELD, ML, MAP)).world()
    await world.outcome()
    released = patching.apply(HELD, world.api.patches[0])
    assert (released["spec"].get("schedulingGates"), released["spec"]["nodeSelector"]) == ([], {ZONE: "a"})
    assert world.counted("tollbar_gate_releases_total") == 1


async def test_what_other_admission_refuses_is_left_out_at_max_hold() -> None:
    world = Given((HELD, ML, MAP), refusals=(DENIED,)).world()
    await world.outcome()
    world.time.age = 60.0
    outcome, events = await world.outcome()
    assert (outcome, events) == (
        DONE,
        [
            said("GateOverdue: released after 60s, without zone a, which the API server refused: no"),
            AS_IT_IS,
        ],
    )


async def test_a_failure_is_counted_and_logged_by_name(caplog: pytest.LogCaptureFixture) -> None:
    world = Given(gate=saying(raising)).world()
    with caplog.at_level(logging.ERROR, "tollbar.gates"):
        await world.outcome()
    (record,) = caplog.records
    told = {name: getattr(record, name) for name in ("gate", "class", "object", "error")}
    assert told == {"gate": NAME, "class": "unit.gates.zones.Saying", "object": str(KEY), "error": RAISED}
    assert world.counted("tollbar_gate_errors_total", reason="Raised") == 1


async def test_a_class_that_fails_takes_nothing_from_another_one() -> None:
    world = World((), saying(raising))
    other = controller.setup(world, world.gatherer(), Reporting())
    world.fill((pod().gated(NAME, Reporting.name).labelled(BATCH), ML, MAP))
    outcomes = [await each.reconcile(KEY) for each in (world.controller, other)]
    assert (outcomes, world.told.reasons) == (
        [RetryAfter(1.0), DONE],
        ["Pod web: GateFailed", "Pod web: GateReleased"],
    )


def nope(obj: Object) -> Any:
    return obj["nope"]


LISTED = Cached("theirs", CONFIG_MAPS, indexers={"team": lambda _: ["red"]})
FEEDING: dict[str, Cached] = {
    "an index": replace(LISTED, indexers={"team": nope}),
    "an index on its way": replace(LISTED, indexers={"team": lambda obj: (each for each in nope(obj))}),
    "an index with what is no key": replace(LISTED, indexers={"team": lambda obj: [obj]}),
    "accepts": replace(LISTED, accepts=nope),
    "a projection": replace(LISTED, project=nope),
    "a projection that drops the name": replace(LISTED, project=lambda obj: {"data": obj["data"]}),
    "alike": replace(LISTED, alike=nope),
}


@pytest.mark.parametrize("cached", FEEDING.values(), ids=FEEDING)
async def test_what_a_class_raises_for_an_object_stops_no_store(cached: Cached) -> None:
    theirs = Reads(cached, lambda _: ["red"], by="team")
    world = World((HELD, ML), saying(Zone().decide, reads=(theirs, *Zone.reads)))
    store = world.caches.stores[MAPS.name]
    world.fill([MAP])
    counted = world.counted("tollbar_gate_errors_total", reason="Raised")
    assert (store.values(), store in world.caches.needed, bool(counted)) == ([MAP], False, True)
    assert await world.outcome() == (DONE, [RELEASED])


OTHER = pod("api").gated(NAME)
AWAY = pod("far", "other").gated(NAME)
FREE = pod("free")
WAKING: dict[str, tuple[Callable[[World], None], list[str]]] = {
    "what it reads appears": (lambda it: put(it, MAP), ["api", "web"]),
    "what it reads changes": (lambda it: put(it, MAP, config_map("b")), ["api", "web"]),
    "what another namespace reads appears": (lambda it: put(it, config_map(namespace="other")), ["far"]),
    "an object that nobody reads": (lambda it: put(it, MAP | {"metadata": {**MAP["metadata"], "name": "x"}}), []),
    "the SchedulingGate": (lambda it: put(it, REPORT), ["api", "far", "web"]),
    "another gate's SchedulingGate": (lambda it: put(it, scheduling_gate()), []),
    "the namespace's labels": (lambda it: put(it, ML.labelled(a="b")), ["api", "web"]),
    "the Pod's labels": (lambda it: put(it, HELD.labelled(a="b")), ["web"]),
    "a condition of the Pod": (lambda it: put(it, HELD.but("status.conditions", [{"type": "x"}])), []),
    "the loss of its gate": (lambda it: put(it, HELD.but("spec.schedulingGates", None)), []),
}


def put(world: World, *objects: Object) -> None:
    for index, obj in enumerate(objects):
        meta = {**obj["metadata"], "resourceVersion": str(10 + index)}
        world.fill([{**obj, "metadata": meta}])


@pytest.mark.parametrize(("change", "woken"), WAKING.values(), ids=WAKING)
async def test_it_is_woken_by(change: Callable[[World], None], woken: list[str]) -> None:
    world = Given((HELD, OTHER, AWAY, FREE, ML, namespace("other"))).world()
    world.controller.connect()
    assert sorted(key.name for key in await drained(world.controller.queue)) == ["api", "far", "web"]
    change(world)
    assert sorted(key.name for key in await drained(world.controller.queue)) == woken


def test_an_answer_without_a_change_is_false() -> None:
    assert not Mutation()
    assert (Hold("A", "b").otherwise, NotMine()) == (Release(), NotMine())


class Book(Ledger):
    """Lets the Pods of these names go, and keeps what the API server said of their releases."""

    def __init__(self, *granted: str) -> None:
        super().__init__()
        self.granted = set(granted)
        self.sent: list[tuple[str, str]] = []

    def decide(self, facts: Facts) -> Answer:
        return Release() if key_of(facts.pod).name in self.granted else Hold("Full", "room")

    @contextmanager
    def sending(self, pod: Object) -> Iterator[None]:
        try:
            yield
        except ApiError as error:
            self.sent.append((key_of(pod).name, error.reason))
            raise
        self.sent.append((key_of(pod).name, "released"))


def keeping(book: Book) -> Gate:
    return saying(lambda _: NotMine(), ledger=lambda _self, _manager: book)


async def test_a_ledger_decides_in_place_of_its_gate_and_hears_of_every_release() -> None:
    book = Book()
    world = Given((HELD, ML), keeping(book), age=2.0, refusals=(DENIED,)).world()
    assert await world.outcome() == (RetryAfter(58.0), [said("SchedulingHeld: waiting for room")])
    book.granted.add("web")
    assert (await world.outcome())[0] == Failed("ReleaseRefused", at_most=58.0)
    assert (await world.outcome())[0] == DONE
    assert book.sent == [("web", "Forbidden"), ("web", "released")]


async def test_a_ledger_wakes_the_pods_about_which_it_has_changed_its_mind() -> None:
    book = Book()
    world = Given((HELD, ML), keeping(book)).world()
    world.controller.connect()
    await drained(world.controller.queue)
    book.changed.send(KEY)
    assert await drained(world.controller.queue) == [KEY]


async def test_what_a_ledger_grants_is_sent_by_a_process_that_leads_alone() -> None:
    class Deposed:
        async def patch(self, *_: Any, **__: Any) -> Object:
            raise NotLeading

    world = Given((HELD, ML), keeping(Book("web"))).world(leader=Deposed())
    with pytest.raises(NotLeading):
        await world.outcome()
    assert world.api.patches == []


class Beginning(Book):
    """Says that it has begun when it is told to."""

    def __init__(self, *granted: str) -> None:
        super().__init__(*granted)
        self.has_begun = asyncio.Event()

    async def begun(self) -> None:
        await self.has_begun.wait()

    def may_go(self) -> Iterable[Key]:
        return [Key("ml", name) for name in sorted(self.granted)]


@asynccontextmanager
async def leading(world: World) -> AsyncIterator[list[str]]:
    """While its process leads, the names of the Pods that are looked at."""
    seen: list[str] = []

    async def reconcile(key: Key) -> Outcome:
        seen.append(key.name)
        return DONE

    world.controller.reconcile = reconcile
    running = asyncio.create_task(world.leading(f"controller gate {NAME}")())
    await turns()
    try:
        yield seen
    finally:
        running.cancel()
        await asyncio.wait({running})


SEVERAL = (*(HELD.but("metadata.name", name) for name in "abc"), ML)


async def test_pods_are_looked_at_when_their_ledger_has_begun_first_those_that_may_go() -> None:
    book = Beginning("c")
    async with leading(Given(SEVERAL, keeping(book)).world()) as seen:
        before = list(seen)
        book.has_begun.set()
        await turns()
        assert (before, seen) == ([], ["c", "a", "b"])


async def test_what_a_ledger_lets_go_goes_before_pods_that_have_changed() -> None:
    book = Book()
    world = Given(SEVERAL, keeping(book)).world()
    world.controller.connect()
    await drained(world.controller.queue)
    world.fill(each.but("metadata.labels.seen", "") for each in SEVERAL[:3])
    book.changed.send(Key("ml", "c"))
    assert [key.name for key in await drained(world.controller.queue)] == ["c", "a", "b"]


class Broken(Book):
    """Of which these methods raise."""

    def __init__(self, *broken: str) -> None:
        super().__init__()
        self.broken = broken

    async def begun(self) -> None:
        if "begun" in self.broken:
            raise KeyError("nope")

    def may_go(self) -> Iterable[Key]:
        yield Key("ml", "c")
        if "may_go" in self.broken:
            raise KeyError("nope")


class Taken(Book):
    """Uses the names of methods for something else."""

    begun: Any = True
    may_go: Any = ()


FAILING: dict[str, tuple[Book, list[str], float | None]] = {
    "it raises as it begins": (Broken("begun"), ["c", "a", "b"], 1),
    "it raises on the way through those that may go": (Broken("may_go"), ["c", "a", "b"], None),
    "it has something else under these names": (Taken(), ["a", "b", "c"], 1),
}


@pytest.mark.parametrize(("book", "looked_at", "counted"), FAILING.values(), ids=FAILING)
async def test_a_ledger_that_fails_as_its_process_begins_to_lead_stops_nothing(
    caplog: pytest.LogCaptureFixture, book: Book, looked_at: list[str], counted: float | None
) -> None:
    world = Given(SEVERAL, keeping(book)).world()
    async with leading(world) as seen:
        assert seen == looked_at
    assert world.counted("tollbar_gate_errors_total", reason="Raised") == counted
    assert [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.looptime
async def test_where_a_ledger_does_not_begin_they_are_looked_at_all_the_same_and_again_when_it_has() -> None:
    book = Beginning("c")
    async with leading(Given(SEVERAL, keeping(book)).world()) as seen:
        await asyncio.sleep(controller.BEGINS_WITHIN - 1.0)
        before = list(seen)
        await asyncio.sleep(2.0)
        late = list(seen)
        book.has_begun.set()
        await turns()
        assert (before, late, seen[len(late) :]) == ([], ["c", "a", "b"], ["c", "a", "b"])


async def test_a_process_begins_to_lead_without_decoding_all_pods_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Given(SEVERAL).world()
    monkeypatch.setattr(Packed, "__getitem__", None)
    world.controller.connect()
    assert sorted(key.name for key in await drained(world.controller.queue)) == ["a", "b", "c"]
