"""Clusters with Pods that wait for a Node, in the making.

Objects are as the API server stores them: what a decision depends on is written out where the API has a default.  There
are few values for everything, so that Pods and Nodes often have to do with one another.
"""

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from tollbar.model.objects import Object

T = TypeVar("T")

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
HASH: Final = "pod-template-hash"
GPU: Final = "example.com/gpu"
DEVICES: Final = "devices.example.com"
NAMESPACES: Final[Mapping[str, Mapping[str, str]]] = {
    "default": {"team": "a"}, "blue": {"team": "a", "env": "prod"}, "green": {"team": "b", "env": "test"}, "bare": {},
}  # fmt: skip
"""Labels of all namespaces, besides their name; of `unknown`, nothing has been heard yet."""
APPS: Final = ("web", "db", "cache")
PORTS: Final = (80, 443, 8080)
ADDRESSES: Final = ("", "", "", "0.0.0.0", "127.0.0.1", "10.0.0.1", "::")  # noqa: S104
IMAGES: Final[Mapping[str, int]] = {
    "registry.example/web:1": 40_000_000, "registry.example/web:2": 350_000_000, "registry.example/tiny:1": 5_000_000,
    "registry.example/db:latest": 900_000_000, "registry.example/model:latest": 3_000_000_000,
}  # fmt: skip
"""Sizes in bytes."""
TAINTS: Final = (("dedicated", "gpu"), ("dedicated", "db"), ("flaky", ""), ("node.kubernetes.io/unschedulable", ""))
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
STARTED: Final = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z", "2026-02-01T00:00:00Z")

DEFAULT_PROFILE: Final[Mapping[str, int]] = {
    "SchedulingGates": 0, "PrioritySort": 0, "NodeName": 0, "NodeUnschedulable": 0, "TaintToleration": 3,
    "NodeAffinity": 2, "NodePorts": 0, "NodeResourcesFit": 1, "VolumeRestrictions": 0, "NodeVolumeLimits": 0,
    "VolumeBinding": 0, "VolumeZone": 0, "PodTopologySpread": 2, "InterPodAffinity": 2, "DynamicResources": 2,
    "DefaultPreemption": 0, "NodeResourcesBalancedAllocation": 1, "ImageLocality": 1, "DefaultBinder": 0,
}  # fmt: skip
"""The plugins of kube-scheduler's default profile with their weights, in their order; 0 means none."""
INDISPENSABLE: Final = frozenset(("PrioritySort", "DefaultBinder"))
"""Without them there is no profile."""


@dataclass(slots=True)
class Cluster:
    """A cluster at one moment, with Pods that wait, and the plugins that decide about them.

    `plugins` maps names to weights; `points` has, by extension point, what it enables and disables besides;
    `arguments` are those of the plugins that do not have the defaults.
    """

    family: str = ""
    seed: int = 0
    plugins: dict[str, int] = field(default_factory=lambda: dict(DEFAULT_PROFILE))
    points: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    arguments: dict[str, Object] = field(default_factory=dict)
    nodes: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    others: list[Object] = field(default_factory=list)
    """Of all other kinds."""

    @property
    def waiting(self) -> list[Object]:
        """The Pods without a Node."""
        return [each for each in self.pods if "nodeName" not in each["spec"]]

    def limit(self, plugins: Collection[str]) -> None:
        """Leave the decisions to these plugins, and to those that no profile lacks."""
        kept = INDISPENSABLE | set(plugins)
        self.plugins = {name: weight for name, weight in self.plugins.items() if name in kept}
        for sets in self.points.values():
            for which, given in sets.items():
                sets[which] = {name: weight for name, weight in given.items() if name in kept}

    def of_kind(self, kind: str) -> list[Object]:
        return [each for each in self.others if each["kind"] == kind]

    def configuration(self) -> Object:
        """The KubeSchedulerConfiguration with these plugins only."""
        points = {
            point: {which: _weighted(given) for which, given in sets.items()} for point, sets in self.points.items()
        }
        arguments = [{"name": name, "args": args} for name, args in self.arguments.items() if name in self.plugins]
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {
                        "multiPoint": {"enabled": _weighted(self.plugins), "disabled": [{"name": "*"}]},
                        **points,
                    },
                    "pluginConfig": arguments,
                }
            ],
        }

    def request(self) -> Object:
        """For `Oracle.schedule`."""
        return {"configuration": self.configuration(), "objects": [*self.nodes, *self.pods, *self.others]}


