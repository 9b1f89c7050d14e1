"""The watches of workloads: begun by the first claim that names a kind, and what they say and do not say."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from random import Random
from typing import Any

import orjson
import pytest
from fakes.clocks import Hand
from fakes.manager import Managed, turns
from objects.builders import claim

from controllers import reservations
from controllers.reservations.workloads import Workloads, projection
from tollbar.api.reasons import ReservedReason
from tollbar.decide.claims.reservations import RECHECK, Knowledge, LookUp, State, Workload
from tollbar.model.objects import Key, Object
from tollbar.model.resources import Resource
from tollbar.model.workloads import Reference, pod_spec
from tollbar.runtime.client import PAGE_TEXT, WatchEvent
from tollbar.runtime.errors import ApiError, error_from_status
from tollbar.runtime.metrics import Metrics
from tollbar.views import kinds
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover

WEB = Reference("apps", "deployments", "web")
CLAIM = Key("ml", "gpu")
GONE = {"code": 404, "details": {"group": "apps", "kind": "deployments", "name": "web"}}
NO_KIND = {"code": 404, "message": "404 page not found"}
DENIED = {"code": 403, "message": "deployments.apps is forbidden"}


def deployment(uid: str = "u1", version: int = 1) -> Object:
    meta = {"namespace": "ml", "name": "web", "uid": uid, "generation": 1, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"replicas": 1}, "status": {"observedGeneration": 1, "conditions": []}}


class Restless(Hand):
    """Nobody sleeps long."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Api:
    """A server with some Deployments, which serves StatefulSets, too.  `answers` says what a call is refused with."""

    def __init__(
        self, *found: Object, served: bool = True, namespaced: bool = True, verbs: str = "get list watch"
    ) -> None:
        self.found = list(found)
        self.served_kind = served
        self.namespaced = namespaced
        self.verbs = verbs.split()
        self.answers: dict[str, Object] = {}
        self.calls: Counter[str] = Counter()
        self.bounds: list[float] = []
        """Of the text of lists."""
        self.events: asyncio.Queue[WatchEvent | ApiError] = asyncio.Queue()
        self.ended = asyncio.Event()

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        if call in self.answers:
            raise error_from_status(self.answers[call], method="GET")

    async def raw(self, _method: str, path: str) -> bytes:
        self._count("discovery")
        if path == "/apis/apps":
            return orjson.dumps({"versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}})
        given = {"namespaced": self.namespaced, "verbs": self.verbs}
        served = (("deployments", "Deployment"), ("statefulsets", "StatefulSet")) if self.served_kind else ()
        return orjson.dumps({"resources": [{"name": name, "kind": kind, **given} for name, kind in served]})

    async def served(self, _group_version: str) -> set[str]:
        return {"deployments"} if self.served_kind else set()

    async def list(self, _res: Resource, _namespace: str = "", *, limit: int, most: float = inf, **_: Any) -> Object:
        self._count("list")
        self.bounds.append(most if limit > 1 else PAGE_TEXT)
        return {"metadata": {"resourceVersion": "1"}, "items": [dict(each) for each in self.found]}

    async def get(self, _res: Resource, name: str, _namespace: str = "") -> Object:
        self._count("get")
        for each in self.found:
            if each["metadata"]["name"] == name:
                return each
        raise error_from_status(GONE, method="GET")

    async def watch(self, _res: Resource, _namespace: str = "", **_: Any) -> AsyncIterator[WatchEvent]:
        try:
            while True:
                event = await self.events.get()
                if isinstance(event, ApiError):
                    raise event
                yield event
        finally:
            self.ended.set()


class World:
    def __init__(self, api: Api) -> None:
        self.api = api
        self.clock = Restless()
        self.woken: asyncio.Queue[Key] = asyncio.Queue()
        self.metrics = Metrics()
        client: Any = api
        self.workloads = Workloads(client, clock=self.clock, rng=Random(1), metrics=self.metrics)
        self.workloads.changes.subscribe(self.woken.put_nowait)

    async def look_up(self, recorded: str = "") -> Workload:
        """What is known once the API server has answered."""
        return (await self.look_up_all(LookUp(CLAIM, WEB, recorded)))[CLAIM.name]

    async def look_up_all(self, *questions: LookUp) -> dict[str, Workload]:
        """What each claim is told in the end, when one worker looks it up and again whenever it is sent."""
        asked = {each.claim: each for each in questions}
        told = {claim: await self.workloads.look_up(each) for claim, each in asked.items()}
        while AWAITED in told.values():
            claim = await self.woken.get()
            if told[claim] == AWAITED:
                told[claim] = await self.workloads.look_up(asked[claim])
        return {claim.name: found for claim, found in told.items()}

    def measured(self) -> set[str]:
        """The kinds of which there are metrics."""
        return {
            sample.labels["kind"]
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if "kind" in sample.labels
        }

    async def tell(self, kind: str, obj: Object) -> None:
        """A watch event, once its claim was woken by it."""
        while not self.woken.empty():
            self.woken.get_nowait()  # by the list
        self.api.events.put_nowait(WatchEvent(kind, obj))
        assert await self.woken.get() == CLAIM


@asynccontextmanager
async def world(api: Api) -> AsyncIterator[World]:
    made = World(api)
    running = asyncio.create_task(made.workloads.run())
    yield made
    running.cancel()
    await asyncio.wait({running})


AWAITED = Workload(Knowledge.AWAITED)
UNANSWERED = Workload(Knowledge.UNANSWERED)
FOUND = Workload(Knowledge.FOUND, projection(deployment()))
ABSENT = Workload(Knowledge.ABSENT)
UNKNOWN = Workload(Knowledge.UNKNOWN_KIND)

ANSWERS: dict[str, tuple[Api, dict[str, Object], str, Workload, int]] = {
    "it is there": (Api(deployment()), {}, "", FOUND, 0),
    "it is the one on record": (Api(deployment()), {}, "u1", FOUND, 0),
    "another is on record: the server is asked": (Api(deployment()), {}, "u0", FOUND, 1),
    "it is not there: the server is asked": (Api(), {}, "u1", ABSENT, 1),
    "the server does not know the kind": (Api(), {"get": NO_KIND}, "u1", UNKNOWN, 1),
    "it may not be read": (
        Api(),
        {"get": DENIED},
        "u1",
        Workload(Knowledge.FORBIDDEN, detail="deployments.apps is forbidden"),
        1,
    ),
    "the kind may not be listed": (
        Api(),
        {"list": DENIED},
        "u1",
        Workload(Knowledge.FORBIDDEN, detail="deployments.apps is forbidden"),
        0,
    ),
    "the kind is not served": (Api(served=False), {}, "u1", UNKNOWN, 0),
    "the group is not served": (Api(), {"discovery": NO_KIND}, "u1", UNKNOWN, 0),
    "the kind can be created only": (Api(verbs="create"), {}, "u1", UNKNOWN, 0),
    "the kind belongs to no namespace": (Api(namespaced=False), {}, "u1", UNKNOWN, 0),
}


@pytest.mark.parametrize(("api", "answers", "recorded", "want", "gets"), ANSWERS.values(), ids=ANSWERS)
async def test_what_is_known(api: Api, answers: dict[str, Object], recorded: str, want: Workload, gets: int) -> None:
    api.answers.update(answers)
    async with world(api) as running:
        assert (await running.look_up(recorded), api.calls["get"]) == (want, gets)


class Silent(Api):
    """Until it `speaks` it answers no such calls about a kind: `get`, `one` (a list of one object), `all` (a list)."""

    def __init__(self, *found: Object, silent: str, about: str = "deployments") -> None:
        super().__init__(*found)
        self.silent = silent.split()
        self.about = about
        self.speaks = asyncio.Event()

    async def list(self, res: Resource, namespace: str = "", *, limit: int, most: float = inf, **more: Any) -> Object:
        await self._wait("list", "all" if limit > 1 else "one", res)
        return await super().list(res, namespace, limit=limit, most=most, **more)

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        await self._wait("get", "get", res)
        return await super().get(res, name, namespace)

    async def _wait(self, call: str, what: str, res: Resource) -> None:
        if res.plural == self.about and what in self.silent and not self.speaks.is_set():
            self._count(call)
            await self.speaks.wait()


def naming(*claims: str, recorded: str = "") -> list[LookUp]:
    return [LookUp(Key("ml", each), WEB, recorded) for each in claims]


async def test_one_workload_is_read_at_one_time() -> None:
    api = Silent(deployment(), silent="get")
    async with world(api) as running:
        await running.look_up()
        for each in naming(*"abcde", recorded="u0"):
            assert await running.workloads.look_up(each) == AWAITED
        await turns()
        assert api.calls["get"] == 1


SILENT: dict[str, tuple[str, Object]] = {
    "the first list": ("one", {"discovery": 2, "list": 1}),
    "the whole list": ("all", {"discovery": 2, "list": 2}),
    "what is not in the list": ("get", {"discovery": 2, "list": 2, "get": 1}),
    "anything": ("one all get", {"discovery": 2, "list": 1}),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("silent", "calls"), SILENT.values(), ids=SILENT)
async def test_of_a_kind_that_does_not_answer_all_are_told(silent: str, calls: Object) -> None:
    api = Silent(deployment(), silent=silent)
    async with world(api) as running:
        told = await running.look_up_all(*naming(*"abcde", recorded="u0"))
        assert (told, api.calls) == (dict.fromkeys("abcde", UNANSWERED), calls)


KINDS: dict[str, tuple[Api, str, Workload, int]] = {
    "their workload is there": (Api(deployment()), "", FOUND, 0),
    "their workload is not there": (Api(), "", ABSENT, 1),
    "their workload is another one": (Api(deployment("u2")), "u1", Workload(Knowledge.FOUND, deployment("u2")), 1),
    "their kind is not served": (Api(served=False), "", UNKNOWN, 0),
}


@pytest.mark.parametrize(("api", "recorded", "want", "gets"), KINDS.values(), ids=KINDS)
async def test_when_the_api_server_has_answered_every_claim_is_told(
    api: Api, recorded: str, want: Workload, gets: int
) -> None:
    names = [f"claim-{number}" for number in range(64)]
    async with world(api) as running:
        told = await running.look_up_all(*naming(*names, recorded=recorded))
        lists = 0 if want == UNKNOWN else 2
        assert (told, api.calls["list"], api.calls["get"]) == (dict.fromkeys(names, want), lists, gets * len(names))


@pytest.mark.looptime
async def test_a_kind_that_does_not_answer_keeps_no_other_kind_from_being_found() -> None:
    sets = LookUp(Key("ml", "theirs"), Reference("apps", "statefulsets", "db"), "")
    async with world(Silent(deployment(), silent="one", about="statefulsets")) as running:
        told = await running.look_up_all(sets, LookUp(CLAIM, WEB, ""))
        assert told == {"theirs": UNANSWERED, "gpu": FOUND}


async def test_claims_of_a_kind_that_does_not_answer_keep_no_other_claim_from_being_decided() -> None:
    """However many there are: no worker waits."""
    manager, takeover = Managed(Silent(deployment(), silent="all", about="statefulsets")), Takeover()
    takeover.found(None)
    states = ReservationStates(manager.metrics)
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    controller, _ = reservations.setup(manager, takeover, states, oscillations, manager.device_tolerations())
    theirs = [
        claim(f"claim-{number}").annotated({"tollbar.dev/reserved-for": "statefulsets.apps/db"}) for number in range(64)
    ]
    manager.fill([*theirs, claim("gpu").annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})])
    tasks = [asyncio.create_task(each) for each in (manager.leading("watches of workloads")(), controller.run())]
    await turns(1000)
    assert [states.get(Key("ml", each)) for each in ("gpu", "claim-0", "claim-63")] == [
        State(False, ReservedReason.NOT_ALLOCATED, "waiting for the first Pod to be scheduled", crowded=""),
        None,
        None,
    ]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


