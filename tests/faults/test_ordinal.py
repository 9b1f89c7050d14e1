"""Hand-overs between two StatefulSets on the real control plane, while processes that lead are killed.

The StatefulSets are in two namespaces and on two pools of Nodes.  Judged by the history of the watch alone: at no point
of it are there two Pods of an ordinal that were let go, and none is let go before its predecessor is Ready.
TOLLBAR_ORDINAL says how many hand-overs there are, one in each direction by turns.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from random import Random

import pytest
from history.recording import Change, Recorder, in_order, recorded
from planes.policies import gate_rights
from processes.stack import CEILING, ELECTION, Stack, eventually, installed, patient

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.launcher import RealPlane
from tollbar.gates.evaluation import webhook_of
from tollbar.gates.ordinal import OrdinalGate
from tollbar.model import conditions, pods
from tollbar.model.objects import Object, key_of, metadata
from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics

log = logging.getLogger(__name__)

HAND_OVERS = int(os.environ.get("TOLLBAR_ORDINAL", "2"))
REPLICAS = 3
PLACES = ("ordinal-a", "ordinal-b")
"""Namespaces, and the pools of their Nodes."""
pytestmark = pytest.mark.timeout(200 + 60 * HAND_OVERS)


@pytest.fixture(scope="module")
def stack(own_plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Webhook and two replicas of the controllers with the gate class, under the rights that it comes with."""
    kubectl = own_plane.kubectl
    with (
        installed(own_plane, tmp_path_factory.mktemp("ordinal")) as running,
        BackgroundKubelet(own_plane.kubeconfig) as kubelet,
        gate_rights(kubectl, [OrdinalGate()]),
    ):
        for place in PLACES:
            kubelet.add_node(NodeSpec(place, labels={"pool": place}))
        kubectl("delete", "--ignore-not-found", *(f"--filename={path}" for path in CEILING))
        for name in ("one", "two"):
            running.controllers(name, ready=False, gates=["ordinal"], **ELECTION)
        running.webhook(gates=["ordinal"], **ELECTION)
        eventually(lambda: all(each.is_ready() for each in running.running.values()), what="all are ready")
        here = webhooks.at_url(f"https://127.0.0.1:{running.serving}", running.authority)
        kubectl.apply(patient(webhooks.gates_configuration(here, [webhook_of(OrdinalGate())])))
        kind = {"apiVersion": "v1", "kind": "Namespace"}
        kubectl.apply(*({**kind, "metadata": {"name": place}} for place in PLACES))
        yield running
        kubectl("delete", "statefulset", "db", "-n", PLACES[0], "--ignore-not-found")
        kubectl("delete", "statefulset", "db", "-n", PLACES[1], "--ignore-not-found")
        kubectl("delete", "mutatingwebhookconfiguration", webhooks.GATES_NAME)
        kubectl("delete", "namespace", *PLACES, "--wait=false")


def a_set(place: str, peer: str, replicas: int) -> Object:
    notes = {wellknown.ANNOTATION_ORDINAL_PEER: f"{peer}/db"}
    labels = {"app": "db", wellknown.LABEL_ORDINAL: ""}
    body = {
        "containers": [{"name": "main", "image": "example.com/app"}],
        "nodeSelector": {"pool": place},
        "terminationGracePeriodSeconds": 1,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": place, "annotations": notes},
        "spec": {
            "serviceName": "db",
            "replicas": replicas,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": labels, "annotations": notes}, "spec": body},
        },
    }


def is_out(pod: Object) -> bool:
    return wellknown.ORDINAL_GATE not in pods.gate_names(pod)


def ordinal_of(pod: Object) -> int:
    return int(key_of(pod).name.rpartition("-")[2])


def faults(changes: Iterable[Change]) -> Iterator[str]:
    """What is wrong in the history, in words."""
    now: dict[tuple[str, int], Object] = {}
    for change in in_order(changes):
        if change.kind != "Pod":
            continue
        pod, place, ordinal = change.object, key_of(change.object).namespace, ordinal_of(change.object)
        before = now.get((place, ordinal))
        if change.deleted:
            now.pop((place, ordinal), None)
            continue
        now[place, ordinal] = pod
        others = [each for each in PLACES if each != place and is_out(now.get((each, ordinal), GATED))]
        if is_out(pod) and others:
            yield f"two of ordinal {ordinal} at {metadata(pod)['resourceVersion']}"
        if before is not None and not is_out(before) and is_out(pod) and ordinal:
            first = now.get((place, ordinal - 1))
            if first is None or not conditions.is_true(first, "Ready"):
                yield f"{key_of(pod)} was let go before its predecessor was Ready"


GATED: Object = {"spec": {"schedulingGates": [{"name": wellknown.ORDINAL_GATE}]}}


@asynccontextmanager
async def watching(stack: Stack) -> AsyncIterator[Recorder]:
    client = await Client.connect(kubeconfig=str(stack.plane.kubeconfig), metrics=Metrics(), user_agent="tollbar-tests")
    try:
        async with recorded(client) as recorder:
            yield recorder
    finally:
        await client.close()


async def test_hand_overs_while_the_leader_is_killed(stack: Stack) -> None:
    kubectl, rng = stack.plane.kubectl, Random(HAND_OVERS)
    killed: list[int] = []
    """How many Pods were Ready there whenever the leader was killed."""

    def ready(place: str) -> list[Object]:
        found = [each for (kind, _), each in recorder.objects[place].items() if kind == "Pod"]
        return [each for each in found if is_out(each) and conditions.is_true(each, "Ready")]

    def gated(place: str) -> list[Object]:
        found = [each for (kind, _), each in recorder.objects[place].items() if kind == "Pod"]
        return [each for each in found if not is_out(each)]

    async with watching(stack) as recorder:
        source, target = PLACES
        kubectl.apply(a_set(source, target, REPLICAS), a_set(target, source, 0))
        assert await recorder.until(lambda: len(ready(source)) == REPLICAS, 90)
        for _ in range(HAND_OVERS):
            kubectl("scale", "statefulset/db", "-n", target, f"--replicas={REPLICAS}")
            assert await recorder.until(lambda to=target: len(gated(to)) == REPLICAS, 60)
            name = (await asyncio.to_thread(stack.leader)).split("-")[0]
            kubectl("scale", "statefulset/db", "-n", source, "--replicas=0")
            reached = rng.randint(0, REPLICAS - 1)
            assert await recorder.until(lambda to=target, at=reached: len(ready(to)) >= at, 90)
            stack.running[name].kill()
            killed.append(len(ready(target)))
            stack.controllers(name, ready=False, gates=["ordinal"], **ELECTION)
            assert await recorder.until(lambda to=target: len(ready(to)) == REPLICAS, 120)
            source, target = target, source
        wrong = [*faults(each for place in PLACES for each in recorder.changes[place])]
    log.info("%d hand-overs of %d Pods; leaders were killed when so many were Ready: %s", HAND_OVERS, REPLICAS, killed)
    assert (wrong, len(killed)) == ([], HAND_OVERS)
    assert stack.tracebacks() == ""
