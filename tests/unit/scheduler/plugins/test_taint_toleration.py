"""TaintToleration: taints that keep Pods away, and those that only would rather."""

from typing import Any

import pytest
from plugins.tables import filtered, handle, hinted, info, node, pod, scored

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.events import Action, EventResource
from tollbar.scheduler.plugins.taint_toleration import TaintToleration

PLUGIN = TaintToleration({}, handle())
REFUSED = ("UnschedulableAndUnresolvable", "node(s) had untolerated taint(s)")


def taint(key: str, effect: str = "NoSchedule", value: str = "") -> Object:
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def tainted(*taints: Object) -> Object:
    return node(taints=list(taints))


def tolerating(*tolerations: Object) -> PodInfo:
    return pod(tolerations=list(tolerations))


GPU = tainted(taint("gpu"))
EXISTS = {"key": "gpu", "operator": "Exists"}
FILTER: dict[str, tuple[PodInfo, Object, tuple[str, ...]]] = {
    "no taints": (pod(), node(), ("Success",)),
    "an untolerated taint": (pod(), GPU, REFUSED),
    "NoExecute keeps away as well": (pod(), tainted(taint("gpu", "NoExecute")), REFUSED),
    "PreferNoSchedule does not": (pod(), tainted(taint("gpu", "PreferNoSchedule")), ("Success",)),
    "a tolerated taint": (tolerating(EXISTS), GPU, ("Success",)),
    "Equal is the default operator": (
        tolerating({"key": "gpu", "value": "a"}),
        tainted(taint("gpu", value="a")),
        ("Success",),
    ),
    "another value": (tolerating({"key": "gpu", "value": "a"}), tainted(taint("gpu", value="b")), REFUSED),
    "another effect": (tolerating({**EXISTS, "effect": "NoExecute"}), GPU, REFUSED),
    "no key tolerates all keys": (tolerating({"operator": "Exists"}), GPU, ("Success",)),
    "every taint has to be tolerated": (tolerating(EXISTS), tainted(taint("gpu"), taint("disk")), REFUSED),
    "numeric operators are behind a feature gate": (
        tolerating({"key": "gpu", "operator": "Gt", "value": "1"}),
        tainted(taint("gpu", value="2")),
        REFUSED,
    ),
}


@pytest.mark.parametrize(("given", "on", "want"), FILTER.values(), ids=FILTER)
def test_filter(given: PodInfo, on: Object, want: tuple[str, ...]) -> None:
    assert filtered(PLUGIN, given, info(on)) == want


def rather(*keys: str) -> Object:
    return tainted(*(taint(key, "PreferNoSchedule") for key in keys))


SCORES: dict[str, tuple[PodInfo, list[Object], list[int]]] = {
    "nothing to choose": (pod(), [node(), node()], [100, 100]),
    "fewer taints are better": (pod(), [rather("a", "b", "c"), rather("a"), node()], [0, 67, 100]),
    "tolerated taints do not count": (
        tolerating({"key": "a", "operator": "Exists"}),
        [rather("a"), rather("b")],
        [100, 0],
    ),
    "a toleration of another effect does not help": (
        tolerating({"key": "a", "operator": "Exists", "effect": "NoSchedule"}),
        [rather("a"), node()],
        [0, 100],
    ),
    "hard taints do not count": (
        tolerating({"operator": "Exists", "effect": "NoSchedule"}),
        [GPU, rather("a")],
        [100, 0],
    ),
}


@pytest.mark.parametrize(("given", "on", "want"), SCORES.values(), ids=SCORES)
def test_scores(given: PodInfo, on: list[Object], want: list[int]) -> None:
    assert scored(PLUGIN, given, *map(info, on)) == want


TAINTS = (EventResource.NODE, Action.UPDATE_NODE_TAINT)
HINTS: dict[str, tuple[tuple[EventResource, Action], Any, Any, str]] = {
    "a Node without taints is added": ((EventResource.NODE, Action.ADD), None, node(), "Queue"),
    "a tainted Node is added": ((EventResource.NODE, Action.ADD), None, GPU, "QueueSkip"),
    "the taint goes away": (TAINTS, GPU, node(), "Queue"),
    "a taint comes": (TAINTS, node(), GPU, "QueueSkip"),
    "one of two taints goes away": (TAINTS, tainted(taint("a"), taint("b")), tainted(taint("a")), "QueueSkip"),
    "the Node had no taint before": (TAINTS, node(), node(), "QueueSkip"),
    "the Pod gets a toleration": (
        (EventResource.TARGET_POD, Action.UPDATE_POD_TOLERATION),
        pod(),
        tolerating(EXISTS),
        "Queue",
    ),
}


@pytest.mark.parametrize(("event", "old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(event: tuple[EventResource, Action], old: Any, new: Any, want: str) -> None:
    assert hinted(PLUGIN, *event, pod(), old, new) == want
