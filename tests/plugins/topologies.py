"""Small clusters for the plugins that look at where other Pods are.

Nodes are named after their zone: `a1` is the host `a1` in zone `a`; one that is named `-1` has no zone.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pytest

from plugins.listing import Listing
from plugins.toys import done
from tollbar.model.objects import Object
from tollbar.scheduler.cache.domains import DomainSums
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.handle import Handle, Lister, Listers
from tollbar.scheduler.framework.interface import Arguments, Filter, PreFilter, PreScore, Score, ScoreExtensions
from tollbar.scheduler.framework.status import SKIP, Status

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
NO_ARGUMENTS: Arguments = {}
WEB = {"matchLabels": {"app": "web"}}
_SHAPES = Shapes()


class TopologyPlugin(PreFilter, Filter, PreScore, Score, ScoreExtensions, Protocol):
    """A plugin that filters and scores."""


def lister(*objects: Object) -> Lister:
    return Listing(objects)


def node(name: str, *, taints: Sequence[Object] = (), labels: Mapping[str, str | None] | None = None) -> Object:
    """`labels` are added to those of zone and host; None takes one away."""
    zone = {} if name.startswith("-") else {ZONE: name[0]}
    every: dict[str, str | None] = {HOST: name, **zone, **(labels or {})}
    kept = {key: value for key, value in every.items() if value is not None}
    return {"metadata": {"name": name, "labels": kept}, "spec": {"taints": list(taints)}}


def namespace(name: str, **labels: str) -> Object:
    return {"metadata": {"name": name, "labels": labels}}


def pod(
    name: str = "new",
    *,
    on: str = "",
    labels: Mapping[str, str] | None = None,
    namespace: str = "ml",
    owner: Object | None = None,
    terminating: bool = False,
    nominated: str = "",
    **spec: Any,
) -> PodInfo:
    """A Pod on this Node, labelled `app: web` unless said otherwise."""
    meta: Object = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    meta["labels"] = dict(labels) if labels is not None else {"app": "web"}
    if owner is not None:
        meta["ownerReferences"] = [{**owner, "controller": True}]
    if terminating:
        meta["deletionTimestamp"] = "2026-01-01T00:00:01Z"
    given: Object = {"metadata": meta, "spec": {**spec, **({"nodeName": on} if on else {})}}
    if nominated:
        given["status"] = {"nominatedNodeName": nominated}
    return _SHAPES.pod_info(given)


def pods(counts: Mapping[str, int], **more: Any) -> list[PodInfo]:
    """So many equal Pods on each Node."""
    return [pod(f"{each}-{number}", on=each, **more) for each, count in counts.items() for number in range(count)]


class World(NamedTuple):
    plugin: TopologyPlugin
    snapshot: Snapshot


def world(
    make: Callable[[Arguments, Handle], TopologyPlugin],
    nodes: Iterable[Object],
    pods: Iterable[PodInfo] = (),
    args: Arguments = NO_ARGUMENTS,
    **listers: Lister,
) -> World:
    """The plugin in a cluster of these Nodes and Pods."""
    snapshot = Snapshot.of(nodes, pods)
    return World(make(args, handle(snapshot, **listers)), snapshot)


def handle(snapshot: Snapshot, **listers: Lister) -> Handle:
    nothing: Any = None
    return Handle(snapshot, nothing, None, nothing, nothing, nothing, listers=Listers(**listers))


def filtered(given: World, pod: PodInfo) -> dict[str, Status | None] | Status:
    """What PreFilter says if it ends there, or else what Filter says to each Node."""
    state = CycleState()
    status = done(given.plugin.pre_filter(state, pod, given.snapshot))
    if isinstance(status, Status):
        return status
    return {each.name: _answer(given.plugin.filter(state, pod, each)) for each in given.snapshot}


def trials(given: World, pod: PodInfo, changed: PodInfo) -> tuple[list[Status | None], list[Status | None]]:
    """What Filter says to each Node after that Pod was added to the first one, and after it was removed from there.

    Each trial has a clone of the state, leaves the state itself alone, and can be taken back.
    """
    plugin: Any = given.plugin
    state, first = CycleState(), next(iter(given.snapshot))
    done(plugin.pre_filter(state, pod, given.snapshot))

    def answers(of: CycleState) -> list[Status | None]:
        return [plugin.filter(of, pod, each) for each in given.snapshot]

    before, added, removed = answers(state), state.clone(), state.clone()
    plugin.add_pod(added, pod, changed, first)
    plugin.remove_pod(removed, pod, changed, first)
    found = answers(added), answers(removed)
    assert answers(state) == before
    plugin.remove_pod(added, pod, changed, first)
    plugin.add_pod(removed, pod, changed, first)
    assert (answers(added), answers(removed)) == (before, before)
    return found


def scored(given: World, pod: PodInfo, feasible: Sequence[str] | None = None) -> tuple[list[int], list[int]] | None:
    """Scores of the Nodes that fit (all, unless said otherwise), raw and normalised; None if PreScore says Skip."""
    state, nodes = CycleState(), [each for each in given.snapshot if feasible is None or each.name in feasible]
    status = done(given.plugin.pre_score(state, pod, nodes))
    if status == SKIP:
        return None
    assert status is None
    raw = [_score(given.plugin.score(state, pod, each)) for each in nodes]
    normalised = np.array(raw, np.int64)
    assert given.plugin.normalize_score(state, pod, nodes, normalised) is None
    return raw, normalised.tolist()


def info(given: World, name: str) -> NodeInfo:
    found = given.snapshot.get(name)
    assert found is not None
    return found


def counted_anew(monkeypatch: pytest.MonkeyPatch) -> list[DomainSums]:
    """The sums of which all Pods are counted from now on, each time that they are."""
    found: list[DomainSums] = []
    whole = DomainSums.count_all

    def noted(self: DomainSums, *args: Any) -> None:
        found.append(self)
        whole(self, *args)

    monkeypatch.setattr(DomainSums, "count_all", noted)
    return found


def _answer(status: Any) -> Status | None:
    assert status is None or isinstance(status, Status)
    return status


def _score(given: int | Status) -> int:
    assert isinstance(given, int)
    return given
