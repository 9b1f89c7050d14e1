"""PodQuotas on the real control plane: two replicas of the controllers, of which the one that leads is killed.

Judged by the history of the watch alone: at no point of it do the Pods without the gate request more than the limit.
TOLLBAR_QUOTA_PODS says how many Pods there are; `--log-cli-level=INFO` shows how long released ones had fitted before.
"""

import asyncio
import json
import logging
import math
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from recording import Change, Recorder
from stack import Stack, eventually, installed
from transcripts import play

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import gates
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates.quota import PodQuotas
from tollbar.gates.sight import told_of
from tollbar.model import podresources, pods, resources
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.runtime.client import Client
from tollbar.runtime.errors import NotFound
from tollbar.runtime.metrics import Metrics

log = logging.getLogger(__name__)

EXAMPLE = Path(__file__).parents[2] / "manifests" / "examples" / "pod-quota"
SIZE = int(os.environ.get("TOLLBAR_QUOTA_PODS", "90"))
NAMESPACES = tuple(f"quota-{number:02}" for number in range(20 if SIZE > 1000 else 3))
LIMIT = max(20, SIZE // 10)
"""Cores."""
LARGEST = 5
AT_ONCE = 32
pytestmark = pytest.mark.timeout(300 + SIZE)
ELECTION: dict[str, object] = {
    "leaderElection__enabled": True,
    "leaderElection__leaseDuration": "6s",
    "leaderElection__renewDeadline": "4s",
    "leaderElection__retryPeriod": "1s",
}


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    if not isinstance(plane, RealPlane):
        pytest.skip("needs a control plane of its own")
    with installed(plane, tmp_path_factory.mktemp("quota")) as found:
        yield found


@pytest.fixture(scope="module")
def running(stack: Stack) -> Iterator[Stack]:
    """Webhook and two replicas of the controllers with the gate class, under the rights that it comes with."""
    kubectl = stack.plane.kubectl
    kubectl.apply(
        *(each for each in gates.objects([PodQuotas()], wellknown.SYSTEM_NAMESPACE) if "webhooks" not in each)
    )
    for name in ("one", "two"):
        stack.controllers(name, ready=False, gates=["quota"], **ELECTION)
    stack.webhook(gates=["quota"], **ELECTION)
    eventually(lambda: all(each.is_ready() for each in stack.running.values()), seconds=90, what="all are ready")
    here = webhooks.at_url(f"https://127.0.0.1:{stack.serving}", stack.authority)
    configuration = webhooks.gates_configuration(here, [told_of(PodQuotas())])
    patient = [{**each, "timeoutSeconds": 10} for each in configuration["webhooks"]]
    kubectl.apply({**configuration, "webhooks": patient})
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
    kubectl("delete", "clusterrole,clusterrolebinding", "-l", "app.kubernetes.io/component=gates")


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


def a_quota(cores: int) -> Object:
    ours = {"matchLabels": {"test": "quota"}}
    body = {"namespaceSelector": ours, "limits": {"cpu": cores}, "sharing": "Fair", "patience": "1h"}
    return {"apiVersion": wellknown.API_VERSION, "kind": "PodQuota", "metadata": {"name": "cores"}, "spec": body}


def cpu(pod: Object) -> int:
    return int(podresources.requests(pod)["cpu"])


def is_out(pod: Object) -> bool:
    return PodQuotas.name not in pods.gate_names(pod)


def history(changes: Iterable[Change]) -> Iterator[tuple[Object, int]]:
    """Every stored state of a Pod in its order, with the cores that are used then."""
    out: dict[str, int] = {}
    for change in sorted(changes, key=lambda each: int(metadata(each.object)["resourceVersion"])):
        if change.kind != "Pod":
            continue
        if change.deleted:
            out.pop(uid_of(change.object), None)
        elif is_out(change.object):
            out[uid_of(change.object)] = cpu(change.object)
        yield change.object, sum(out.values())


class Timed(Recorder):
    """Also keeps when each state was seen, by its resourceVersion."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.times: dict[str, float] = {}

    async def _note(self, kind: str, type_: str, obj: Object) -> None:
        self.times[metadata(obj)["resourceVersion"]] = asyncio.get_running_loop().time()
        await super()._note(kind, type_, obj)


def delays(states: Sequence[tuple[Object, int]], times: Mapping[str, float]) -> list[float]:
    """For each release, seconds for which the Pod had fitted before, as far as the limit alone goes."""
    found: list[float] = []
    gated: dict[str, int] = {}
    for place, (pod, _) in enumerate(states):
        if not is_out(pod):
            gated.setdefault(uid_of(pod), place)
        elif (began := gated.pop(uid_of(pod), None)) is not None:
            fits = place
            while fits - 1 > began and states[fits - 1][1] + cpu(pod) <= LIMIT:
                fits -= 1
            before, now = (times[metadata(states[each][0])["resourceVersion"]] for each in (fits, place))
            found.append(max(0.0, now - before))
    return sorted(found)


class Load:
    """Pods of one plane, as the watch tells of them."""

    def __init__(self, client: Client, seen: Timed) -> None:
        self.client, self.seen, self.rng = client, seen, Random(7)

    def there(self) -> dict[Key, Object]:
        return {
            key_of(each): each
            for namespace in NAMESPACES
            for (kind, _), each in self.seen.objects[namespace].items()
            if kind == "Pod"
        }

    def out(self) -> list[Object]:
        return [each for each in self.there().values() if is_out(each)]

    def held(self) -> list[Object]:
        return [each for each in self.there().values() if not is_out(each)]

    def used(self, namespace: str = "") -> int:
        return sum(cpu(each) for each in self.out() if namespace in ("", key_of(each).namespace))

    async def create(self) -> None:
        async def one(number: int) -> None:
            more = {"priorityClassName": "quota-high"} if number % 7 == 0 else {}
            namespace = NAMESPACES[number % len(NAMESPACES)]
            await self.client.create(resources.PODS, a_pod(namespace, f"p{number}", 1 + number % LARGEST, **more))

        await at_once(one, range(SIZE))
        assert await self.seen.until(lambda: len(self.there()) == SIZE, 60)

    async def end(self, count: int) -> None:
        """So many of those that are out are deleted."""
        chosen = self.rng.sample(found := self.out(), min(count, len(found)))

        async def one(pod: Object) -> None:
            with suppress(NotFound):
                await self.client.delete(resources.PODS, key_of(pod).name, key_of(pod).namespace)

        await at_once(one, chosen)
        gone = {key_of(each) for each in chosen}
        assert await self.seen.until(lambda: not gone & set(self.there()), 60)

    async def full(self, limit: int, seconds: float = 60) -> None:
        """Wait until none of those that wait fits, nor could by its namespace's share."""

        def nothing_goes() -> bool:
            room = limit - self.used()
            waiting = self.held()
            reach = {uid_of(each): self.used(key_of(each).namespace) + cpu(each) for each in waiting}
            least = min((reach[uid_of(each)] for each in waiting if cpu(each) > room), default=math.inf)
            return not any(cpu(each) <= room and reach[uid_of(each)] <= least for each in waiting)

        assert await self.seen.until(nothing_goes, seconds), f"{self.used()} of {limit} are used"


async def at_once(do: Callable[[Any], Awaitable[None]], what: Iterable[Any]) -> None:
    left = iter(what)

    async def work() -> None:
        for each in left:
            await do(each)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))