@pytest.mark.looptime
async def test_a_kind_that_does_not_answer_is_asked_again_in_time() -> None:
    api = Silent(deployment(), silent="one")
    async with world(api) as running:
        found = [await running.look_up() for _ in range(3)]
        calls = api.calls["list"]
        running.clock.seconds += RECHECK
        api.speaks.set()
        found.append(await running.look_up())
        assert (found, calls) == ([*[UNANSWERED] * 3, FOUND], 1)


async def test_an_answer_is_not_used_once_the_workload_has_changed() -> None:
    async with world(Api()) as running:
        await running.look_up()
        asked = LookUp(CLAIM, WEB, "u1")
        assert await running.workloads.look_up(asked) == AWAITED
        assert await running.woken.get() == CLAIM  # it is absent
        running.api.found.append(deployment("u2"))
        await running.tell("ADDED", deployment("u2", version=2))
        assert await running.look_up("u1") == Workload(Knowledge.FOUND, projection(deployment("u2")))


async def test_a_question_that_replaces_another_one_is_answered() -> None:
    """Another uid is on record by now."""
    api = Silent(deployment(), silent="get")
    async with world(api) as running:
        await running.look_up()
        former, asked = (LookUp(CLAIM, WEB, recorded) for recorded in ("u0", "u9"))
        assert await running.workloads.look_up(former) == AWAITED
        await turns()
        assert (await running.workloads.look_up(asked), api.calls["get"]) == (AWAITED, 1)
        api.speaks.set()
        assert await running.woken.get() == CLAIM
        assert await running.workloads.look_up(asked) == FOUND


