"""What a manager makes of the parts that are registered with it: services in their order, and the leader's work."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import aiohttp
import pytest
from fakes.clocks import in_fake_time
from fakes.manager import turns

from tollbar.model.objects import Key, Object
from tollbar.model.plan import DONE, Event, Outcome
from tollbar.model.resources import LEASES, Resource
from tollbar.runtime import collector
from tollbar.runtime.builder import Builder
from tollbar.runtime.clock import Clock, SystemClock
from tollbar.runtime.config import load
from tollbar.runtime.errors import NotFound
from tollbar.runtime.health import HttpServer
from tollbar.runtime.manager import Manager
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.service import Service
from tollbar.runtime.source import Channel, key_itself
from tollbar.views import kinds

ANYWHERE = {"health.bindAddress": "127.0.0.1:0", "metrics.bindAddress": "localhost:0"}


class Api:
    """Takes whatever is created, and knows one Lease; its lists never answer, and nothing does while it `hangs`."""

    def __init__(self, lease: Object | None = None) -> None:
        self.created: list[Object] = []
        self.lease = lease
        self.version = 1
        self.hangs = False

    async def list(self, *_: Any, **__: Any) -> Object:
        await asyncio.Event().wait()
        return {}

    def fenced(self, may_write: Callable[[], bool]) -> Callable[[], bool]:
        return may_write

    async def get(self, res: Resource, _name: str, _namespace: str = "") -> Object:
        await self._answers()
        if res != LEASES or self.lease is None:
            raise NotFound(404, "NotFound", "")
        return self.lease

    async def create(self, res: Resource, obj: Object, _namespace: str = "") -> Object:
        if res == LEASES:
            return await self.replace(res, obj)
        self.created.append(obj)
        return obj

    async def replace(self, _res: Resource, obj: Object) -> Object:
        await self._answers()
        self.version += 1
        self.lease = obj | {"metadata": obj["metadata"] | {"resourceVersion": str(self.version)}}
        return self.lease

    async def _answers(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()


def managing(api: Api | None = None, *, clock: Clock | None = None, **overrides: object) -> Manager:
    given: Any = api or Api()
    return Manager(load(None, ANYWHERE | overrides), given, Metrics(), clock=clock or SystemClock(), rng=Random(1))


async def forever() -> None:
    await asyncio.Event().wait()


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, stop: asyncio.Event) -> None:
        await stop.wait()


def names(phases: Sequence[Sequence[Service]]) -> list[list[str]]:
    return [[service.name for service in phase] for phase in phases]


def test_services_start_from_the_lease_to_readiness_and_stop_in_reverse() -> None:
    manager = managing()
    manager.serves(Named("server"))
    manager.leads("controller", forever)
    manager.background("certificate", forever)
    manager.recorder("gates")
    assert names(manager.phases(manager.client)) == [
        ["leader election"],
        ["probes", "metrics", "event loop lag"],
        ["reflectors"],
        ["certificate", "event recorder of gates"],
        ["server", "elected work"],
        ["readiness"],
    ]


ELECTION: dict[str, tuple[bool, bool, bool, list[str], list[str]]] = {
    "something leads": (True, True, True, ["leader election"], ["elected work"]),
    "something leads without a client for the election": (True, True, False, [], ["controllers"]),
    "something leads where election is switched off": (True, False, False, [], ["controllers"]),
    "nothing leads": (False, True, False, [], []),
    "nothing leads, with a client for the election": (False, True, True, [], []),
}


@pytest.mark.parametrize(("leads", "enabled", "client", "lease", "work"), ELECTION.values(), ids=ELECTION)
def test_a_lease_is_held_when(leads: bool, enabled: bool, client: bool, lease: list[str], work: list[str]) -> None:
    manager = managing(**{"leaderElection.enabled": enabled})
    if leads:
        manager.leads("controller", forever)
    found = names(manager.phases(manager.client if client else None))
    assert (manager.elects, found[0], found[4]) == (leads and enabled, lease, work)


def test_a_recorder_is_one_for_each_name_and_runs_with_the_process() -> None:
    manager = managing()
    first, again, other = (manager.recorder(name) for name in ("gates", "gates", "claims"))
    assert (first is again, first is other, names(manager.phases())[3]) == (
        True,
        False,
        ["event recorder of gates", "event recorder of claims"],
    )


def test_a_process_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAME", "controllers-0")
    instances = [managing().instance for _ in range(2)]
    assert ([name.rpartition("-")[0] for name in instances], len(set(instances))) == (["controllers-0"] * 2, 2)


@asynccontextmanager
async def running(*services: Service) -> AsyncIterator[list[asyncio.Task[None]]]:
    stop = asyncio.Event()
    tasks = [asyncio.create_task(service.run(stop)) for service in services]
    yield tasks
    stop.set()
    await asyncio.gather(*tasks)


def noting(log: list[str], name: str) -> Callable[[], Any]:
    async def work() -> None:
        log.append(f"{name} begins")
        try:
            await forever()
        finally:
            log.append(f"{name} ends")

    return work


@pytest.mark.looptime
async def test_recorded_events_are_sent_as_of_their_controller_and_this_process(clock: Clock) -> None:
    api = Api()
    manager = managing(api, clock=clock)
    manager.recorder("gates").emit({"kind": "Pod", "metadata": {"name": "web"}}, Event("Normal", "Why", "note", "Do"))
    async with running(*manager.phases()[3]):
        await asyncio.sleep(1)
    (sent,) = api.created
    assert (sent["reportingController"], sent["reportingInstance"]) == ("tollbar.dev/gates", manager.instance)


async def test_without_election_what_leads_runs_at_once_and_ends_with_its_phase() -> None:
    log: list[str] = []
    manager = managing()
    for name in ("gates", "rules"):
        manager.leads(name, noting(log, name))
    async with running(*manager.phases()[4]):
        await turns()
        before = list(log)
    assert (before, sorted(log[2:])) == (["gates begins", "rules begins"], ["gates ends", "rules ends"])


def holder(api: Api) -> str:
    return str(((api.lease or {}).get("spec") or {}).get("holderIdentity") or "")


@pytest.mark.looptime
async def test_what_leads_runs_only_while_the_lease_is_held_which_goes_last(clock: Clock) -> None:
    log: list[str] = []
    api = Api()
    election: Any = api
    manager = managing(clock=clock)
    manager.leads("gates", noting(log, "gates"))
    manager.lease_annotations["mode"] = "said on the Lease"
    lease, _, _, _, work, _ = manager.phases(election)
    seen: list[tuple[list[str], str]] = []
    async with running(*lease):
        async with running(*work):
            await asyncio.sleep(5)
            seen.append((list(log), holder(api)))
        seen.append((list(log), holder(api)))
    seen.append((list(log), holder(api)))
    assert (seen, (api.lease or {})["metadata"]["annotations"]) == (
        [
            (["gates begins"], manager.instance),
            (["gates begins", "gates ends"], manager.instance),
            (["gates begins", "gates ends"], ""),
        ],
        {"mode": "said on the Lease"},
    )


@pytest.mark.looptime
async def test_writes_of_the_leader_are_fenced_by_the_lease(clock: Clock) -> None:
    api = Api()
    election: Any = api
    manager = managing(api, clock=clock)
    manager.leads("gates", forever)
    asks: Any = manager.leader_client
    without_election = asks()
    lease, _, _, _, work, _ = manager.phases(election)
    standby = asks()
    async with running(*lease, *work):
        await asyncio.sleep(5)
        leader = asks()
    assert (without_election, standby, leader) == (True, False, True)


PERIODS: dict[str, tuple[str, str, str]] = {
    "as shipped": ("15s", "10s", "2s"),
    "short": ("6s", "4s", "1s"),
    "a lease that ends soon after the deadline": ("15s", "14.9s", "2s"),
}


@pytest.mark.parametrize("periods", PERIODS.values(), ids=PERIODS)
@pytest.mark.looptime
async def test_a_leader_outlives_an_outage_that_leaves_its_calls_without_an_answer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, periods: tuple[str, str, str]
) -> None:
    """What it has under way ends in time, whatever the periods of the election are."""
    exits: list[int] = []
    monkeypatch.setattr(os, "_exit", exits.append)
    names = ("leaderElection.leaseDuration", "leaderElection.renewDeadline", "leaderElection.retryPeriod")
    api, pods, begun = Api(), Channel[Key]("pods"), list[str]()
    election: Any = api
    manager = managing(clock=clock, **dict(zip(names, periods, strict=True)))

    async def reconcile(key: Key) -> Outcome:
        begun.append(key.name)
        await forever()
        return DONE

    Builder[Key](manager, "gates").watches(pods, key_itself).complete(reconcile, workers=1)
    lease, _, _, _, work, _ = manager.phases(election)
    async with running(*lease, *work):
        await asyncio.sleep(5)
        pods.send(Key("ns", "before"))
        await asyncio.sleep(1)
        for api.hangs in (True, False):
            await asyncio.sleep(60)
        pods.send(Key("ns", "after"))
        await asyncio.sleep(1)
        assert (exits, begun, holder(api)) == ([], ["before", "after"], manager.instance)


@pytest.mark.looptime
async def test_a_standby_waits_and_knows_the_lease_of_its_predecessor(clock: Clock) -> None:
    log: list[str] = []
    others: Object = {
        "metadata": {
            "name": "tollbar-controllers",
            "namespace": "tollbar-system",
            "resourceVersion": "1",
            "annotations": {"mode": "of the predecessor"},
        },
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"},
    }
    election: Any = Api(others)
    manager = managing(clock=clock)
    manager.leads("gates", noting(log, "gates"))
    lease, _, _, _, work, _ = manager.phases(election)
    async with running(*lease, *work):
        await asyncio.sleep(10)
        standby = (list(log), manager.lease_taken_over)
        await asyncio.sleep(15)
        leader = (list(log), manager.lease_taken_over["metadata"]["annotations"])
    assert (standby, leader) == (([], {}), (["gates begins"], {"mode": "of the predecessor"}))


async def test_when_one_of_what_leads_fails_the_others_end_and_the_process_is_told() -> None:
    log: list[str] = []

    async def fail() -> None:
        await turns(3)
        raise RuntimeError("bug")

    manager = managing()
    manager.leads("gates", noting(log, "gates"))
    manager.leads("rules", fail)
    (work,) = manager.phases()[4]
    with pytest.raises(ExceptionGroup) as failed:
        await work.run(asyncio.Event())
    assert (log, failed.group_contains(RuntimeError, match="bug")) == (["gates begins", "gates ends"], True)


async def test_the_process_is_ready_when_everything_has_been_listed_and_every_check_agrees() -> None:
    manager = managing()
    problems: list[str | None] = ["not yet"]
    manager.health.ready("certificate", lambda: problems[0])
    store = manager.caches.store(kinds.RULES)
    _, (probes, *_), *_, readiness = manager.phases()
    assert isinstance(probes, HttpServer)
    answers = []
    async with running(probes), aiohttp.ClientSession() as session:
        await probes.listening.wait()

        async def ask() -> None:
            async with session.get(f"http://127.0.0.1:{probes.port}/readyz") as answer:
                failures = [line.split()[0] for line in (await answer.text()).splitlines() if line.startswith("[-]")]
                answers.append((answer.status, failures))

        await ask()
        async with running(*readiness):
            await ask()
            store.synced.set()
            await ask()
            problems[0] = None
            await ask()
    assert answers == [
        (500, ["[-]shutdown", "[-]certificate", "[-]caches"]),
        (500, ["[-]certificate", "[-]caches"]),
        (500, ["[-]certificate"]),
        (200, []),
    ]


async def test_an_outage_of_the_api_server_is_no_reason_to_start_the_process_again() -> None:
    """Started again, it would have lost its caches, and list everything from an API server that has just come back."""
    manager = managing()
    manager.leads("gates", forever)
    _, (probes, *_), *_ = manager.phases(manager.client)
    assert isinstance(probes, HttpServer)
    async with running(probes), aiohttp.ClientSession() as session:
        await probes.listening.wait()
        async with session.get(f"http://127.0.0.1:{probes.port}/healthz?verbose") as answer:
            lines = (await answer.text()).splitlines()
    assert sorted(line.split()[0].removeprefix("[+]") for line in lines if line.startswith("[+]")) == [
        "event-loop",
        "ping",
    ]


@pytest.mark.parametrize(("is_listed", "left_alone_at"), [(True, 0), (False, 600)])
def test_the_collector_looks_every_minute_whatever_is_listed_and_watched(
    monkeypatch: pytest.MonkeyPatch, is_listed: bool, left_alone_at: int
) -> None:
    said: list[tuple[str, int]] = []

    async def quarter_of_an_hour() -> None:
        time = asyncio.get_running_loop().time
        monkeypatch.setattr(collector, "leave_alone", lambda: said.append(("leave alone", round(time()))))
        monkeypatch.setattr(collector, "look", lambda: said.append(("look", round(time()))))
        manager = managing()
        store = manager.caches.store(kinds.CLASSES)
        if is_listed:
            store.synced.set()
        (reflectors,) = manager.phases()[2]
        async with running(reflectors):
            await asyncio.sleep(870)

    in_fake_time(quarter_of_an_hour())
    looks = [("look", at) for at in range(left_alone_at + 60, 900, 60)]
    assert said == [("leave alone", left_alone_at), *looks]


async def test_the_collector_leaves_the_caches_alone_once_all_of_them_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = asyncio.Event()
    monkeypatch.setattr(collector, "leave_alone", said.set)
    manager = managing()
    stores = [manager.caches.store(each) for each in (kinds.CLASSES, kinds.NAMESPACES)]
    (reflectors,) = manager.phases()[2]
    stop = asyncio.Event()
    running = asyncio.create_task(reflectors.run(stop))
    stores[0].synced.set()
    await turns()
    assert not said.is_set()
    stores[1].synced.set()
    await turns()
    assert said.is_set()
    stop.set()
    await running