def _weighted(plugins: Mapping[str, int]) -> list[Object]:
    return [{"name": name, **({"weight": weight} if weight else {})} for name, weight in plugins.items()]


class World:
    """A cluster in the making.  What is left open is random, by default always in the same way."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.cluster = Cluster()
        for name, labels in NAMESPACES.items():
            self.add("v1", "Namespace", name, "", labels={"kubernetes.io/metadata.name": name, **labels})

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def one(self, given: Sequence[T]) -> T:
        return self.rng.choice(given)

    def some(self, given: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Some of them, in their order."""
        highest = len(given) if most is None else min(most, len(given))
        chosen = self.rng.sample(range(len(given)), self.rng.randint(min(least, highest), highest))
        return [given[index] for index in sorted(chosen)]

    def add(self, version: str, kind: str, name: str, namespace: str = "default", **content: Any) -> Object:
        """A further object; labels, annotations and so on belong to its metadata, all else stands beside it."""
        metadata: Object = {"name": name, "uid": f"uid-{kind}-{namespace}-{name}", "resourceVersion": "1"}
        if namespace:
            metadata["namespace"] = namespace
        metadata |= {key: content.pop(key) for key in ("labels", "ownerReferences") if key in content}
        made = {"apiVersion": version, "kind": kind, "metadata": metadata, **content}
        self.cluster.others.append(made)
        return made

    def nodes(self, least: int = 1, most: int = 12, **resources: Sequence[int | str]) -> list[str]:
        """Names of Nodes with labels for their place and kind; choices of amounts take the place of large ones."""
        names = [f"node-{number}" for number in range(self.rng.randint(least, max(least, self.one((most // 3, most)))))]
        zones = self.some(("z0", "z1", "z2"), 1)
        offered: dict[str, Sequence[int | str]] = {
            "cpu": ("8", "16"), "memory": ("32Gi",), "ephemeral-storage": ("100Gi",), "pods": (110,), **resources,
        }  # fmt: skip
        for name in names:
            labels = {HOSTNAME: name, "kubernetes.io/os": "linux"}
            if self.maybe(0.9):
                labels |= {ZONE: self.one(zones), REGION: "r0"}
            if self.maybe(0.6):
                labels["disk"] = self.one(("ssd", "hdd"))
            if self.maybe(0.6):
                labels["generation"] = self.one(("1", "2", "3", "010", "1_0", "new", "9" * 20))
            if self.maybe(0.5):
                labels["rack"] = self.one(("k0", "k1"))
            amounts = {key: str(self.one(choices)) for key, choices in offered.items()}
            status = {"capacity": amounts, "allocatable": amounts}
            metadata = {"name": name, "uid": f"uid-{name}", "labels": labels, "resourceVersion": "1"}
            self.cluster.nodes.append(
                {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}
            )
        return names

    def names(self) -> list[str]:
        return [each["metadata"]["name"] for each in self.cluster.nodes]

    def taint(self, share: float = 0.4, effects: Sequence[str] = EFFECTS) -> None:
        """Taints on some of the Nodes."""
        for node in self.cluster.nodes:
            taints = []
            while self.maybe(share) and len(taints) < 3:
                key, value = self.one(TAINTS)
                taint = {"key": key, "effect": self.one(effects), **({"value": value} if value else {})}
                if taint not in taints:
                    taints.append(taint)
            if taints:
                node["spec"]["taints"] = taints

    def cordon(self, share: float = 0.15) -> None:
        """Makes some of the Nodes unschedulable, mostly with the taint that the node controller adds."""
        for node in self.cluster.nodes:
            if self.maybe(share):
                node["spec"]["unschedulable"] = True
                if self.maybe(0.6):
                    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
                    node["spec"].setdefault("taints", []).append(taint)

    def pull(self, share: float = 0.4) -> None:
        """Images on the Nodes, under several names."""
        for node in self.cluster.nodes:
            images = []
            for name, size in IMAGES.items():
                if self.maybe(share):
                    repository = name.rsplit(":", 1)[0]
                    more = [f"{repository}@sha256:{'0' * 64}"] if self.maybe(0.3) else []
                    images.append({"names": [name, *more], "sizeBytes": size})
            if images:
                node["status"]["images"] = images

    def pod(self, node: str = "", namespace: str = "", **spec: Any) -> Object:
        """A Pod with one small container, bound to the Node if there is one; further fields of its spec."""
        number = len(self.cluster.pods)
        labels = {"app": self.one(APPS)}
        if self.maybe(0.4):
            labels["tier"] = self.one(("front", "back"))
        if self.maybe(0.5):
            labels[HASH] = self.one(("h0", "h1"))
        metadata = {
            "name": f"pod-{number}",
            "namespace": namespace or self.one(("default", "default", "default", *NAMESPACES, *NAMESPACES, "unknown")),
            "uid": f"uid-pod-{number}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
        }
        spec = {
            "schedulerName": "default-scheduler",
            "containers": [self.container("main")],
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            **spec,
        }
        status: Object = {"phase": "Pending"}
        if node:
            spec["nodeName"] = node
            status = {"phase": "Running", "startTime": self.one(STARTED)}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}
        self.cluster.pods.append(made)
        return made

    def bound(self, least: int = 0, most: int = 20) -> list[Object]:
        """Pods on random Nodes, few of them on a Node that is gone."""
        names = self.names()
        return [
            self.pod(self.one(names) if names and not self.maybe(0.02) else "node-gone")
            for _ in range(self.rng.randint(least, most))
        ]

    def waiting(self, least: int = 1, most: int = 4) -> list[Object]:
        return [self.pod() for _ in range(self.rng.randint(least, most))]

    def container(self, name: str, most: int = 4, **fields: Any) -> Object:
        """A container that requests up to so many half cores and GiB, or nothing at all."""
        requests: Object = {}
        if self.maybe(0.8):
            halves = self.rng.randint(1, most)
            requests["cpu"] = self.one((f"{halves * 500}m", f"{halves * 500}m", str(halves / 2), "100u", "0"))
        if self.maybe(0.7):
            parts = self.rng.randint(1, most)
            requests["memory"] = self.one(
                (f"{parts}Gi", f"{parts * 300}M", f"{parts}.5Gi", f"{parts}e8", "100500m", "0")
            )
        made = {"name": name, "image": self.one((*IMAGES, "registry.example/db", "registry.example/other")), **fields}
        return {**made, "resources": {"requests": requests} if requests else {}}

    def tolerations(self) -> list[Object]:
        found: list[Object] = []
        while self.maybe(0.6) and len(found) < 3:
            key, value = self.one(TAINTS)
            made = self.one(
                (
                    {"key": key, "operator": "Exists"},
                    {"key": key, "operator": "Equal", "value": value},
                    {"key": key, "value": value},
                    {"operator": "Exists"},
                )
            )
            if self.maybe(0.6):
                made = {**made, "effect": self.one(EFFECTS)}
            if made.get("effect") == "NoExecute" and self.maybe(0.3):
                made = {**made, "tolerationSeconds": 60}
            found.append(made)
        return found

    def requirement(self) -> Object:
        """A requirement on labels of Nodes, with any operator."""
        operator = self.one(("In", "In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
        if operator in {"Gt", "Lt"}:
            return {
                "key": self.one(("generation", "disk")),
                "operator": operator,
                "values": [self.one(("0", "2", "9"))],
            }
        key, values = self.one(
            (
                (ZONE, ["z0", "z1", "z2"]), ("disk", ["ssd", "hdd"]), ("rack", ["k0", "k1"]), ("absent", ["x"]),
                (HOSTNAME, ["node-0", "node-1", "node-2"]), ("generation", ["1", "2"]),
            )
        )  # fmt: skip
        if operator in {"Exists", "DoesNotExist"}:
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": self.some(values, 1)}

    def node_term(self, fields: float = 0.2) -> Object:
        """A NodeSelectorTerm, now and then on the names of Nodes."""
        made: Object = {}
        if self.maybe(fields):
            names = [*self.names(), "node-gone"]
            operator = self.one(("In", "In", "NotIn"))
            made["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [self.one(names)]}]
            if self.maybe(0.2):
                made["matchFields"].append({"key": "metadata.name", "operator": "In", "values": [self.one(names)]})
        if not made or self.maybe(0.5):
            made["matchExpressions"] = [self.requirement() for _ in range(self.rng.randint(1, 2))]
        return {} if self.maybe(0.03) else made

    def node_affinity(self, required: float = 0.6) -> Object:
        made: Object = {}
        if self.maybe(required):
            terms = [self.node_term() for _ in range(self.rng.randint(1, 2))]
            made["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        if not made or self.maybe(0.6):
            made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                {"weight": self.rng.randint(1, 100), "preference": self.node_term(0.1)}
                for _ in range(self.rng.randint(1, 3))
            ]
        return made

    def selector(self, empty: float = 0.1) -> Object | None:
        """A label selector on Pods; rarely none, or one that selects all."""
        if self.maybe(empty):
            return self.one((None, {}))
        if self.maybe(0.6):
            return {"matchLabels": {"app": self.one(APPS)}}
        operator = self.one(("In", "NotIn", "Exists", "DoesNotExist"))
        key, values = self.one((("app", APPS), ("tier", ("front", "back")), (HASH, ("h0", "h1"))))
        expression: Object = {"key": key, "operator": operator}
        if operator in {"In", "NotIn"}:
            expression["values"] = self.some(values, 1)
        return {"matchExpressions": [expression]}

    def spread(self, hard: float = 0.5) -> Object:
        """A topology spread constraint."""
        made: Object = {
            "maxSkew": self.rng.randint(1, 3),
            "topologyKey": self.one(
                (ZONE, ZONE, HOSTNAME, HOSTNAME, "rack", "absent") if self.maybe(0.2) else (ZONE, HOSTNAME)
            ),
            "whenUnsatisfiable": "DoNotSchedule" if self.maybe(hard) else "ScheduleAnyway",
        }
        if (selector := self.selector(0.05)) is not None:
            made["labelSelector"] = selector
        if made["whenUnsatisfiable"] == "DoNotSchedule" and self.maybe(0.3):
            made["minDomains"] = self.rng.randint(1, 5)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self.maybe(0.4):
                made[name] = self.one(("Honor", "Ignore"))
        if "labelSelector" in made and self.maybe(0.3):
            made["matchLabelKeys"] = [self.one((HASH, "absent"))]
        return made

    def pod_term(self) -> Object:
        """A PodAffinityTerm."""
        made: Object = {"topologyKey": self.one((ZONE, HOSTNAME, HOSTNAME, "rack"))}
        if (selector := self.selector(0.07)) is not None:
            made["labelSelector"] = selector
        if self.maybe(0.3):
            made["namespaces"] = self.some(list(NAMESPACES), 1, 2)
        if self.maybe(0.3):
            made["namespaceSelector"] = self.one(
                ({}, {"matchLabels": {"team": "a"}}, {"matchExpressions": [{"key": "env", "operator": "Exists"}]})
            )
        return made

    def pod_affinity(self, required: float = 0.5) -> Object:
        """Terms of affinity, anti-affinity or both, required and preferred."""
        found: Object = {}
        for kind in self.some(("podAffinity", "podAntiAffinity"), 1):
            made: Object = {}
            if self.maybe(required):
                terms = [self.pod_term() for _ in range(self.one((1, 1, 1, 2)))]
                made["requiredDuringSchedulingIgnoredDuringExecution"] = terms
            if not made or self.maybe(0.4):
                made["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": self.rng.randint(1, 100), "podAffinityTerm": self.pod_term()}
                    for _ in range(self.rng.randint(1, 2))
                ]
            found[kind] = made if not self.maybe(0.03) else {}
        return found

    def host_port(self) -> Object:
        made: Object = {
            "containerPort": self.one(PORTS),
            "hostPort": self.one(PORTS),
            "protocol": self.one(("TCP", "TCP", "UDP")),
        }
        if address := self.one(ADDRESSES):
            made["hostIP"] = address
        return made

    def terminate(self, pod: Object, by_preemption: float = 0.0) -> None:
        """Marks a Pod as being deleted."""
        pod["metadata"] |= {"deletionTimestamp": "2026-02-02T00:00:00Z", "deletionGracePeriodSeconds": 30}
        if self.maybe(by_preemption):
            condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
            pod["status"]["conditions"] = [condition]
