"""Plugins that look at all Nodes at once answer what they answer Node by Node."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from plugins.tables import handle, node, obj

from tollbar.model.objects import Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.plugins.image_locality import ImageLocality
from tollbar.scheduler.plugins.node_affinity import NodeAffinity
from tollbar.scheduler.plugins.node_name import NodeName
from tollbar.scheduler.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from tollbar.scheduler.plugins.node_resources_fit import NodeResourcesFit
from tollbar.scheduler.plugins.node_unschedulable import NodeUnschedulable
from tollbar.scheduler.plugins.taint_toleration import TaintToleration

SHAPES = Shapes()
NAMES = ("n1", "n2", "n3", "n4")
KEYS = ("disk", "zone", "number")
VALUES = ("a", "b", "7", "12")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
GPU, DRA = "example.com/gpu", "example.com/dra"
IMAGES = ("web:1", "db:1", "web:latest")
MB = 1024 * 1024

amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.sampled_from(["0", "100m", "333m", "1", "3", "8"]),
        "memory": st.sampled_from(["0", "1", "200Mi", "1Gi", "7Gi", "16Gi"]),
        "ephemeral-storage": st.sampled_from(["0", "1Gi", "10Gi"]),
        GPU: st.sampled_from(["0", "1", "2", "8"]),
        DRA: st.sampled_from(["0", "1"]),
    },
)
taints = st.fixed_dictionaries(
    {"key": st.sampled_from(KEYS), "effect": st.sampled_from(EFFECTS)}, optional={"value": st.sampled_from(VALUES)}
)
tolerations = st.fixed_dictionaries(
    {"operator": st.sampled_from(["Exists", "Equal", "Gt"])},
    optional={
        "key": st.sampled_from((*KEYS, "node.kubernetes.io/unschedulable")),
        "value": st.sampled_from(VALUES),
        "effect": st.sampled_from(EFFECTS),
    },
)
expressions = st.one_of(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(VALUES), min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries({"key": st.sampled_from(KEYS), "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(KEYS),
            "operator": st.sampled_from(["Gt", "Lt"]),
            "values": st.lists(st.sampled_from(["7", "10"]), min_size=1, max_size=1),
        }
    ),
)
fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.lists(st.sampled_from((*NAMES, "gone")), min_size=1, max_size=1),
    }
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "matchExpressions": st.lists(expressions, max_size=2),
        "matchFields": st.lists(fields, max_size=2),
    },
)
affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, min_size=1, max_size=2)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(1, 100), "preference": terms}), max_size=3
        ),
    },
)


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Object:
    sizes = draw(st.dictionaries(st.sampled_from(IMAGES), st.sampled_from([10 * MB, 500 * MB, 3000 * MB + 1])))
    return node(
        name,
        labels=draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))),
        allocatable={**draw(amounts), **draw(st.sampled_from([{}, {"pods": "1"}, {"pods": "3"}, {"pods": "110"}]))},
        images=[{"names": [image], "sizeBytes": size} for image, size in sizes.items()],
        taints=draw(st.lists(taints, max_size=2)),
        unschedulable=draw(st.booleans()),
    )


@st.composite
def pods(draw: st.DrawFn, name: str, node_name: str = "") -> PodInfo:
    containers = [
        {"name": f"c{number}", "image": draw(st.sampled_from(IMAGES)), "resources": {"requests": draw(amounts)}}
        for number in range(draw(st.integers(1, 2)))
    ]
    body = {
        "containers": containers,
        "tolerations": draw(st.lists(tolerations, max_size=2)),
        "affinity": {"nodeAffinity": draw(affinities)},
        "nodeSelector": draw(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=1)),
        **draw(st.sampled_from([{}, {"resources": {"requests": {"cpu": "1"}}}])),
        "nodeName": node_name,
    }
    return SHAPES.pod_info(obj(name, namespace="ml", spec=body))


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    placed = [
        draw(pods(f"p{number}", node_name=draw(st.sampled_from(NAMES)))) for number in range(draw(st.integers(0, 4)))
    ]
    return Snapshot.of([draw(nodes(name)) for name in names], placed)


def resources(*weighted: tuple[str, int]) -> list[Object]:
    return [{"name": name, "weight": weight} for name, weight in weighted]


def fit(kind: str, *weighted: tuple[str, int], **args: Any) -> Any:
    shape = [{"utilization": 0, "score": 10}, {"utilization": 30, "score": 2}, {"utilization": 70, "score": 7}]
    strategy = {"type": kind, "resources": resources(*weighted), "requestedToCapacityRatio": {"shape": shape}}
    return NodeResourcesFit, {"scoringStrategy": strategy, **args}


ALL = (("cpu", 1), ("memory", 3), ("ephemeral-storage", 1), (GPU, 5))
SSD = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["a", "b"]}]}
ADDED = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [SSD]},
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 3, "preference": SSD}],
}
PLUGINS: dict[str, tuple[Any, Object]] = {
    "NodeName": (NodeName, {}),
    "NodeUnschedulable": (NodeUnschedulable, {}),
    "TaintToleration": (TaintToleration, {}),
    "NodeAffinity": (NodeAffinity, {}),
    "NodeAffinity of the profile": (NodeAffinity, {"addedAffinity": ADDED}),
    "NodeResourcesFit": fit("LeastAllocated", ("cpu", 1), ("memory", 1)),
    "NodeResourcesFit with weights": fit("LeastAllocated", *ALL, ignoredResources=[GPU]),
    "NodeResourcesFit, most allocated": fit("MostAllocated", *ALL, ignoredResourceGroups=["example.com"]),
    "NodeResourcesFit with a shape": fit("RequestedToCapacityRatio", *ALL),
    "NodeResourcesBalancedAllocation": (
        NodeResourcesBalancedAllocation,
        {"resources": resources(("cpu", 1), ("memory", 1))},
    ),
    "NodeResourcesBalancedAllocation of many": (NodeResourcesBalancedAllocation, {"resources": resources(*ALL)}),
    "ImageLocality": (ImageLocality, {}),
}
CLASSES = SimpleNamespace(for_extended_resource=lambda name: obj("gpu") if name == DRA else None)


@settings(max_examples=settings.default.max_examples * 2)
@given(cluster=clusters(), pod=st.one_of(pods("web"), pods("web", node_name="n1")), data=st.data())
def test_all_nodes_at_once(cluster: Snapshot, pod: PodInfo, data: st.DataObject) -> None:
    state, found, want = CycleState(), {}, {}
    places = data.draw(st.permutations(range(len(cluster))))
    for name, (plugin, args) in PLUGINS.items():
        made = plugin(args, handle(cluster, dra=SimpleNamespace(classes=CLASSES)))
        if hasattr(made, "filter_nodes"):
            found[name, "filter"] = made.filter_nodes(state, pod, cluster).tolist()
            want[name, "filter"] = [made.filter(state, pod, each) is None for each in cluster]
        if hasattr(made, "score_nodes"):
            found[name, "score"] = made.score_nodes(state, pod, cluster, np.array(places, np.intp)).tolist()
            want[name, "score"] = [made.score(state, pod, cluster.nodes[place]) for place in places]
    assert found == want