async def test_an_answer_is_not_used_for_another_question() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        former, asked = (LookUp(CLAIM, WEB, recorded) for recorded in ("u0", "u9"))
        assert await running.workloads.look_up(former) == AWAITED
        assert await running.woken.get() == CLAIM
        assert await running.workloads.look_up(asked) == AWAITED


class Belated(Api):
    """What `get` says is as old as the call, however late it comes."""

    def __init__(self, *found: Object) -> None:
        super().__init__(*found)
        self.comes = asyncio.Event()
        self.comes.set()

    async def get(self, res: Resource, name: str, namespace: str = "") -> Object:
        try:
            return await super().get(res, name, namespace)
        finally:
            await self.comes.wait()


OVERTAKEN: dict[str, tuple[list[Object], str, Workload]] = {
    "it comes": ([], "ADDED", Workload(Knowledge.FOUND, projection(deployment("u2", version=2)))),
    "it goes": ([deployment("u2")], "DELETED", ABSENT),
}


@pytest.mark.parametrize(("found", "event", "want"), OVERTAKEN.values(), ids=OVERTAKEN)
async def test_an_answer_that_is_older_than_what_the_watch_has_shown_is_not_used(
    found: list[Object], event: str, want: Workload
) -> None:
    """Another one than that on record."""
    api, changed, asked = Belated(*found), deployment("u2", version=2), LookUp(CLAIM, WEB, "u1")
    async with world(api) as running:
        await running.look_up()
        calls = api.calls["get"]
        api.comes.clear()
        assert await running.workloads.look_up(asked) == AWAITED
        await turns()
        assert api.calls["get"] == calls + 1
        api.found = [changed] if event == "ADDED" else []
        await running.tell(event, changed)
        assert await running.workloads.look_up(asked) == AWAITED
        api.comes.set()
        assert await running.woken.get() == CLAIM
        assert await running.workloads.look_up(asked) == want


