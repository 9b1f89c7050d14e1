"""Compares the scheduler's decisions with those of kube-scheduler in the same clusters."""

import asyncio
import copy
import importlib
import json
import pkgutil
import re
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from plugins.listing import Listing
from plugins.toys import Nominations
from scheduler.world import DEFAULT_PROFILE, Cluster

from tollbar.devplane.real.oracle import Oracle, OracleError
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.steps import result_of
from tollbar.scheduler import plugins as package
from tollbar.scheduler.algorithm import Scheduled, schedule_pod
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.config.load import load
from tollbar.scheduler.config.profiles import expand, needed
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.handle import Handle, Listers
from tollbar.scheduler.framework.runtime import Framework
from tollbar.scheduler.framework.scoring import NodeScores
from tollbar.scheduler.framework.status import Status
from tollbar.views.devices import KINDS, dra_manager
from tollbar.views.lookup import filled

ATTEMPTS: Final = 3
"""The last one counts: by then plugins' answers are kept from the ones before."""
Answer = dict[str, Any]
"""What becomes of one waiting Pod, in the order in which it is found out."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing about a Pod that is not the same; `plugin` is who said it, if one plugin did."""

    cluster: Cluster
    pod: str
    what: str
    plugin: str
    ours: Any
    theirs: Any

    @property
    def kind(self) -> tuple[str, str]:
        return self.what.partition(" ")[0], self.plugin

    def __str__(self) -> str:
        about = f"{self.cluster.family} {self.cluster.seed}, {self.pod}: {self.what} {self.plugin}".rstrip()
        request = json.dumps(self.cluster.request() | {"pods": [self.pod]}, separators=(",", ":"))
        return f"{about}\n    ours:   {self.ours}\n    theirs: {self.theirs}\n    {request}"


@cache
def available() -> Mapping[str, type]:
    """The plugins of kube-scheduler's default profile that there are, by name."""
    found = {}
    for each in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{each.name}")
        for made in vars(module).values():
            if isinstance(made, type) and getattr(made, "name", None) in DEFAULT_PROFILE:
                found[made.name] = made
    return found


def theirs(oracle: Oracle, clusters: Sequence[Cluster]) -> list[list[Answer]]:
    """Kubernetes' answers for the waiting Pods of each cluster.  ValueError for a cluster that it does not accept."""
    return [
        [_read(cluster, each) for each in _pods(answer)]
        for cluster, answer in zip(clusters, oracle.schedule(each.request() for each in clusters), strict=True)
    ]


def _pods(answer: Object) -> list[Object]:
    if "message" in answer:
        raise ValueError(answer["message"])
    pods: list[Object] = answer["pods"]
    return pods


def _read(cluster: Cluster, answer: Object) -> Answer:
    pre, post = answer["preFilter"], answer["postFilter"]
    nominated = post["nominated"] if post else None
    gone = {_name(each) for each in cluster.pods if "deletionTimestamp" in each["metadata"]}
    return {
        "pod": answer["pod"],
        "preFilter": _status(pre) | {"nodes": pre["nodes"]},
        "nodes": {each["node"]: _status(each) for each in answer["nodes"]},
        "outcome": answer["outcome"],
        "scores": {each["node"]: {key: each[key] for key in ("raw", "weighted", "total")} for each in answer["scores"]},
        "best": sorted(answer["best"]),
        "rejectors": answer["rejectors"],
        "pending": answer["pending"],
        "victims": {
            each["node"]: sorted(set(each["victims"]) - gone)
            for each in answer["candidates"]
            if each["node"] in answer["bestOfCandidates"]
        },
        "nominated": nominated,
        "message": _comparable(answer["message"]).replace(
            f"on node {nominated}, preempting", "on node NODE, preempting"
        ),
        "postFilter": post["code"] if post else None,
    }


def _status(answer: Object) -> Answer:
    """Without the order of reasons: resources with other names than the usual ones come in any order."""
    return {"code": answer["code"], "plugin": answer["plugin"], "reasons": _sorted(answer["reasons"])}


def _sorted(reasons: Iterable[str]) -> list[str]:
    return sorted(map(_comparable, reasons))


def _comparable(message: str) -> str:
    """The message without what CEL says, which is compared elsewhere."""
    return re.sub(r"(CEL (runtime|compile) error).*", r"\1", message, flags=re.DOTALL)


def ours(cluster: Cluster) -> list[Answer]:
    """Our answers for the waiting Pods of a cluster."""
    world, found = None, []
    for each in cluster.waiting:
        if world is None or world.has_acted:
            world = Simulation(cluster)
        found.append(world.answer(each))
    return found


