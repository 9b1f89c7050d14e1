"""PodQuotas on the real control plane: two replicas of controllers and webhook, which are killed under load.

Judged by the history of the watch alone: at no point of it do the Pods without the gate request more than the limit.
TOLLBAR_QUOTA_PODS says how many Pods there are; `--log-cli-level=INFO` shows how long released ones had fitted before.
"""

import asyncio
import itertools
import json
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from typing import Any

import pytest
from history.quotareleases import Release, Sized, State, may_go, releases
from history.recording import Recorder
from planes.loading import Service
from planes.policies import gate_rights
from processes.stack import ELECTION, Stack, eventually, installed, patient

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.devplane.ports import free_ports
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates.evaluation import webhook_of
from tollbar.gates.quota import PodQuotas
from tollbar.model import podresources, pods, resources, timestamps
from tollbar.model.objects import Object, key_of, metadata, spec, uid_of
from tollbar.runtime.client import Client
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound
from tollbar.runtime.metrics import Metrics

log = logging.getLogger(__name__)

SIZE = int(os.environ.get("TOLLBAR_QUOTA_PODS", "90"))
NAMESPACES = tuple(f"quota-{number:02}" for number in range(20 if SIZE > 1000 else 3))
LIMIT = max(20, SIZE // 10)
"""Cores."""
LARGEST = 5
AT_ONCE = 32
MANY = SIZE > 1000
KILLS = 6 if MANY else 2
"""Of the leader."""
LOST = 3 if MANY else 1
"""Replicas of the webhook that are killed while Pods are created."""
SETTINGS: dict[str, object] = {"leaderElection__enabled": True, "log__verbosity": 0} if MANY else ELECTION
"""Of many Pods the log, and the periods of the election, are those of an installation: a start takes some seconds."""
pytestmark = pytest.mark.timeout(300 + SIZE)


@pytest.fixture(scope="module")
def stack(own_plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with installed(own_plane, tmp_path_factory.mktemp("quota")) as found:
        yield found


@pytest.fixture(scope="module")
def service(stack: Stack) -> Iterator[Service]:
    """The address at which the API server asks the replicas of the webhook."""
    with Service() as service:
        stack.serving = service.port
        yield service


def replica(stack: Stack, service: Service, name: str) -> None:
    """One of the webhook, which gets connections once it is ready."""
    (port,) = free_ports(1)
    stack.start(name, "webhooks", webhook__port=port, gates=["quota"], **SETTINGS)
    service.add(name, port)


@pytest.fixture(scope="module")
def rights(stack: Stack) -> Iterator[None]:
    """Those that the gate class comes with."""
    with gate_rights(stack.plane.kubectl, [PodQuotas()]):
        yield


@pytest.fixture(scope="module")
def running(stack: Stack, service: Service, rights: None) -> Iterator[Stack]:
    """Two replicas of webhook and controllers with the gate class, under the rights that it comes with."""
    kubectl = stack.plane.kubectl
    for name in ("one", "two"):
        stack.controllers(name, ready=False, gates=["quota"], **SETTINGS)
    for name in ("a", "b"):
        replica(stack, service, name)
    eventually(lambda: all(each.is_ready() for each in stack.running.values()), seconds=90, what="all are ready")
    here = webhooks.at_url(f"https://127.0.0.1:{stack.serving}", stack.authority)
    kubectl.apply(patient(webhooks.gates_configuration(here, [webhook_of(PodQuotas())])))
    high = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "quota-high"},
        "value": 9,
    }
    labels = {wellknown.LABEL_QUOTA: "", "test": "quota"}
    kind = {"apiVersion": "v1", "kind": "Namespace"}
    kubectl.apply(high, *({**kind, "metadata": {"name": name, "labels": labels}} for name in NAMESPACES))
    eventually(lambda: is_held(stack), what="the webhook is asked")
    yield stack
    kubectl("delete", "mutatingwebhookconfiguration", webhooks.GATES_NAME)
    kubectl("delete", "priorityclass", "quota-high")
    kubectl("delete", "namespace", *NAMESPACES, "--wait=false")