async def test_a_claim_that_is_forgotten_is_not_asked_for() -> None:
    async with world(Api(deployment())) as running:
        one, other = naming("a", "b", recorded="u0")
        assert [await running.workloads.look_up(each) for each in (one, other)] == [AWAITED] * 2
        running.workloads.forget(one.claim)
        await running.look_up_all(other)
        await turns()
        assert running.api.calls["get"] == 1


async def test_who_reads_something_else_does_not_wait_for_a_kind_that_does_not_answer() -> None:
    api = Silent(deployment(), silent="get")
    manager = Managed(api)
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    controller, _ = reservations.setup(
        manager, None, ReservationStates(manager.metrics), oscillations, manager.device_tolerations()
    )
    reserved = {"tollbar.dev/reserved-for": "deployments.apps/web", "tollbar.dev/reserved-uid": "u0"}
    names = ["a", "b", "c", "d"]
    manager.fill(claim(each).annotated(reserved).allocated() for each in names)
    tasks = [
        asyncio.create_task(manager.leading("watches of workloads")()),
        *(asyncio.create_task(controller.reconcile(Key("ml", each))) for each in names),
    ]
    while not api.calls["get"]:  # noqa: ASYNC110 - that it is asked nothing tells
        await asyncio.sleep(0)
    await turns()
    assert not manager.reading.locked()
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