def plugins(cluster: Cluster) -> list[Any]:
    """The plugins of the cluster's profile."""
    return Simulation(cluster).plugins


@dataclass
class _Calls:
    """An API that agrees to everything, and remembers who was deleted."""

    cluster: Cluster
    deleted: list[PodInfo] = field(default_factory=list)

    async def delete_pod(self, pod: PodInfo) -> None:
        self.deleted.append(pod)

    async def patch_pod_status(self, pod: PodInfo, patch: Object) -> Object:
        return pod.object

    async def get(self, kind: str, key: Key) -> Object:
        found = [*self.cluster.pods, *self.cluster.others]
        return next(each for each in found if (each["kind"], key_of(each)) == (kind, key))

    async def update(self, kind: str, obj: Object, *, subresource: str = "") -> Object:
        return obj

    async def delete(self, kind: str, key: Key, *, uid: str = "") -> None:
        pass


class Simulation:
    """A cluster with the framework of its profile, and without an API server.

    `has_acted` says that it may not be as it was: plugins have called the API to make room for a Pod.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.has_acted = False
        self.shapes = Shapes()
        self.cache = Cache()
        nominated: dict[str, list[PodInfo]] = {}
        self.nominations = Nominations(nominated)
        for each in cluster.pods:
            pod = self.shapes.pod_info(each)
            if pod.node_name:
                self.cache.add_pod(pod)
            elif pod.nominated_node_name:
                nominated.setdefault(pod.nominated_node_name, []).append(pod)
        for each in cluster.nodes:
            self.cache.set_node(each)
        self.snapshot = Snapshot()
        self.snapshot.update(self.cache)
        self._calls = _Calls(cluster)
        self._background: list[Coroutine[Any, Any, object]] = []
        calls: Any = self._calls
        handle = Handle(
            snapshot=self.snapshot,
            nominator=self.nominations,
            dra=dra_manager(filled(cluster.others, KINDS)),
            calls=calls,
            now=lambda: 0.0,
            monotonic=lambda: 0.0,
            listers=_listers(cluster),
            start=self._background.append,
        )
        (profile,) = load(json.dumps(_configuration(cluster))).profiles
        made = {name: available()[name](profile.args.get(name, {}), handle) for name in needed(profile)}
        self.plugins: list[Any] = list(made.values())
        self.framework = Framework(profile.scheduler_name, expand(profile, made), handle)

    def answer(self, obj: Object) -> Answer:
        pod = self.shapes.pod_info(obj)
        for _ in range(ATTEMPTS):
            state = CycleState()
            result = result_of(schedule_pod(self.framework, state, pod, self.snapshot, 0)).result
        separate = CycleState()
        found = self._filtered(separate, pod)
        found |= {
            "outcome": "scheduled", "scores": {}, "scored apart": {}, "best": [], "rejectors": [], "pending": [],
            "victims": {}, "nominated": None, "message": "", "postFilter": None,
        }  # fmt: skip
        match result:
            case Scheduled():
                found["best"] = [result.node_name]
                if result.scores is not None:
                    found["scores"] = _scores(result.scores)
                    found["scored apart"] = self._scored(separate, pod, result.scores.nodes)
                    highest = max(each["total"] for each in found["scores"].values())
                    found["best"] = sorted(name for name, each in found["scores"].items() if each["total"] == highest)
            case FitError():
                found |= {
                    "outcome": "unschedulable",
                    "rejectors": sorted(result.diagnosis.unschedulable_plugins),
                    "pending": sorted(result.diagnosis.pending_plugins),
                }
                if self.framework.plugins.post_filter:
                    found |= self._post_filtered(state, pod, result)
                message = str(result)
                found["message"] = message.replace(
                    f"on node {found['nominated']}, preempting", "on node NODE, preempting"
                )
            case Status():
                found["outcome"] = "unschedulable" if result.is_rejected else "error"
                found["message"] = _comparable(result.message)
        return found

    def _filtered(self, state: CycleState, pod: PodInfo) -> Answer:
        """What PreFilter says, and Filter Node by Node."""
        before = result_of(self.framework.pre_filter(state, pod, self.snapshot))
        names = before.node_names
        nodes: Answer = {}
        if before.status is None:
            nodes = {
                node.name: _said(result_of(self.framework.filter_with_nominated_pods(state, pod, node)))
                for node in self.snapshot
                if names is None or node.name in names
            }
        said = _said(before.status) | {"nodes": None if names is None else sorted(names)}
        return {"pod": str(pod.key), "preFilter": said, "nodes": nodes}

    def _scored(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Answer:
        """What Score says Node by Node."""
        result_of(self.framework.pre_score(state, pod, nodes))
        scores = self.framework.score(state, pod, nodes)
        assert isinstance(scores, NodeScores), scores
        return _scores(scores)

    def _post_filtered(self, state: CycleState, pod: PodInfo, error: FitError) -> Answer:
        nominated, status = result_of(self.framework.post_filter(state, pod, error.diagnosis.statuses))
        error.diagnosis.post_filter_message = status.message
        node = nominated.node_name if nominated is not None else None
        self._calls.deleted.clear()
        while self._background:
            self.has_acted = True
            asyncio.run(_done(self._background.pop()))
        victims = sorted(str(each.key) for each in self._calls.deleted)
        return {"nominated": node, "postFilter": status.code.value, "victims": {node: victims} if node else {}}


def _configuration(cluster: Cluster) -> Object:
    """The one that kube-scheduler has, and that all devices may be allocated."""
    document = cluster.configuration()
    for profile in document["profiles"]:
        profile["pluginConfig"].append({"name": "DynamicResources", "args": {"exclusive": "all"}})
    return document


def _listers(cluster: Cluster) -> Listers:
    kinds = {
        "namespaces": "Namespace", "services": "Service", "replication_controllers": "ReplicationController",
        "replica_sets": "ReplicaSet", "stateful_sets": "StatefulSet", "pod_disruption_budgets": "PodDisruptionBudget",
        "persistent_volumes": "PersistentVolume", "persistent_volume_claims": "PersistentVolumeClaim",
        "storage_classes": "StorageClass", "csi_nodes": "CSINode", "csi_drivers": "CSIDriver",
        "volume_attachments": "VolumeAttachment",
    }  # fmt: skip
    others = {name: Listing(cluster.of_kind(kind)) for name, kind in kinds.items()}
    return Listers(pods=Listing(cluster.pods), **others)


async def _done(work: Coroutine[Any, Any, object]) -> None:
    await work


def _said(status: Status | None) -> Answer:
    if status is None:
        return {"code": "Success", "plugin": "", "reasons": []}
    return {"code": status.code.value, "plugin": status.plugin, "reasons": _sorted(status.reasons)}


def _scores(scores: NodeScores) -> Answer:
    return {
        node.name: {
            "raw": {name: int(each.raw[place]) for name, each in scores.by_plugin.items()},
            "weighted": {name: int(each.normalized[place]) * each.weight for name, each in scores.by_plugin.items()},
            "total": int(scores.totals[place]),
        }
        for place, node in enumerate(scores.nodes)
    }


def differences(clusters: Sequence[Cluster], answers: Sequence[Sequence[Answer]]) -> list[Difference]:
    """The Pods about which we say something else than Kubernetes."""
    return [found for cluster, answer in zip(clusters, answers, strict=True) for found in between(cluster, answer)]


def between(cluster: Cluster, answers: Sequence[Answer]) -> Iterator[Difference]:
    for mine, other in zip(ours(cluster), answers, strict=True):
        for what, plugin, our, their in _unequal(mine, other):
            yield Difference(cluster, mine["pod"], what, plugin, our, their)
            break


def _unequal(mine: Answer, other: Answer) -> Iterator[tuple[str, str, Any, Any]]:
    """What is not the same, with the plugin that it is about; what follows from something else comes after it."""
    if mine["preFilter"] != other["preFilter"]:
        plugin = other["preFilter"]["plugin"] or mine["preFilter"]["plugin"]
        yield "preFilter", plugin, mine["preFilter"], other["preFilter"]
    for node in sorted(mine["nodes"].keys() | other["nodes"].keys()):
        our, their = mine["nodes"].get(node), other["nodes"].get(node)
        if our != their:
            plugin = _first(our, their)
            yield f"filter {node}", plugin, our, their
    if (mine["outcome"], other["outcome"]) == ("error", "error") and mine["message"] != other["message"]:
        yield "error", "", mine["message"], other["message"]
    for which, kind in ((which, kind) for which in ("scores", "scored apart") for kind in ("raw", "weighted")):
        for node in sorted(mine[which].keys() & other["scores"].keys()):
            our, their = mine[which][node][kind], other["scores"][node][kind]
            for plugin in sorted(our.keys() | their.keys()):
                # A plugin that is skipped has no scores, which is the same as 0 everywhere.
                if our.get(plugin, 0) != their.get(plugin, 0):
                    yield f"{kind} {which} {node}", plugin, our.get(plugin), their.get(plugin)
    if not mine["scores"] and not other["scores"] and set(mine["best"]) < set(other["best"]):
        # Without any score, Kubernetes takes a Node that it happens to look at early.
        other = other | {"best": mine["best"]}
    if mine["nominated"] and mine["nominated"] in other["victims"]:
        # Between Nodes that are equally good, Kubernetes chooses by chance.
        other = other | {"nominated": mine["nominated"]}
        other["victims"] = {mine["nominated"]: other["victims"][mine["nominated"]]}
    mine, other = (
        {**each, "totals": {node: of["total"] for node, of in each["scores"].items()}} for each in (mine, other)
    )
    for key, plugin in (
        ("outcome", ""), ("totals", ""), ("best", ""), ("rejectors", ""), ("pending", ""),
        ("nominated", "DefaultPreemption"), ("victims", "DefaultPreemption"), ("postFilter", "DefaultPreemption"),
        ("message", ""),
    ):  # fmt: skip
        if mine[key] != other[key]:
            yield key, plugin, mine[key], other[key]


def _first(our: Answer | None, their: Answer | None) -> str:
    """The plugin that one of us has rejected the Node for, the earlier one in the profile."""
    order = list(DEFAULT_PROFILE)
    named = [each["plugin"] for each in (our, their) if each is not None and each["plugin"]]
    return min(named, key=lambda name: order.index(name) if name in order else -1, default="")


def _name(obj: Object) -> str:
    return str(key_of(obj))


def shrunk(oracle: Oracle, difference: Difference) -> Difference:
    """The smallest cluster with such a difference that is found by leaving out one part after the other."""
    found = difference
    while True:
        for batch in _batches(_smaller(found.cluster)):
            same = _still(oracle, batch, difference.kind)
            if same is not None:
                found = same
                break
        else:
            return found


def _still(oracle: Oracle, clusters: Sequence[Cluster], kind: tuple[str, str]) -> Difference | None:
    for cluster, answer in zip(clusters, _answers(oracle, clusters), strict=True):
        if "message" in answer:
            continue
        try:
            read = [_read(cluster, each) for each in answer["pods"]]
            found = next((each for each in between(cluster, read) if each.kind == kind), None)
        except (KeyError, TypeError, ValueError):
            continue
        if found is not None:
            return found
    return None


def _answers(oracle: Oracle, clusters: Sequence[Cluster]) -> list[Object]:
    """With a message for clusters on which Kubernetes' code panics: objects lack what the API server makes sure of."""
    try:
        return oracle.schedule(each.request() for each in clusters)
    except OracleError as error:
        if len(clusters) == 1:
            return [{"message": str(error)}]
        return [answer for each in clusters for answer in _answers(oracle, [each])]


