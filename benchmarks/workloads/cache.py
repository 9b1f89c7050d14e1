"""What the controllers hold in memory of a cluster's Pods, and what they do while nothing happens."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from objects.builders import namespace, pod, toleration_rule
from planes.objects import RESERVED, gpu_rule
from processes.measuring import memory, most_memory
from processes.stack import Process, eventually

from benchmarks import apiserver
from benchmarks.objects import patient_gate
from benchmarks.stage import Stage, cpu_seconds
from benchmarks.workload import Row, Sample, Workload
from tollbar.devplane import kubeconfig
from tollbar.model.resources import NAMESPACES, PODS, SCHEDULING_GATES, TOLERATION_RULES

AT_REST = Row("memory at rest", "MiB", "150 with bound ones", digits=0)
MOST = Row("memory at most, while Pods are listed", "MiB", digits=0)
EACH = Row("memory at rest for each Pod without a Node, beyond that of no Pods", "kB", "at most 3", digits=2)
CPU = Row("CPU while nothing happens", "% of a core", "less than 1", digits=2)
LISTED = Row("from the start to readiness", "s")
START_CPU = Row("CPU of the process until then", "s")

_NAMESPACES: Final = 20
_KINDS_OF_POD: Final = 50
_RESTING_SECONDS: Final = 8.0
"""Longer than a Pod is held before there is an Event."""
_IDLE_SECONDS: Final = 10.0
_START_SECONDS: Final = 120.0
_NUMBER: Final = "number-of-the-pod"


@dataclass(frozen=True)
class Scene:
    """So many Pods without a Node and with one, in thousandths of the size, and the variables of each container."""

    name: str
    pending: int = 0
    bound: int = 0
    variables: int = 0


NOTHING, *_ = SCENES = (
    Scene("no Pods"),
    Scene("50,000 pending of 2.6 KB", pending=5000, variables=11),
    Scene("50,000 pending of 8 KB", pending=5000, variables=77),
    Scene("10,000 pending and 140,000 bound of 2.6 KB", pending=1000, bound=14000, variables=11),
)


def _word(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _pods(scene: Scene, size: int) -> tuple[int, apiserver.Texts]:
    """Half of those without a Node are held for a claim that is missing, the others have been given a toleration.

    Pods are alike as those of one Deployment are: but for names, uids, addresses and hashes.
    """
    pending, bound = scene.pending * size // 1000, scene.bound * size // 1000
    kinds = {
        (kind, waits, held): _text(kind, scene.variables, waits=waits, held=held)
        for kind in range(_KINDS_OF_POD)
        for waits, held in ((True, True), (True, False), (False, False))
    }
    every = max(1, (pending + bound) // max(1, pending))

    def text(number: int) -> bytes:
        waits = number % every == 0 and number // every < pending
        unique = _word(number)
        own = f"{unique[:5]}-{number}".encode()
        uid = f"{unique[:8]}-{unique[8:12]}-{unique[12:16]}-{unique[16:20]}-{unique[20:32]}".encode()
        chosen = kinds[number % _KINDS_OF_POD, waits, waits and number // every % 2 == 0]
        return chosen.replace(_NUMBER.encode(), own).replace(b"uid-of-it", uid)

    def texts(start: int, end: int) -> Sequence[bytes]:
        return [text(number) for number in range(start, end)]

    return pending + bound, texts


def _text(kind: int, variables: int, *, waits: bool, held: bool) -> bytes:
    name = f"app-{kind}"
    container = {
        "name": "main",
        "image": f"registry.example.com/team/{name}@sha256:{_word(kind)}",
        "env": [{"name": f"VARIABLE_{n}_OF_{name.upper()}", "value": _word(kind, n)[:40]} for n in range(variables)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        "volumeMounts": [
            {"name": "kube-api-access", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}
        ],
    }
    token = {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}}
    volume = {"name": "kube-api-access", "projected": {"defaultMode": 420, "sources": [token]}}
    made = (
        pod(f"{name}-{_NUMBER}", f"team-{kind % _NAMESPACES}")
        .but("metadata.uid", "uid-of-it")
        .but("metadata.resourceVersion", "999")
        .but("metadata.generateName", f"{name}-{_word(kind)[:9]}-")
        .labelled({"app.kubernetes.io/name": name, "pod-template-hash": _word(kind)[:9]})
        .annotated({"checksum/config": _word(kind, "config")})
        .owned_by("ReplicaSet", f"{name}-{_word(kind)[:9]}", api_version="apps/v1")
        .created(time.time())
        .but("spec.containers", [container])
        .but("spec.volumes", [volume])
        .but("spec.serviceAccountName", "default")
        .but("spec.schedulerName", "default-scheduler")
        .but("metadata.managedFields", [_written(variables)])
    )
    if held:
        made = made.gated().claims(f"claim-{_NUMBER}")
    elif waits:
        made = made.tolerating(RESERVED).labelled(accelerator="gpu")
    made = made.phase("Pending" if waits else "Running")
    return orjson.dumps(made if waits else made.bound().but("status.podIP", "10.0.0.1"))


def _written(variables: int) -> dict[str, object]:
    """About a third of the Pod, as managers of fields are."""
    env = {f'k:{{"name":"VARIABLE_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(variables)}
    fields = {"f:spec": {"f:containers": {'k:{"name":"main"}': {".": {}, "f:image": {}, "f:env": env}}}}
    return {"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1", "fieldsV1": fields}


async def measure(stage: Stage, size: int, turn: int) -> Sample:
    sample: dict[tuple[str, str], float] = {}
    for scene in (NOTHING, *(each for each in SCENES if each is not NOTHING and turn)):
        figures = await _measure(stage, scene, size)
        if scene.pending:
            above = figures[AT_REST] - sample[AT_REST.name, NOTHING.name]
            figures[EACH] = above * 2**20 / 1000 / (scene.pending * size / 1000)
        sample |= {(row.name, scene.name): value for row, value in figures.items()}
    return sample


async def _measure(stage: Stage, scene: Scene, size: int) -> dict[Row, float]:
    rules = (
        gpu_rule("claims"),
        toleration_rule("label").cel('pod.metadata.labels.accelerator == "gpu"').giving(RESERVED),
    )
    objects = {
        PODS: _pods(scene, size),
        NAMESPACES: apiserver.given(*(namespace(f"team-{n}") for n in range(_NAMESPACES))),
        TOLERATION_RULES: apiserver.given(*rules),
        SCHEDULING_GATES: apiserver.given(patient_gate()),
    }
    async with apiserver.serving(objects) as server:
        file = kubeconfig.write(
            stage.stack.directory / "pods.kubeconfig",
            kubeconfig.config(server=server.url, authority=b"", token=scene.name),
        )
        began = time.monotonic()
        process = stage.stack.start("cache", "controllers", ready=False, kubeconfig=file, log__verbosity=0)
        pid = process.child.pid
        await asyncio.to_thread(eventually, process.is_ready, seconds=_START_SECONDS, what="the controllers ready")
        figures = {LISTED: time.monotonic() - began, START_CPU: cpu_seconds(pid)}
        await _rest(process, server)
        before = cpu_seconds(pid)
        await asyncio.sleep(_IDLE_SECONDS)
        figures |= {
            CPU: (cpu_seconds(pid) - before) / _IDLE_SECONDS * 100,
            AT_REST: memory(pid) / 2**20,
            MOST: most_memory(pid) / 2**20,
        }
        await asyncio.to_thread(process.stop)
    return figures


async def _rest(process: Process, server: apiserver.Server) -> None:
    """Wait until the process has looked at every Pod and has written its Events."""
    done, before = (0, 0), (-1, -1)
    while done != before:
        before = done
        await asyncio.sleep(_RESTING_SECONDS)
        done = await asyncio.to_thread(process.reconciles), server.creations


WORKLOAD: Final = Workload(
    name="cache",
    title="Memory of the controllers",
    about=f"""\
The controllers run beside an API server that lists Pods and otherwise has {_NAMESPACES} namespaces, two rules and the
SchedulingGate: a real one could not make as many Pods on this machine. They are of {_KINDS_OF_POD} workloads. The
size of a Pod is that of its JSON without what the API server keeps of field managers, which it sends all the same. Half
of the Pods without a Node are held for a claim that is missing, the others match a rule and have its toleration.

There is no peer. Memory is the resident set. The process rests when for {_RESTING_SECONDS:.0f} s it has looked at no
Pod and written no Event; then its CPU time is measured, for {_IDLE_SECONDS:.0f} s in which nothing happens. What this
means for limits is in [memory](operations/memory.md).""",
    columns=tuple(scene.name for scene in SCENES),
    rows=(AT_REST, MOST, EACH, CPU, LISTED, START_CPU),
    size=10000,
    things="Pods",
    measure=measure,
)
