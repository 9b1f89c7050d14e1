"""Random clusters with Pods that wait for a Node, the same for the same family and seed.

A family is about some of the scheduler's plugins and uses a little of the others.
"""

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from scheduler.world import (
    APPS,
    DEFAULT_PROFILE,
    DEVICES,
    GPU,
    HASH,
    HOSTNAME,
    IMAGES,
    PORTS,
    REGION,
    ZONE,
    Cluster,
    World,
)

from tollbar.model.objects import Object


def cluster(family: str, seed: int) -> Cluster:
    """The cluster of this number of a family."""
    world = World(random.Random(f"{family} {seed}"))
    FAMILIES[family](world)
    made = world.cluster
    if world.maybe(0.2):
        for pod in made.pods:
            pod["spec"]["priority"] = world.one((0, 0, 5, 10) if "nodeName" in pod["spec"] else (0, 10, 100))
    if world.maybe(0.2):
        # What the first plugins reject, the last ones are not asked about.
        made.limit(world.some(list(made.plugins), len(made.plugins) // 2))
    made.family, made.seed = family, seed
    return made


def clusters(seed: int, count: int, start: int = 0, plugins: Collection[str] = DEFAULT_PROFILE) -> Iterator[Cluster]:
    """So many clusters of all families in turn, from number `start`; number n of a seed is always the same.

    With `plugins`, others decide about nothing, and families that are about others alone are left out.
    """
    names = [name for name, about in ABOUT.items() if not about or about & set(plugins)]
    for number in range(start, start + count):
        made = cluster(names[number % len(names)], seed * 1_000_003 + number // len(names))
        made.limit(plugins)
        yield made


def nodes_apart(world: World) -> None:
    """Taints, unschedulable Nodes, node selectors and affinity."""
    world.nodes()
    world.taint()
    world.cordon()
    world.bound(0, 6)
    for pod in world.waiting():
        if world.maybe(0.7) and (tolerations := world.tolerations()):
            pod["spec"]["tolerations"] = tolerations
        if world.maybe(0.6):
            pod["spec"].setdefault("affinity", {})["nodeAffinity"] = world.node_affinity()
        if world.maybe(0.2):
            pod["spec"]["nodeSelector"] = dict([world.one((("disk", "ssd"), (ZONE, "z0"), ("rack", "k1")))])
    if world.maybe(0.15):
        affinity = world.node_affinity()
        if terms := affinity.get("requiredDuringSchedulingIgnoredDuringExecution"):
            terms["nodeSelectorTerms"] = [each for each in terms["nodeSelectorTerms"] if each] or [
                {"matchExpressions": [world.requirement()]}
            ]
        world.cluster.arguments["NodeAffinity"] = {"addedAffinity": affinity}


def ports(world: World) -> None:
    """Host ports of containers, sidecars and Pods on the host's network."""
    world.nodes(1, 6)
    bound = world.bound(2, 16)
    for pod in [*bound, *world.waiting()]:
        _resources_of(pod, {})
        for container in pod["spec"]["containers"]:
            container["ports"] = [world.host_port() for _ in range(world.rng.randint(0, 2))]
        if world.maybe(0.2):
            sidecar = world.container("sidecar", restartPolicy="Always", ports=[world.host_port()])
            pod["spec"]["initContainers"] = [sidecar]
        if world.maybe(0.1):
            initial = world.container("init", ports=[world.host_port()])
            pod["spec"].setdefault("initContainers", []).append(initial)
        if world.maybe(0.1):
            pod["spec"]["hostNetwork"] = True
            port = world.one(PORTS)
            pod["spec"]["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]


def resources(world: World) -> None:
    """Requests of all kinds on Nodes that are nearly full, with one of the strategies of scoring."""
    world.nodes(
        1, 10, cpu=("4", "8", "3500m", "3.5001"), memory=("8Gi", "16Gi", "9000000000", "9.5Gi", "1e10"),
        pods=(3, 10, 110), **{"ephemeral-storage": ("10Gi", "100Gi"), GPU: (0, 2, 4), "hugepages-2Mi": ("0", "64Mi")},
    )  # fmt: skip
    for node in world.cluster.nodes:
        if world.maybe(0.3):
            node["status"]["allocatable"] = {
                key: each for key, each in node["status"]["allocatable"].items() if key in {"cpu", "memory", "pods"}
            }
    for pod in [*world.bound(0, 25), *world.waiting()]:
        _richly(world, pod)
    _strategies(world)


def _richly(world: World, pod: Object) -> None:
    """Several containers, init containers and sidecars, extended resources, overhead, amounts of the whole Pod."""
    body = pod["spec"]
    body["containers"] = [world.container(f"c{number}", 3) for number in range(world.one((1, 1, 2)))]
    if world.maybe(0.3):
        body["initContainers"] = [
            world.container(f"i{number}", 6, **({"restartPolicy": "Always"} if world.maybe(0.5) else {}))
            for number in range(world.rng.randint(1, 3))
        ]
    for container in [*body["containers"], *body.get("initContainers", ())]:
        requests = container["resources"].setdefault("requests", {})
        if world.maybe(0.15):
            requests[GPU] = str(world.rng.randint(0, 3))
        if world.maybe(0.03):
            requests["example.com/unknown"] = str(world.rng.randint(0, 1))
        if world.maybe(0.15):
            requests["ephemeral-storage"] = world.one(("1Gi", "20Gi", "500M"))
        if world.maybe(0.05):
            requests["hugepages-2Mi"] = "32Mi"
    if world.maybe(0.15):
        body["overhead"] = {"cpu": "250m", "memory": world.one(("100Mi", "2Gi"))}
    if world.maybe(0.2):
        body["resources"] = {
            "requests": {"cpu": world.one(("2", "6")), **({"memory": "6Gi"} if world.maybe(0.5) else {})}
        }
    if body.get("nodeName") and world.maybe(0.15):
        _resize(world, pod)


def _resize(world: World, pod: Object) -> None:
    """A resize in place under way: the kubelet has allocated, and runs, other amounts than the spec asks for."""
    pod["status"]["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": {"requests": {"cpu": f"{world.rng.randint(1, 6) * 500}m"}},
            "allocatedResources": {"cpu": f"{world.rng.randint(1, 6) * 500}m"},
        }
        for container in pod["spec"]["containers"]
    ]
    if world.maybe(0.3):
        pod["status"]["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": world.one(("Infeasible", "Deferred"))}
        ]


def _strategies(world: World) -> None:
    weighted = [
        {"name": name, "weight": world.rng.randint(1, 5)}
        for name in world.some(("cpu", "memory", "ephemeral-storage", GPU), 1)
    ]
    kind = world.one(("", "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"))
    if kind:
        strategy: Object = {"type": kind, "resources": weighted}
        if kind == "RequestedToCapacityRatio":
            points = world.some((0, 10, 25, 40, 50, 70, 90, 100), 1)
            shape = [{"utilization": each, "score": world.rng.randint(0, 10)} for each in points]
            strategy["requestedToCapacityRatio"] = {"shape": shape}
        world.cluster.arguments["NodeResourcesFit"] = {"scoringStrategy": strategy}
    if world.maybe(0.2):
        fit = world.cluster.arguments.setdefault("NodeResourcesFit", {})
        fit |= world.one(({"ignoredResources": [GPU]}, {"ignoredResourceGroups": ["example.com"]}))
    if world.maybe(0.3):
        balanced = [{"name": each["name"], "weight": 1} for each in weighted]
        world.cluster.arguments["NodeResourcesBalancedAllocation"] = {"resources": balanced}


def images(world: World) -> None:
    """Images of different sizes, some of them on few Nodes."""
    world.nodes(2, 12)
    world.pull(world.one((0.1, 0.4, 0.9)))
    world.bound(0, 5)
    for pod in world.waiting():
        digest = f"registry.example/web@sha256:{'0' * 64}"
        names = [*IMAGES, "registry.example/db", "registry.example/model", "registry.example/other", digest]
        pod["spec"]["containers"] = [
            world.container(f"c{number}", image=world.one(names)) for number in range(world.one((1, 2, 3)))
        ]
        if world.maybe(0.3):
            pod["spec"]["initContainers"] = [world.container("init", image=world.one(names))]


def spread(world: World) -> None:
    """Topology spread constraints, hard and soft, on Nodes some of which are tainted or do not match."""
    world.nodes(2)
    world.taint(0.15)
    bound = world.bound(0, 24)
    for pod in bound:
        _resources_of(pod, {})
        if world.maybe(0.06):
            world.terminate(pod)
    for pod in world.waiting():
        keys: dict[tuple[str, str], Object] = {}
        for _ in range(world.one((1, 1, 2, 3))):
            constraint = world.spread(0.65)
            keys[constraint["topologyKey"], constraint["whenUnsatisfiable"]] = constraint
        pod["spec"]["topologySpreadConstraints"] = list(keys.values())
        pod["metadata"]["namespace"] = world.one(("default", "default", "default", "blue"))
        if world.maybe(0.25):
            pod["spec"]["affinity"] = {"nodeAffinity": world.node_affinity(0.8)}
        if world.maybe(0.25) and (tolerations := world.tolerations()):
            pod["spec"]["tolerations"] = tolerations


def default_spread(world: World) -> None:
    """Pods without constraints that Services and controllers own, under the default constraints of the profile."""
    world.nodes(2)
    pods = [*world.bound(0, 24), *world.waiting()]
    for app in world.some(APPS, 1):
        owned: Object = {"matchLabels": {"app": app, **({HASH: "h0"} if world.maybe(0.3) else {})}}
        if world.maybe(0.5):
            namespace = world.one(("default", "default", "blue"))
            selector = {"app": app} if not world.maybe(0.1) else {}
            world.add("v1", "Service", app, namespace, spec={"selector": selector})
        kind = world.one(("ReplicaSet", "StatefulSet", "ReplicationController"))
        if world.maybe(0.4):
            continue
        if kind != "ReplicationController" and world.maybe(0.3):
            owned["matchExpressions"] = [{"key": "tier", "operator": world.one(("Exists", "DoesNotExist"))}]
        version = "v1" if kind == "ReplicationController" else "apps/v1"
        template = {"metadata": {"labels": owned["matchLabels"]}, "spec": {"containers": [{"name": "main"}]}}
        body: Object = {"selector": owned, "template": template}
        if kind == "ReplicationController":
            body = {"selector": owned["matchLabels"], "template": template}
        made = world.add(version, kind, app, spec=body)
        owner = {"apiVersion": version, "kind": kind, "name": app, "uid": made["metadata"]["uid"], "controller": True}
        for pod in pods:
            if (
                pod["metadata"]["namespace"] == "default"
                and owned["matchLabels"].items() <= pod["metadata"]["labels"].items()
            ):
                pod["metadata"]["ownerReferences"] = [owner]
    if world.maybe(0.5):
        constraints = [{**world.spread(), "labelSelector": None} for _ in range(world.one((1, 2)))]
        allowed = ("maxSkew", "topologyKey", "whenUnsatisfiable")
        keys = {
            (each["topologyKey"], each["whenUnsatisfiable"]): {key: each[key] for key in allowed}
            for each in constraints
        }
        world.cluster.arguments["PodTopologySpread"] = {
            "defaultConstraints": list(keys.values()),
            "defaultingType": "List",
        }
    elif world.maybe(0.2):
        world.cluster.arguments["PodTopologySpread"] = {"defaultConstraints": [], "defaultingType": "List"}


def pod_affinity(world: World) -> None:
    """Affinity and anti-affinity, of the Pods that wait and of those that are there."""
    world.nodes(1, 10)
    for pod in world.bound(0, 24):
        _resources_of(pod, {})
        if world.maybe(0.35):
            pod["spec"]["affinity"] = world.pod_affinity(0.4)
    for pod in world.waiting():
        if world.maybe(0.8):
            pod["spec"]["affinity"] = world.pod_affinity()
    if world.maybe(0.4):
        world.cluster.arguments["InterPodAffinity"] = {
            "hardPodAffinityWeight": world.one((0, 1, 50, 100)),
            "ignorePreferredTermsOfExistingPods": world.maybe(0.3),
        }


def preemption(world: World) -> None:
    """Pods of different priorities on full Nodes, some of them guarded by PodDisruptionBudgets."""
    world.nodes(1, 8, cpu=("2", "3", "4"), memory=("8Gi", "16Gi"), pods=(3, 5, 110))
    world.taint(0.1)
    for pod in world.bound(4, 30):
        pod["spec"]["priority"] = world.one((-10, 0, 0, 0, 5, 10, 100))
        _resources_of(pod, {"cpu": world.one(("500m", "1", "1500m"))})
        if world.maybe(0.08):
            world.terminate(pod, 0.7)
        if world.maybe(0.15):
            pod["spec"]["containers"][0]["ports"] = [world.host_port()]
        if world.maybe(0.1):
            pod["spec"]["affinity"] = world.pod_affinity(0.7)
        if world.maybe(0.03):
            del pod["status"]["startTime"]
    for number in range(world.one((0, 1, 1, 2))):
        _budget(world, number)
    for pod in world.waiting(1, 3):
        pod["spec"]["priority"] = world.one((0, 5, 50, 1000))
        _resources_of(pod, {"cpu": world.one(("1", "2", "3", "5"))})
        if world.maybe(0.1):
            pod["spec"]["preemptionPolicy"] = "Never"
        if world.maybe(0.15):
            pod["spec"]["containers"][0]["ports"] = [world.host_port()]
        if world.maybe(0.2):
            pod["spec"]["affinity"] = world.pod_affinity(0.8)
        if world.maybe(0.2):
            pod["spec"]["topologySpreadConstraints"] = [world.spread(0.9)]
        if world.maybe(0.1):
            pod["spec"].setdefault("affinity", {})["nodeAffinity"] = world.node_affinity(0.9)
        if world.maybe(0.1):
            pod["status"]["nominatedNodeName"] = world.one(world.names())


def _budget(world: World, number: int) -> None:
    status: Object = {
        "disruptionsAllowed": world.one((0, 0, 1, 2)), "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 3,
    }  # fmt: skip
    if world.maybe(0.2):
        status["disruptedPods"] = {f"pod-{number}": "2026-02-02T00:00:00Z" for number in range(4)}
    body: Object = {"minAvailable": 2}
    if (selector := world.selector()) is not None:
        body["selector"] = selector
    namespace = world.one(("default", "default", "blue"))
    world.add("policy/v1", "PodDisruptionBudget", f"budget-{number}", namespace, spec=body, status=status)


def nominated(world: World) -> None:
    """Pods that wait for the Node that was nominated for them, of other priorities than the others."""
    world.nodes(1, 5, cpu=("2", "4"), pods=(4, 110))
    for pod in world.bound(0, 10):
        _resources_of(pod, {"cpu": world.one(("500m", "1"))})
        pod["spec"]["priority"] = world.one((0, 0, 10))
        if world.maybe(0.1):
            world.terminate(pod, 0.8)
    for pod in world.waiting(2, 6):
        pod["spec"]["priority"] = world.one((0, 10, 10, 100))
        _resources_of(pod, {"cpu": world.one(("500m", "1", "2"))})
        if world.maybe(0.6):
            pod["status"]["nominatedNodeName"] = world.one(
                [*world.names(), "node-gone"] if world.maybe(0.1) else world.names()
            )
        if world.maybe(0.3):
            pod["spec"]["affinity"] = world.pod_affinity(0.8)
        if world.maybe(0.3):
            pod["spec"]["topologySpreadConstraints"] = [world.spread(0.8)]
        if world.maybe(0.3):
            pod["spec"]["containers"][0]["ports"] = [world.host_port()]


def claims(world: World) -> None:
    """Pods with ResourceClaims: free, allocated, shared, reserved, being deleted, or not there at all."""
    names = world.nodes(1, 5)
    _publish(world, names)
    for number in range(world.rng.randint(0, 3)):
        holder = world.pod(world.one(names), "default")
        _allocated(world, f"held-{number}", names, reserved=[holder] if world.maybe(0.7) else [])
        holder["spec"]["resourceClaims"] = [{"name": "device", "resourceClaimName": f"held-{number}"}]
    for pod in [world.pod("", "default") for _ in range(world.rng.randint(1, 3))]:
        used = [_claimed(world, pod, number, names) for number in range(world.one((0, 1, 1, 1, 2)))]
        if used:
            pod["spec"]["resourceClaims"] = used
            pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": each["name"]} for each in used]
        if world.maybe(0.1):
            _cards(world, pod)
        if world.maybe(0.05):
            pod["status"]["nominatedNodeName"] = world.one(names)
    if world.maybe(0.1):
        taint = {"key": "broken", "effect": world.one(("NoSchedule", "NoExecute"))}
        rule = {"deviceSelector": {"pool": world.one(names)}, "taint": taint}
        world.add("resource.k8s.io/v1", "DeviceTaintRule", "rule", "", spec=rule)


def cards(world: World) -> None:
    """An extended resource that devices stand for, or that Nodes have themselves."""
    names = world.nodes(2, 6)
    _publish(world, names, cards=0.9)
    for node in world.cluster.nodes:
        if world.maybe(0.2):
            amounts = node["status"]["allocatable"]
            node["status"]["allocatable"] = {**amounts, "example.com/card": world.one(("0", "2", "4"))}
    for number in range(world.rng.randint(0, 2)):
        _allocated(world, f"held-{number}", names, reserved=[])
    for pod in [*world.bound(0, 4), *world.waiting()]:
        pod["metadata"]["namespace"] = "default"
        if world.maybe(0.8):
            _cards(world, pod)
    kinds = ("cpu", "memory", "example.com/card", "deviceclass.resource.kubernetes.io/any")
    if world.maybe(0.6):
        weighted = [{"name": name, "weight": world.one((1, 3))} for name in world.some(kinds, 1)]
        world.cluster.arguments["NodeResourcesFit"] = {
            "scoringStrategy": {"type": world.one(("LeastAllocated", "MostAllocated")), "resources": weighted}
        }
    if world.maybe(0.4):
        balanced = [{"name": name, "weight": 1} for name in world.some(kinds, 1)]
        world.cluster.arguments["NodeResourcesBalancedAllocation"] = {"resources": balanced}
        for each in world.cluster.of_kind("DeviceClass"):
            # With selectors, kube-scheduler 1.37.0 panics.
            if "extendedResourceName" in each["spec"]:
                each["spec"].pop("selectors", None)


def _cards(world: World, pod: Object) -> None:
    """Requests for an extended resource that may be backed by devices, in one or several containers."""
    body = pod["spec"]
    while world.maybe(0.3):
        body["containers"].append(world.container(f"c{len(body['containers'])}"))
    while world.maybe(0.3):
        kind = {"restartPolicy": "Always"} if world.maybe(0.5) else {}
        initial = body.setdefault("initContainers", [])
        initial.append(world.container(f"i{len(initial)}", **kind))
    for container in [*body["containers"], *body.get("initContainers", ())]:
        if container is body["containers"][0] or world.maybe(0.5):
            requests = container["resources"].setdefault("requests", {})
            name = "example.com/card" if world.maybe(0.8) else "deviceclass.resource.kubernetes.io/any"
            requests[name] = str(world.rng.randint(0 if world.maybe(0.1) else 1, 2))


def alternatives(world: World) -> None:
    """Claims with prioritized lists, on Nodes of which some have the devices that come first."""
    names = world.nodes(2, 6)
    _publish(world, names)
    for pod in [world.pod("", "default") for _ in range(2)]:
        used = []
        for number in range(world.one((1, 1, 2))):
            name = f"{pod['metadata']['name']}-{number}"
            world.add("resource.k8s.io/v1", "ResourceClaim", name, spec=_list(world), status={})
            used.append({"name": f"device-{number}", "resourceClaimName": name})
        pod["spec"]["resourceClaims"] = used


def _list(world: World) -> Object:
    listed = [
        {
            "name": f"s{number}",
            "deviceClassName": world.one(("any", "fast")),
            "allocationMode": "ExactCount",
            "count": world.one((1, 1, 2, 3)),
            "selectors": [_cel(f'device.attributes["{DEVICES}"].model == "{world.one("ab")}"')],
        }
        for number in range(world.rng.randint(2, 4))
    ]
    return {"devices": {"requests": [{"name": "r0", "firstAvailable": listed}]}}


def _publish(world: World, names: list[str], cards: float = 0.5) -> None:
    """DeviceClasses and devices of the Nodes; the class of cards stands for an extended resource."""
    for name, more in (("any", {}), ("fast", {"selectors": [_cel(f'device.attributes["{DEVICES}"].model == "a"')]})):
        world.add("resource.k8s.io/v1", "DeviceClass", name, "", spec=more)
    if world.maybe(cards):
        offered: Object = {"extendedResourceName": "example.com/card"}
        if world.maybe(0.3):
            offered["selectors"] = [_cel(f'device.attributes["{DEVICES}"].model == "a"')]
        world.add("resource.k8s.io/v1", "DeviceClass", "cards", "", spec=offered)
    for name in names:
        if world.maybe(0.2):
            continue
        found: list[Object] = []
        for number in range(world.rng.randint(1, 3)):
            device: Object = {"name": f"dev-{number}", "attributes": {"model": {"string": world.one(("a", "b"))}}}
            if world.maybe(0.1):
                device["taints"] = [{"key": "broken", "effect": world.one(("NoSchedule", "NoExecute"))}]
            found.append(device)
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        body = {"driver": DEVICES, "pool": pool, "nodeName": name, "devices": found}
        world.add("resource.k8s.io/v1", "ResourceSlice", f"slice-{name}", "", spec=body)


def _cel(expression: str) -> Object:
    return {"cel": {"expression": expression}}


def _request(world: World, name: str = "r0") -> Object:
    def ask() -> Object:
        made: Object = {
            "deviceClassName": world.one(
                ("any", "any", "fast", "fast", "gone") if world.maybe(0.2) else ("any", "fast")
            ),
            "allocationMode": "ExactCount",
            "count": world.one((1, 1, 1, 2)),
        }
        if world.maybe(0.2):
            made["selectors"] = [_cel(f'device.attributes["{DEVICES}"].model == "{world.one("ab")}"')]
        if world.maybe(0.03):
            made["selectors"] = [_cel(f'device.attributes["{DEVICES}"].unknown == "a"')]
        if world.maybe(0.1):
            made["tolerations"] = [{"operator": "Exists"}]
        if world.maybe(0.1):
            del made["count"]
            made["allocationMode"] = "All"
        return made

    if world.maybe(0.3):
        return {
            "name": name,
            "firstAvailable": [{"name": f"s{number}", **ask()} for number in range(world.one((2, 3)))],
        }
    return {"name": name, "exactly": ask()}


def _claim(world: World, name: str, **content: Any) -> Object:
    body: Object = {"devices": {"requests": [_request(world, f"r{number}") for number in range(world.one((1, 1, 2)))]}}
    if world.maybe(0.1):
        body["devices"]["constraints"] = [{"matchAttribute": f"{DEVICES}/model"}]
    return world.add("resource.k8s.io/v1", "ResourceClaim", name, spec=body, status={}, **content)


def _allocated(world: World, name: str, names: list[str], reserved: list[Object]) -> Object:
    """A claim that holds a device of some Node."""
    made = _claim(world, name)
    node = world.one(names)
    result = {"request": "r0", "driver": DEVICES, "pool": node, "device": f"dev-{world.rng.randint(0, 2)}"}
    made["status"]["allocation"] = {"devices": {"results": [result]}}
    if world.maybe(0.8):
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        made["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    if reserved:
        made["status"]["reservedFor"] = [
            {"resource": "pods", "name": each["metadata"]["name"], "uid": each["metadata"]["uid"]} for each in reserved
        ]
    return made


def _claimed(world: World, pod: Object, number: int, names: list[str]) -> Object:
    """A reference of the Pod to a claim of some state."""
    entry = f"device-{number}"
    name = f"{pod['metadata']['name']}-{number}"
    state = world.one(
        (
            "free",
            "free",
            "free",
            "free",
            "template",
            "template",
            "allocated",
            "allocated",
            "shared",
            "shared",
            "unneeded",
            "gone",
            "deleted",
            "ungenerated",
        )
    )
    if state in {"template", "ungenerated", "unneeded"}:
        status: Object = {"name": entry}
        if state == "template":
            _claim(world, name, ownerReferences=[_owner(pod)] if not world.maybe(0.1) else [])
            status["resourceClaimName"] = name
        if state != "ungenerated":
            pod["status"].setdefault("resourceClaimStatuses", []).append(status)
        return {"name": entry, "resourceClaimTemplateName": "template"}
    if state == "free":
        _claim(world, name)
    elif state == "deleted":
        made = _claim(world, name)
        made["metadata"] |= {"deletionTimestamp": "2026-02-02T00:00:00Z", "finalizers": ["example.com/slow"]}
    elif state == "allocated":
        _allocated(world, name, names, [pod] if world.maybe(0.5) else [])
    elif state == "shared":
        held = [each["metadata"]["name"] for each in world.cluster.of_kind("ResourceClaim")]
        name = world.one(held) if held else name
    return {"name": entry, "resourceClaimName": name}


def _owner(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def volumes(world: World) -> None:
    """Pods with PersistentVolumeClaims that are bound, in zones or to Nodes, or not there at all; and disks."""
    names = world.nodes(1, 8)
    for name, mode in (("now", "Immediate"), ("late", "WaitForFirstConsumer")):
        world.add("storage.k8s.io/v1", "StorageClass", name, "", provisioner=DEVICES, volumeBindingMode=mode)
    for name in names:
        if world.maybe(0.5):
            driver = {"name": DEVICES, "nodeID": name, "topologyKeys": None}
            limit = {"allocatable": {"count": world.rng.randint(0, 3)}} if world.maybe(0.7) else {}
            world.add("storage.k8s.io/v1", "CSINode", name, "", spec={"drivers": [driver | limit]})
    claims = [f"data-{number}" for number in range(world.rng.randint(1, 4))]
    for name in claims:
        _volume_claim(world, name)
        if world.maybe(0.2):
            source = {"persistentVolumeName": f"volume-{world.one(claims)}"}
            body = {"attacher": DEVICES, "nodeName": world.one(names), "source": source}
            world.add("storage.k8s.io/v1", "VolumeAttachment", f"attached-{name}", "", spec=body)
    for pod in [*world.bound(0, 8), *world.waiting()]:
        pod["metadata"]["namespace"] = "default" if not world.maybe(0.05) else "blue"
        found = [_volume_of(world, pod, name) for name in world.some(claims, 0, 2)]
        if world.maybe(0.25):
            found.append({"name": "disk", **_disk(world)})
        if found:
            pod["spec"]["volumes"] = found


def _volume_claim(world: World, name: str, **content: Any) -> None:
    """A claim in some state, with its volume if it is bound."""
    state = world.one((*["bound"] * 9, "unbound", "gone", "deleted", "lost", "binding"))
    if state == "gone":
        return
    modes = [world.one(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"))]
    body: Object = {"accessModes": modes, "resources": {"requests": {"storage": "1Gi"}}}
    if not world.maybe(0.1):
        body["storageClassName"] = world.one(("now", "now", "late", "unknown"))
    status = {"phase": "Pending" if state in {"unbound", "binding"} else "Bound"}
    made = world.add("v1", "PersistentVolumeClaim", name, spec=body, status=status, **content)
    if state == "unbound":
        return
    body["volumeName"] = f"volume-{name}"
    if state != "binding":
        made["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    if state == "deleted":
        made["metadata"]["deletionTimestamp"] = "2026-02-02T00:00:00Z"
    if state != "lost":
        _volume(world, f"volume-{name}", made)


def _volume(world: World, name: str, claim: Object) -> None:
    metadata = claim["metadata"]
    body: Object = {
        "capacity": {"storage": "1Gi"}, "accessModes": claim["spec"]["accessModes"],
        "claimRef": {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]},
        "csi": {"driver": DEVICES, "volumeHandle": world.one((name, name, "shared"))},
    }  # fmt: skip
    labels = {}
    if world.maybe(0.3):
        terms = [{"matchExpressions": [world.requirement()]} for _ in range(world.one((1, 1, 2)))]
        body["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if world.maybe(0.3):
        labels[world.one((ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone"))] = world.one(("z0", "z1", "z0__z1"))
    if world.maybe(0.1):
        labels[world.one((REGION, "failure-domain.beta.kubernetes.io/region"))] = world.one(("r0", "r1"))
    world.add("v1", "PersistentVolume", name, "", labels=labels, spec=body, status={"phase": "Bound"})


def _volume_of(world: World, pod: Object, claim: str) -> Object:
    """A reference to the claim, or a claim of the Pod's own (a generic ephemeral volume)."""
    if not world.maybe(0.15):
        return {"name": claim, "persistentVolumeClaim": {"claimName": claim}}
    if pod["metadata"]["namespace"] == "default" and world.maybe(0.9):
        owners = [_owner(pod)] if not world.maybe(0.1) else []
        _volume_claim(world, f"{pod['metadata']['name']}-{claim}", ownerReferences=owners)
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    return {"name": claim, "ephemeral": {"volumeClaimTemplate": template}}


def _disk(world: World) -> Object:
    """A disk that is named in the Pod itself."""
    read_only = {"readOnly": True} if world.maybe(0.4) else {}
    number = world.one("01")
    return world.one(
        (
            {"gcePersistentDisk": {"pdName": f"disk-{number}", **read_only}},
            {"awsElasticBlockStore": {"volumeID": f"disk-{number}", **read_only}},
            {"iscsi": {"targetPortal": "10.0.0.1", "iqn": f"iqn-{number}", "lun": 0, **read_only}},
            {"rbd": {"monitors": ["a", number], "image": "image", "pool": "rbd", **read_only}},
        )
    )


def mixture(world: World) -> None:
    """A little of everything."""
    world.nodes(1, 12, cpu=("4", "8"), memory=("8Gi", "32Gi"), pods=(6, 110))
    world.taint(0.15)
    world.cordon(0.08)
    world.pull(0.3)
    for pod in [*world.bound(0, 30), *world.waiting()]:
        body = pod["spec"]
        body["priority"] = world.one((0, 0, 0, 10, 100))
        if world.maybe(0.2):
            body["affinity"] = world.pod_affinity(0.4)
        if world.maybe(0.2):
            body.setdefault("affinity", {})["nodeAffinity"] = world.node_affinity(0.4)
        if world.maybe(0.2):
            body["topologySpreadConstraints"] = [world.spread()]
        if world.maybe(0.3) and (tolerations := world.tolerations()):
            body["tolerations"] = tolerations
        if world.maybe(0.15):
            body["containers"][0]["ports"] = [world.host_port()]
        if world.maybe(0.2):
            _richly(world, pod)
        if world.maybe(0.02) and body.get("nodeName"):
            world.terminate(pod, 0.5)
    if world.maybe(0.3):
        _budget(world, 0)
    if world.maybe(0.5):
        world.add("v1", "Service", "web", spec={"selector": {"app": "web"}})
    if world.maybe(0.2):
        _strategies(world)
    if world.maybe(0.3):
        weighed = [name for name, weight in world.cluster.plugins.items() if weight]
        world.cluster.plugins |= {name: world.rng.randint(1, 10) for name in world.some(weighed)}
        _points(world, weighed)


def _points(world: World, weighed: list[str]) -> None:
    """Plugins that are left out at some points, and weights that hold at one of them."""
    if world.maybe(0.5):
        world.cluster.points["score"] = {
            "enabled": {name: world.rng.randint(1, 10) for name in world.some(weighed, 0, 2)},
            "disabled": dict.fromkeys(world.some(weighed, 0, 2), 0),
        }
    if world.maybe(0.2):
        filtering = ("TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "PodTopologySpread")
        world.cluster.points["filter"] = {"disabled": dict.fromkeys(world.some(filtering, 1, 2), 0)}
    if world.maybe(0.1):
        world.cluster.points["postFilter"] = {"disabled": {"*": 0}}


def empty(world: World) -> None:
    """No Node at all, or Nodes that lack nearly everything."""
    world.nodes(0, 3)
    for node in world.cluster.nodes:
        node["metadata"]["labels"] = {HOSTNAME: node["metadata"]["name"]} if world.maybe(0.5) else {}
        node["status"] = {} if world.maybe(0.3) else {"allocatable": {"pods": world.one(("1", "1k", "0"))}}
    for pod in world.waiting(1, 2):
        if world.maybe(0.7):
            _resources_of(pod, {})


def _resources_of(pod: Object, requests: Object) -> None:
    for container in pod["spec"]["containers"]:
        container["resources"] = {"requests": requests} if requests else {}


Family = Callable[[World], None]

FAMILIES: Final[Mapping[str, Family]] = {
    each.__name__: each
    for each in (
        mixture, nodes_apart, ports, resources, images, spread, default_spread, pod_affinity, preemption, nominated,
        claims, alternatives, cards, volumes, empty,
    )
}  # fmt: skip
ABOUT: Final[Mapping[str, set[str]]] = {name: set() for name in FAMILIES} | {
    "nodes_apart": {"TaintToleration", "NodeUnschedulable", "NodeAffinity"},
    "ports": {"NodePorts"},
    "resources": {"NodeResourcesFit", "NodeResourcesBalancedAllocation"},
    "images": {"ImageLocality"},
    "spread": {"PodTopologySpread"},
    "default_spread": {"PodTopologySpread"},
    "pod_affinity": {"InterPodAffinity"},
    "preemption": {"DefaultPreemption"},
    "claims": {"DynamicResources"},
    "alternatives": {"DynamicResources"},
    "cards": {"DynamicResources"},
    "volumes": {"VolumeBinding", "VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"},
}
"""The plugins that a family is about; of the others it is all."""