def is_held(stack: Stack) -> bool:
    """Whether a Pod would be; a namespace has a ServiceAccount only after a while."""
    dry = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    try:
        created: Object = json.loads(stack.plane.kubectl(*dry, stdin=json.dumps(a_pod(NAMESPACES[-1], "probe", 1))))
    except Exception:
        return False
    return PodQuotas.name in pods.gate_names(created)


def a_pod(namespace: str, name: str, cpu: int, **more: Any) -> Object:
    container = {"name": "main", "image": "example.com/app", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "schedulerName": "nobody", "terminationGracePeriodSeconds": 0, **more},
    }


def a_quota(cores: int, **more: Any) -> Object:
    ours = {"matchLabels": {"test": "quota"}}
    body = {"namespaceSelector": ours, "limits": {"cpu": cores}, "sharing": "Fair", "patience": "1h", **more}
    return {"apiVersion": wellknown.API_VERSION, "kind": "PodQuota", "metadata": {"name": "cores"}, "spec": body}


def is_out(pod: Object) -> bool:
    return PodQuotas.name not in pods.gate_names(pod)


def sized(pod: Object) -> Sized:
    return Sized(key_of(pod), int(podresources.requests(pod)["cpu"]), int(spec(pod).get("priority") or 0))


class Seen(Recorder):
    """Keeps which Pods are held and which are out, and every stored state of each."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.held: dict[str, Sized] = {}
        self.out: dict[str, Sized] = {}
        self.alike: Counter[Sized] = Counter()
        """How many of those that are held are alike to the quota, whatever their names: asked about at every event."""
        self._states: list[tuple[int, str, Sized, bool, bool, float]] = []

    def _note(self, kind: str, type_: str, obj: Object) -> None:
        if kind == "Pod" and key_of(obj).namespace in NAMESPACES:
            uid, pod, out, deleted = uid_of(obj), sized(obj), is_out(obj), type_ == "DELETED"
            if (before := self.held.pop(uid, None)) is not None:
                self.alike[before.alike] -= 1
            self.out.pop(uid, None)
            if not deleted:
                (self.out if out else self.held)[uid] = pod
                self.alike[pod.alike] += not out
            version = int(metadata(obj)["resourceVersion"])
            self._states.append((version, uid, pod, out, deleted, asyncio.get_running_loop().time()))
        super()._note(kind, type_, obj)

    def history(self) -> Iterator[State]:
        """In the order in which they were stored."""
        using: dict[str, int] = {}
        for _, uid, pod, out, deleted, seen in sorted(self._states):
            using.pop(uid, None)
            if out and not deleted:
                using[uid] = pod.cores
            yield State(uid, pod, out, deleted, seen, sum(using.values()))


class Load:
    """Pods of one plane, as the watch tells of them."""

    def __init__(self, stack: Stack, service: Service, client: Client, seen: Seen) -> None:
        self.stack, self.service, self.client, self.seen, self.rng = stack, service, client, seen, Random(7)
        self.refused = 0
        """Creations that failed because no webhook answered."""
        self.without_leader: list[tuple[float, float]] = []
        self.limits: list[tuple[float, int]] = []

    def used(self) -> Counter[str]:
        """By namespace."""
        found: Counter[str] = Counter()
        for pod in self.seen.out.values():
            found[pod.key.namespace] += pod.cores
        return found

    async def allow(self, cores: int) -> None:
        await asyncio.to_thread(self.stack.plane.kubectl.apply, a_quota(cores))
        self.limits.append((asyncio.get_running_loop().time(), cores))

    async def create(self) -> None:
        """All of them, and meanwhile replicas of the webhook are killed."""
        lost = {SIZE * (number + 1) // (LOST + 1): name for number, name in zip(range(LOST), "aba", strict=False)}
        tasks = []

        async def one(number: int) -> None:
            if number in lost:
                tasks.append(asyncio.create_task(self._lose(lost[number])))
            cores, is_high = self.rng.randint(1, LARGEST), self.rng.randrange(7) == 0
            more = {"priorityClassName": "quota-high"} if is_high else {}
            namespace = NAMESPACES[number % len(NAMESPACES)]
            await self._created(a_pod(namespace, f"p{number}", cores, **more))

        await at_once(one, range(SIZE))
        await asyncio.gather(*tasks)
        assert await self.seen.until(lambda: len(self.seen.held) + len(self.seen.out) == SIZE, 60)

    async def _created(self, pod: Object) -> None:
        while True:
            try:
                await self.client.create(resources.PODS, pod)
            except AlreadyExists:  # an answer was lost
                return
            except ApiError as error:
                if "failed calling webhook" not in str(error):
                    raise
                self.refused += 1
                await asyncio.sleep(0.1)
            else:
                return

    async def _lose(self, name: str) -> None:
        """A replica of the webhook is killed, is noticed to be gone, and starts anew."""
        await asyncio.to_thread(self.stack.running[name].kill)
        self.service.remove(name)
        await asyncio.to_thread(replica, self.stack, self.service, name)

    async def kill_the_leader(self) -> None:
        """And there is room meanwhile, until another one leads."""
        before, began = (await self._lease())["holderIdentity"], asyncio.get_running_loop().time()
        name = before.split("-")[0]
        await asyncio.to_thread(self.stack.running[name].kill)
        self.stack.controllers(name, ready=False, gates=["quota"], **SETTINGS)
        await self.end(max(1, LIMIT // 8))
        async with asyncio.timeout(60):
            while (lease := await self._lease())["holderIdentity"] in ("", before):  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.1)
        ago = time.time() - timestamps.parse(lease["acquireTime"])
        self.without_leader.append((began, asyncio.get_running_loop().time() - ago))
        await self.full(LIMIT)

    async def _lease(self) -> Object:
        """The spec of the controllers' Lease."""
        return spec(await self.client.get(resources.LEASES, "tollbar-controllers", wellknown.SYSTEM_NAMESPACE))

    def waited_for_leader(self, release: Release) -> float | None:
        """Until when, on the event loop's clock, if nobody led when the Pod could have gone."""
        without = (end for begin, end in self.without_leader if release.seen >= begin and release.fitted <= end)
        return next(without, None)

    async def end(self, count: int) -> None:
        """So many of those that are out are deleted."""
        chosen = self.rng.sample(found := sorted(self.seen.out.items()), min(count, len(found)))

        async def one(item: tuple[str, Sized]) -> None:
            with suppress(NotFound):
                await self.client.delete(resources.PODS, item[1].key.name, item[1].key.namespace)

        await at_once(one, chosen)
        assert await self.seen.until(lambda: not any(uid in self.seen.out for uid, _ in chosen), 60)

    async def full(self, limit: int, seconds: float = 60) -> None:
        """Wait until none of those that wait fits, nor could by its namespace's share."""

        def nothing_goes() -> bool:
            alike = {each: each for each, count in self.seen.alike.items() if count}
            return not may_go(alike, self.used(), limit)

        assert await self.seen.until(nothing_goes, seconds), f"{self.used().total()} of {limit} are used"

    async def fill_again(self) -> None:
        """All that are out end, and only when the leader has counted that there is room anew."""
        await self.allow(0)
        await self.end(SIZE)
        idle = ("wait", "--for=jsonpath={.status.running}=0", "podquota/cores", "--timeout=60s")
        await asyncio.to_thread(self.stack.plane.kubectl, *idle)
        await self.allow(LIMIT)
        await self.full(LIMIT)

    def apart(self) -> int | None:
        """How many cores lie between the shares of namespaces that wait at the level that is being served.

        Of what was let go since nothing ended; None where Pods of a higher level are out, which come first anywhere.
        """
        level = max((each.priority for each in self.seen.held.values()), default=0)
        if any(each.priority > level for each in self.seen.out.values()):
            return None
        used = self.used()
        waiting = {each.key.namespace for each in self.seen.held.values() if each.priority == level}
        shares = [used[namespace] for namespace in waiting]
        return max(shares) - min(shares) if shares else None