@asynccontextmanager
async def loading(stack: Stack) -> AsyncIterator[Load]:
    client = await Client.connect(kubeconfig=str(stack.plane.kubeconfig), metrics=Metrics(), user_agent="tollbar-tests")
    seen = Timed(client)
    task = asyncio.create_task(seen.run())
    await seen.begun()
    yield Load(client, seen)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.close()


def leader(stack: Stack) -> str:
    lease = stack.plane.kubectl.json("get", "lease", "tollbar-controllers", "-n", wellknown.SYSTEM_NAMESPACE)
    return str(lease["spec"].get("holderIdentity", "")).split("-")[0]


async def test_the_limit_holds_at_every_point_of_the_history(running: Stack) -> None:
    kubectl = running.plane.kubectl
    async with loading(running) as load:
        kubectl.apply(a_quota(0))
        await load.create()
        assert load.out() == []
        kubectl.apply(a_quota(LIMIT))
        await load.full(LIMIT)
        # All of them waited, and nothing has ended yet: no namespace is further ahead than by one Pod.
        high = [each for each in load.there().values() if each["spec"].get("priorityClassName")]
        if all(map(is_out, high)):
            shares = {namespace: load.used(namespace) for namespace in NAMESPACES}
            assert max(shares.values()) - min(shares.values()) <= LARGEST + len(high)
        killed = 0
        while load.held():
            if killed < 2 and len(load.there()) < SIZE * (3 - killed) // 4:
                await load.end(LIMIT // LARGEST)  # while what is released is under way
                name = await asyncio.to_thread(leader, running)
                await asyncio.to_thread(running.running[name].kill)
                running.controllers(name, ready=False, gates=["quota"], **ELECTION)
                killed += 1
            else:
                await load.end(max(1, LIMIT // 8))
            await load.full(LIMIT)
        states = [*history(each for found in load.seen.changes.values() for each in found)]
        late = delays(states, load.seen.times)
    used = [each for _, each in states]
    log.info("%d Pods, %d killed leaders, at most %d of %d cores", SIZE, killed, max(used), LIMIT)
    median, most = late[len(late) // 2], late[len(late) * 99 // 100]
    log.info("released after they fitted: p50 %.2f s, p99 %.2f s, at most %.2f s", median, most, late[-1])
    assert (max(used) <= LIMIT, killed) == (True, 2)
    assert running.tracebacks() == ""


def test_the_example_shows_what_its_readme_says(running: Stack, namespace: str, tmp_path: Path) -> None:
    play(EXAMPLE, running.plane.kubectl, namespace, tmp_path)