async def test_a_kind_is_listed_for_the_first_claim_only() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        calls = dict(running.api.calls)
        await running.workloads.look_up(LookUp(Key("ml", "other"), WEB, ""))
        assert running.api.calls == calls


async def test_a_list_of_a_kind_has_pages_of_bounded_length() -> None:
    """Whoever may create objects of it says how large they are."""
    api = Api(deployment())
    async with world(api) as running:
        await running.look_up()
        assert api.bounds == [PAGE_TEXT] * 2


async def test_when_this_process_leads_again_a_kind_is_watched_again() -> None:
    api = Api(deployment())
    made = World(api)
    for _ in range(2):
        running = asyncio.create_task(made.workloads.run())
        await made.look_up()
        await made.tell("DELETED", deployment(version=2))
        running.cancel()
        await asyncio.wait({running})
    assert (api.ended.is_set(), api.calls["list"]) == (True, 4)  # each time for the permission and into the store


async def test_when_this_process_leads_again_no_kind_is_watched_for_a_claim_that_is_gone() -> None:
    made = World(Api(deployment()))
    for name in ("gone", "there"):
        running = asyncio.create_task(made.workloads.run())
        (asked,) = naming(name)
        assert await made.workloads.look_up(asked) == AWAITED
        while await made.woken.get() != asked.claim or await made.workloads.look_up(asked) != FOUND:
            pass
        if name == "there":
            made.workloads.forget(asked.claim)
            assert made.measured() == set()
        running.cancel()
        await asyncio.wait({running})


async def test_a_deletion_is_known_from_the_watch_alone() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        await running.tell("DELETED", deployment(version=2))
        assert (await running.look_up("u1"), running.api.calls["get"]) == (ABSENT, 0)


async def test_a_change_wakes_the_claim() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        scaled = {**deployment(version=2), "spec": {"replicas": 0}}
        await running.tell("MODIFIED", scaled)
        assert await running.look_up() == Workload(Knowledge.FOUND, projection(scaled))


def test_of_a_workload_only_what_is_read_is_kept() -> None:
    wanted = {"replicas": 3, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}
    named: Object = {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}],
        "schedulingGroup": {"podGroupName": "g"},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nic"}, *named["resourceClaims"]],
            "schedulingGroup": {**named["schedulingGroup"], "other": "x"},
            "containers": [{"name": "main"}],
        },
    }
    done = {"type": "Complete", "status": "True"}
    ready = {"type": "Ready", "status": "True"}
    status = {"observedGeneration": 1, "conditions": [ready, {**done, "message": "x"}, "none"]}
    meta = {"namespace": "ml", "name": "web", "uid": "u1", "labels": {"app": "web"}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}
    body = {**wanted, "strategy": strategy, "template": template, "paused": True}
    assert projection({"metadata": meta, "spec": body, "status": status}) == {
        "metadata": {"namespace": "ml", "name": "web", "uid": "u1"},
        "spec": {**wanted, "template": {"spec": named}},
        "status": {"observedGeneration": 1, "conditions": [done]},
    }