async def at_once(do: Callable[[Any], Awaitable[None]], what: Iterable[Any]) -> None:
    left = iter(what)

    async def work() -> None:
        for each in left:
            await do(each)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


@asynccontextmanager
async def loading(stack: Stack, service: Service) -> AsyncIterator[Load]:
    client = await Client.connect(kubeconfig=str(stack.plane.kubeconfig), metrics=Metrics(), user_agent="tollbar-tests")
    seen = Seen(client)
    task = asyncio.create_task(seen.run())
    await seen.begun()
    yield Load(stack, service, client, seen)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await client.close()


def told(what: str, found: Sequence[float]) -> None:
    if found:
        ordered = sorted(found)
        median, most = ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]
        log.info("%s, of %d: p50 %.2f s, p99 %.2f s, at most %.2f s", what, len(ordered), median, most, ordered[-1])


async def test_the_limit_holds_at_every_point_of_the_history(running: Stack, service: Service) -> None:
    apart: list[int | None] = []
    async with loading(running, service) as load:
        seen = load.seen
        await load.allow(0)
        await load.create()
        assert seen.out == {}
        await load.allow(LIMIT)
        await load.full(LIMIT)
        apart.append(load.apart())
        killed = rounds = 0
        while seen.held:
            there = len(seen.held) + len(seen.out)
            if killed < KILLS and there < SIZE * (KILLS + 1 - killed) // (KILLS + 2):
                await load.end(LIMIT // LARGEST)  # while what is released is under way
                await load.kill_the_leader()
                killed += 1
            elif MANY and rounds % 20 == 19:
                await load.fill_again()
                apart.append(load.apart())
            else:
                await load.end(max(1, LIMIT // 8))
                await load.full(LIMIT)
            rounds += 1
        await load.end(SIZE)
        states = list(seen.history())
    used = max(each.used for each in states)
    log.info(
        "%d Pods, %d creations refused, %d leaders killed, at most %d of %d", SIZE, load.refused, killed, used, LIMIT
    )
    log.info("cores between namespaces, each time all was free: %s", apart)
    found = list(releases(states, load.limits))
    led = [(each, load.waited_for_leader(each)) for each in found]
    told("released after they fitted, with a leader", [each.late for each, since in led if since is None])
    told("released after they fitted, fail-over", [each.late for each, since in led if since is not None])
    after = [max(0.0, each.seen - since) for each, since in led if since is not None]
    told("the latter, after the next one began to lead", after)
    told("held", [each.waited for each in found])
    first = {state.uid: state.out for state in reversed(states)}
    assert (used <= LIMIT, killed, len(found), any(first.values())) == (True, KILLS, SIZE, False)
    assert max(each for each in apart if each is not None) <= LARGEST
    assert running.tracebacks() == ""


async def test_a_large_pod_does_not_starve_beside_small_ones_of_higher_priority(
    running: Stack, service: Service
) -> None:
    kubectl = running.plane.kubectl
    high = {"priorityClassName": "quota-high"}
    async with loading(running, service) as load:
        seen = load.seen
        kubectl.apply(a_quota(3, sharing="FirstCome", patience="5s"))
        for number in range(3):
            await load._created(a_pod(NAMESPACES[0], f"small-{number}", 1, **high))
        assert await seen.until(lambda: len(seen.out) == 3, 30)
        await load._created(a_pod(NAMESPACES[0], "large", 3))
        assert await seen.until(lambda: any(each.cores == 3 for each in seen.held.values()), 30)
        overtook = 0
        for number in itertools.count(3):
            await load._created(a_pod(NAMESPACES[0], f"small-{number}", 1, **high))
            await load.end(1)
            now = f"small-{number}"
            goes = await seen.until(lambda now=now: any(each.key.name == now for each in seen.out.values()), 2)
            overtook += goes
            if not goes and not seen.out:
                break
            if any(each.cores == 3 for each in seen.out.values()):
                break
        assert await seen.until(lambda: any(each.cores == 3 for each in seen.out.values()), 30)
        assert overtook
        kubectl.apply(a_quota(100))
        assert await seen.until(lambda: not seen.held, 30)
        await load.end(100)