def _batches(clusters: Iterator[Cluster], size: int = 50) -> Iterator[list[Cluster]]:
    batch: list[Cluster] = []
    for each in clusters:
        batch.append(each)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


PARTS: Final = ("pods", "nodes", "others", "arguments", "points", "plugins")


def _smaller(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster with one list item or field less; the largest parts first."""
    whole = {part: getattr(cluster, part) for part in PARTS}
    for path in sorted(_paths(whole), key=len):
        copied = copy.deepcopy(cluster)
        parent: Any = getattr(copied, path[0])
        for step in path[1:-1]:
            parent = parent[step]
        del parent[path[-1]]
        yield copied


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something that can be left out."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        is_last_container = path[-1:] == ("containers",) and len(value) == 1
        if path and key not in REQUIRED and not is_last_container:
            yield (*path, key)
        yield from _paths(each, (*path, key))


REQUIRED: Final = frozenset(
    (
        *(
            "apiVersion",
            "kind",
            "metadata",
            "name",
            "namespace",
            "uid",
            "spec",
            "status",
            "containers",
            "schedulerName",
        ),
        *("PrioritySort", "DefaultBinder", "topologyKey", "maxSkew", "whenUnsatisfiable", "effect", "key", "operator"),
        *("phase", "startTime", "driver", "pool", "hostPort", "protocol", "weight", "preference", "podAffinityTerm"),
        *("allocationMode", "count", "deviceClassName", "request", "device", "value", "generation"),
        *("resourceSliceCount", "exactly", "devices", "requests", "nodeName"),
    )
)
"""Fields without which an object is not what it was."""