LARGE: Any = ["x" * 1000]
ODD: dict[str, Object] = {
    "texts": {"spec": "replicas", "status": "conditions"},
    "lists": {"spec": ["replicas"], "status": [{"conditions": []}]},
    "numbers": {"spec": {"template": 1}, "status": {"conditions": 1}},
    "no objects further in": {
        "spec": {"template": {"spec": {"resourceClaims": 1, "schedulingGroup": "g"}}},
        "status": {"conditions": {"Ready": "True"}},
    },
    "no texts in the end": {
        "spec": {"template": {"spec": {"resourceClaims": ["gpu"], "schedulingGroup": {"podGroupName": {}}}}},
        "status": {"conditions": ["Ready"]},
    },
    "what is large instead of numbers": {
        "spec": {"replicas": LARGE, "parallelism": LARGE[0], "completions": {"a": LARGE}, "strategy": LARGE},
        "status": {"observedGeneration": LARGE, "desiredNumberScheduled": LARGE[0]},
    },
    "further in": {
        "spec": {
            "strategy": {"rollingUpdate": {"maxSurge": LARGE}},
            "template": {
                "spec": {
                    "resourceClaims": [{"name": "a", "resourceClaimName": LARGE[0]}],
                    "schedulingGroup": {"podGroupName": LARGE[0]},
                }
            },
        },
        "status": {"conditions": [{"type": LARGE, "status": "True"}]},
    },
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_a_kind_may_have_anything_in_the_fields_that_workloads_have(odd: Object) -> None:
    meta = {"namespace": "ml", "name": "web", "uid": "u1"}
    assert projection({"metadata": meta, **odd}) == {"metadata": meta, "spec": {}, "status": {"conditions": []}}


def test_what_is_kept_of_a_workload_is_bounded() -> None:
    named = [{"name": str(number), "resourceClaimName": f"c{number}"} for number in range(1000)]
    said = [{"type": "Failed", "status": "False", "message": "x" * 1000}] * 1000
    template = {"spec": {"resourceClaims": named}}
    kept = projection({"metadata": {"name": "web"}, "spec": {"template": template}, "status": {"conditions": said}})
    assert pod_spec(kept)["resourceClaims"] == named[:128]
    assert kept["status"] == {"conditions": [{"type": "Failed", "status": "False"}]}


async def test_a_kind_that_is_no_longer_served_is_no_deletion_of_the_workload() -> None:
    """An object may be missing because the kind is no longer served."""
    async with world(Api(deployment())) as running:
        await running.look_up()
        running.api.served_kind = False
        running.api.answers["list"] = running.api.answers["get"] = NO_KIND
        running.api.events.put_nowait(error_from_status(NO_KIND))
        async with asyncio.timeout(60):
            found = [await running.look_up("u1")]
            while found[-1].knowledge is Knowledge.FOUND:
                await running.woken.get()
                found.append(await running.look_up("u1"))
        assert (found[-1], running.api.calls["get"]) == (UNKNOWN, 0)


async def test_what_a_new_list_lacks_is_asked_for() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        (kept,), running.api.found = running.api.found, []
        running.api.events.put_nowait(error_from_status({"code": 410}))
        await running.woken.get()
        running.api.found = [kept]
        assert (await running.look_up("u1"), running.api.calls["get"]) == (FOUND, 1)


async def test_what_was_not_served_is_looked_for_again_in_time() -> None:
    async with world(Api(deployment(), served=False)) as running:
        seen = [await running.look_up()]
        running.api.served_kind = True
        seen.append(await running.look_up())
        running.clock.seconds += RECHECK
        seen.append(await running.look_up())
        assert seen == [UNKNOWN, UNKNOWN, FOUND]


async def test_with_its_last_claim_the_watch_ends() -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        await asyncio.sleep(0)
        running.workloads.forget(CLAIM)
        running.workloads.forget(CLAIM)
        await running.api.ended.wait()
        running.api.calls.clear()
        await running.look_up()
        assert running.api.calls["list"] == 2  # asked for and listed anew


@pytest.mark.parametrize("leads", [True, False], ids=["its last claim is gone", "this process leads no more"])
async def test_a_kind_has_metrics_until(leads: bool) -> None:
    async with world(Api(deployment())) as running:
        await running.look_up()
        before = running.measured()
        if leads:
            running.workloads.forget(CLAIM)
    assert (before, running.measured()) == ({"deployments.apps"}, set())


@pytest.mark.parametrize("status", [{"code": 500}, {"code": 401}], ids=["a failing server", "no credentials"])
async def test_no_clear_answer_is_an_error(status: Object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controllers.reservations.workloads.READ", once)
    api = Api()
    api.answers["get"] = status
    async with world(api) as running:
        with pytest.raises(ApiError):
            await running.look_up("u1")


async def once(call: Any, *arguments: Any, **options: Any) -> Any:
    return await call(*arguments, **options)
