"""`tollbar explain` beside kube-scheduler: planted situations, whose true cause it names first.

Each situation has Nodes and names of its own, so that one control plane has them all at once.  What kube-scheduler says
of a Pod has to be what the scheduler core finds on the copy; and what would change it is done, and then true.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pytest
from objects.builders import claim, device_class, scheduling_gate, template, toleration_rule
from objects.devices import consuming, device, exactly, published, selecting, shared
from planes.access import access
from planes.objects import a_pod, as_written
from processes.stack import eventually, eventually_is, installed

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.nodes import NodeSpec
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane
from tollbar.explain import pods
from tollbar.explain.causes import Cause
from tollbar.explain.values import PodExplanation
from tollbar.model import conditions, timestamps
from tollbar.model.objects import Object
from tollbar.model.resources import PODS
from tollbar.offline import Cluster, loading
from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]

NS: Final = "explained"
DRIVER: Final = "gpu.example.com"
BASE: Final = Path(__file__).parents[2] / "manifests" / "base"
TAINT: Final = {"key": "example.com/reserved", "value": "true", "effect": "NoSchedule"}
BROKEN: Final = {"key": "example.com/broken", "effect": "NoSchedule"}
CANNOT_ALLOCATE: Final = "cannot allocate all claims"
RELEASES: Final = "Tollbar releases the Pod"
MODEL: Final = f'device.attributes["{DRIVER}"].model'


@dataclass
class Planted:
    """The Pod of the situation `name`, by default a plain one, on the Node of the same name, with what has to be there.

    `before` are Pods that run first.  `then` is what the remedy that helps says, `promise` what comes of it, with the
    Node in the place of {}, and `does` carries it out, besides that a controller runs from then on.
    `said` is a part of what kube-scheduler says, empty where it does not try the Pod; `told` of what the explanation
    says first, which is made `later`, in seconds after the copy.  `prepares` is done before the Pods are made, `spoils`
    afterwards.
    """

    name: str
    cause: Cause
    pod: Any = None
    said: str = ""
    objects: Sequence[Any] = ()
    before: Sequence[Any] = ()
    nodes: Sequence[NodeSpec] = ()
    then: str = ""
    does: Callable[[Kubectl], object] | None = None
    later: float = 0.0
    prepares: Callable[[Kubectl], object] | None = None
    spoils: Callable[[Kubectl], object] | None = None
    promise: str = "the Pod fits on node {}"
    told: str = ""

    def __post_init__(self) -> None:
        self.pod = self.pod or on(self.name)
        self.nodes = self.nodes or [node(self.name)]


def node(name: str, *taints: Object, **labels: str) -> NodeSpec:
    return NodeSpec(name, taints=taints, capacity={"cpu": "4"}, labels=labels)


def on(name: str, suffix: str = "") -> Any:
    return a_pod(f"{name}{suffix}", NS).but("spec.nodeSelector", {"kubernetes.io/hostname": name})


def asking(name: str, cpu: str, suffix: str = "") -> Any:
    requests = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}]
    return on(name, suffix).but("spec.containers", requests)


def a_claim(name: str, *requests: Object, suffix: str = "", **devices: Any) -> Any:
    wanted = list(requests) or [exactly("r0", cls=name)]
    return claim(f"{name}{suffix}", NS).but("spec.devices", {"requests": wanted, **devices})


def a_class(name: str) -> Any:
    return device_class(name).selecting(f'device.driver == "{DRIVER}"')


def a_slice(name: str, *devices: Any) -> Any:
    return published(name, *devices, node=name).but("metadata.resourceVersion", None)


def claiming(name: str, suffix: str = "") -> Any:
    return on(name, suffix).claims(f"{name}{suffix}")


def with_devices(name: str, *devices: Any) -> list[Any]:
    return [a_class(name), a_claim(name), a_slice(name, *devices)]


def a_rule(name: str) -> Any:
    expression = f'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "{name}"))'
    return toleration_rule(name).cel(expression).giving({**TAINT})


def wants(rule: Any) -> str:
    return str(rule.at("spec.match.cel.expression"))


def patching(name: str, patch: list[Object]) -> Callable[[Kubectl], object]:
    return lambda kubectl: kubectl("patch", "pod", name, "-n", NS, "--type=json", "-p", json.dumps(patch))


def deleting(name: str) -> Callable[[Kubectl], object]:
    return lambda kubectl: kubectl("delete", "pod", name, "-n", NS, "--now", "--wait=false")


def applying(*objects: Any) -> Callable[[Kubectl], object]:
    return lambda kubectl: kubectl.apply(*map(as_written, objects))


def remaking(*objects: Any) -> Callable[[Kubectl], object]:
    """What cannot be changed is deleted, and made in another form."""

    def remake(kubectl: Kubectl) -> None:
        for obj in objects:
            kubectl("delete", obj["kind"].lower(), obj["metadata"]["name"], "-n", NS, "--now")
        kubectl.apply(*map(as_written, objects))

    return remake


def by_controllers(_kubectl: Kubectl) -> None:
    """There is nothing else to do."""


def enforcing(name: str) -> Callable[[Kubectl], object]:
    patch = ("--type=merge", "-p", '{"spec": {"mode": "Enforce"}}')
    return lambda kubectl: kubectl("patch", "tolerationrule", name, *patch)


def binding(name: str) -> Callable[[Kubectl], object]:
    """A PersistentVolumeClaim with a volume that every Node can use."""
    common = {"storageClassName": "", "accessModes": ["ReadWriteOnce"]}
    volume = {**common, "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/data"}}
    claim = {**common, "resources": {"requests": {"storage": "1Gi"}}, "volumeName": name}
    there = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume}
    meta = {"name": name, "namespace": NS}
    wanted = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": claim}
    return lambda kubectl: kubectl.apply(there, wanted)


def tolerating(name: str) -> Callable[[Kubectl], object]:
    added = {"key": TAINT["key"], "operator": "Exists", "effect": TAINT["effect"]}
    return patching(name, [{"op": "add", "path": "/spec/tolerations/-", "value": added}])


def _status(kubectl: Kubectl, kind: str, name: str, body: Object) -> None:
    kubectl("patch", kind, name, "-n", NS, "--subresource=status", "--type=merge", "-p", json.dumps(body))


def reserving(name: str, node_name: str, count: int) -> Callable[[Kubectl], object]:
    """The claim is allocated for this Node, and so many workloads keep it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    result = {"request": "r0", "driver": DRIVER, "pool": name, "device": "d1"}
    allocated = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    keepers = [
        {"apiGroup": "apps", "resource": "deployments", "name": f"keeper-{number}", "uid": f"keeper-{number}"}
        for number in range(count)
    ]
    status = {"status": {"allocation": allocated, "reservedFor": keepers}}
    return lambda kubectl: _status(kubectl, "resourceclaim", name, status)


def freeing(name: str) -> Callable[[Kubectl], object]:
    """The workloads give the claim up."""
    return lambda kubectl: _status(
        kubectl, "resourceclaim", name, {"status": {"allocation": None, "reservedFor": None}}
    )


def ungating(name: str) -> Callable[[Kubectl], object]:
    return patching(name, [{"op": "remove", "path": "/spec/schedulingGates/0"}])


def _port(pod: Any) -> Any:
    return pod.but(
        "spec.containers", [{"name": "c", "image": "none", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    )


def _apart(pod: Any, app: str) -> Any:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod.labelled(app=app).but("spec.affinity", {"podAntiAffinity": required})


def _spread(name: str, suffix: str = "", *, otherwise: str = "DoNotSchedule") -> Any:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": {"app": name}},
    }
    pod = a_pod(f"{name}{suffix}", NS).labelled(app=name).but("spec.nodeSelector", {"set": name})
    return pod.but("spec.topologySpreadConstraints", [constraint])


def _of_two(obj: Any) -> Any:
    return obj.but("spec.pool.resourceSliceCount", 2)


def unallocated(name: str, cause: Cause, *objects: Any, said: str = CANNOT_ALLOCATE, **more: Any) -> Planted:
    """A Pod with a claim of its name, for which DynamicResources finds no devices on its Node."""
    return Planted(name, cause, claiming(name), said, [a_class(name), *objects], **more)


def used_up(name: str, cause: Cause, wanted: Object, *objects: Any) -> Planted:
    """As `unallocated`: another Pod's claim for the same holds what there is."""
    return unallocated(
        name,
        cause,
        a_claim(name, wanted),
        a_claim(name, wanted, suffix="-holder"),
        *objects,
        before=[claiming(name, "-holder")],
        then=f"ResourceClaim {NS}/{name}-holder (used by {name}-holder) gives up its devices",
        does=deleting(f"{name}-holder"),
    )


def occupied(name: str, cause: Cause, pod: Any, said: str, there: Any, **more: Any) -> Planted:
    """A Pod that has no room on its Node before the Pod that is there ends."""
    first = there["metadata"]["name"]
    ends = f"Pod {NS}/{first} on node {name} ends"
    return Planted(name, cause, pod, said, before=[there], then=ends, does=deleting(first), **more)


def missing(name: str, cause: Cause, pod: Any, thing: Any, *objects: Any, said: str = "", **more: Any) -> Planted:
    """A Pod that waits for this object, which is made at last."""
    return Planted(name, cause, pod, said, [a_slice(name, "d1"), *objects], does=applying(thing), **more)


def ruled(name: str, cause: Cause, rule: Any, then: str, does: Callable[[Kubectl], object], told: str = "") -> Planted:
    """A Pod that lacks the toleration which this rule would give it, if it were different."""
    more: Any = {"nodes": [node(name, TAINT)], "then": then, "does": does, "told": told}
    return Planted(name, cause, claiming(name), "untolerated taint", [*with_devices(name, "d1"), rule], **more)


def of_claims() -> Iterator[Planted]:
    s = "class-missing"
    yield Planted(
        s,
        Cause.CLASS_MISSING,
        claiming(s).gated(),
        objects=[a_claim(s), a_rule(s), a_slice(s, "d1")],
        then=f"DeviceClass {s} exists",
        promise=RELEASES,
        does=applying(a_class(s)),
    )
    s = "class-missing-ungated"
    absent = f"device class {s} does not exist"
    every = f"DeviceClass {s} exists, and selects every device"
    yield missing(s, Cause.CLASS_MISSING, claiming(s), a_class(s), a_claim(s), said=absent, then=every)
    s = "claim-missing"
    nothing = f"ResourceClaim {s} exists, and asks for nothing"
    yield missing(s, Cause.CLAIM_MISSING, claiming(s), a_claim(s), a_class(s), then=nothing)
    s = "template-missing"
    a_template = template(s, NS).request(s)
    nothing = f"ResourceClaimTemplate {s} exists, and asks for nothing"
    yield missing(s, Cause.TEMPLATE_MISSING, on(s).templates(s), a_template, a_class(s), then=nothing)
    s = "owner-mismatch"
    recorded = {"status": {"resourceClaimStatuses": [{"name": s, "resourceClaimName": s}]}}
    yield missing(
        s,
        Cause.OWNER_MISMATCH,
        on(s).templates(s),
        template(s, NS).request(s),
        a_class(s),
        a_claim(s),
        then=f"ResourceClaimTemplate {s} exists, and asks for nothing",
        spoils=lambda kubectl: _status(kubectl, "pod", "owner-mismatch", recorded),
    )


def of_gates() -> Iterator[Planted]:
    s = "foreign-gate"
    gate = f"{s}.example.com/quota"
    declared = scheduling_gate(s, gate).but("spec.owners", ["quota"])
    removed = f"scheduling gate {gate} is removed"
    yield Planted(s, Cause.FOREIGN_GATE, on(s).gated(gate), objects=[declared], then=removed, does=ungating(s))
    s = "foreign-gate-overdue"
    gate = f"{s}.example.com/quota"
    yield Planted(
        s,
        Cause.FOREIGN_GATE,
        on(s).gated(gate),
        objects=[scheduling_gate(s, gate).expiring("60s", "Report")],
        later=90.0,
        told="for longer than its maxHold 1m0s",
        then=f"scheduling gate {gate} is removed",
        does=ungating(s),
    )
    s = "gate-due-without-controller"
    starts: Any = {"then": "a controller runs", "promise": RELEASES}
    yield Planted(s, Cause.NO_CONTROLLER, on(s).gated(), does=by_controllers, **starts)
    s = "gate-overdue"
    yield Planted(
        s,
        Cause.NO_CONTROLLER,
        claiming(s).gated(),
        objects=[a_claim(s), a_rule(s), a_slice(s, "d1")],
        later=90.0,
        does=applying(a_class(s)),
        **starts,
    )


def of_rules() -> Iterator[Planted]:
    s = "untolerated-taint"
    helps = "the Pod tolerates example.com/reserved=true:NoSchedule"
    yield Planted(
        s, Cause.UNTOLERATED_TAINT, said="untolerated taint", nodes=[node(s, TAINT)], then=helps, does=tolerating(s)
    )
    s = "rule-in-audit"
    yield ruled(s, Cause.RULE_IN_AUDIT, a_rule(s).mode("Audit"), f"rule {s} has mode Enforce", enforcing(s))
    s = "rule-disabled"
    yield ruled(s, Cause.RULE_NOT_IN_FORCE, a_rule(s).mode("Disabled"), f"rule {s} has mode Enforce", enforcing(s))
    s = "rule-out-of-scope"
    label = f"namespace {NS} has the label team=a"
    labelling = lambda kubectl: kubectl("label", "namespace", NS, "team=a")  # noqa: E731
    yield ruled(s, Cause.RULE_OUT_OF_SCOPE, a_rule(s).in_namespaces(team="a"), label, labelling)
    s = "rule-selects-others"
    elsewhere = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["b"]}]}
    scoped = a_rule(s).but("spec.namespaceSelector", elsewhere)
    yield ruled(s, Cause.RULE_OUT_OF_SCOPE, scoped, f"rule {s} selects every namespace", applying(a_rule(s)))
    s = "rule-fails"
    failing = a_rule(s).cel(f'{wants(a_rule(s))} && pod.metadata.labels["a"] == "b"')
    yield ruled(s, Cause.RULE_FAILED, failing, f"rule {s} gives its tolerations", applying(a_rule(s)))
    s = "webhook-down"
    added, late = f"the toleration of rule {s} is added", "no controller renews the Lease to add it late"
    yield ruled(s, Cause.RULE_NOT_APPLIED, a_rule(s), added, by_controllers, late)
    s = "two-causes"
    yield Planted(
        s,
        Cause.UNTOLERATED_TAINT,
        claiming(s),
        "untolerated taint",
        [*with_devices(s, "d1"), a_claim(s, suffix="-holder")],
        [claiming(s, "-holder").tolerating({**TAINT, "operator": "Equal"})],
        [node(s, TAINT)],
        f"{helps}, and ResourceClaim {NS}/{s}-holder (used by {s}-holder) gives up its devices",
        lambda kubectl: (tolerating("two-causes")(kubectl), deleting("two-causes-holder")(kubectl)),
    )


def of_devices() -> Iterator[Planted]:
    s = "no-match"
    of_model = exactly("r0", cls=s, selectors=selecting(f'{MODEL} == "h100"'))
    yield unallocated(
        s,
        Cause.NO_DEVICE_MATCHES,
        a_claim(s, of_model),
        a_slice(s, device("d1", model="a100")),
        then=f"claim {NS}/{s}, request r0 has no selectors of its own",
        does=remaking(a_claim(s)),
    )
    s = "no-match-by-class"
    other = device_class(s).selecting('device.driver == "other.example.com"')
    yield Planted(
        s,
        Cause.NO_DEVICE_MATCHES,
        claiming(s),
        CANNOT_ALLOCATE,
        [other, a_claim(s), a_slice(s, "d1")],
        then=f"DeviceClass {s} selects every device",
        does=applying(device_class(s)),
    )
    s = "too-little-capacity"
    large = exactly("r0", cls=s, capacity={"requests": {"memory": "60"}})
    yield unallocated(
        s,
        Cause.NO_DEVICE_MATCHES,
        a_claim(s, large),
        a_slice(s, shared("d1", memory="10")),
        then=f"claim {NS}/{s}, request r0 asks for no capacity",
        does=remaking(a_claim(s)),
    )
    s = "too-few-devices"
    yield unallocated(
        s,
        Cause.TOO_FEW_DEVICES,
        a_claim(s, exactly("r0", 3, cls=s)),
        a_claim(s, suffix="-holder"),
        a_slice(s, "d1", "d2"),
        before=[claiming(s, "-holder")],
        then=f"claim {NS}/{s}, request r0 asks for 1 instead of 3",
        does=remaking(a_claim(s)),
    )
    s = "selector-fails"
    of_model = exactly("r0", cls=s, selectors=selecting(f'{MODEL} == "h100"'))
    yield unallocated(
        s,
        Cause.SELECTOR_FAILED,
        a_claim(s, of_model),
        a_slice(s, "d1"),
        said="CEL runtime error",
        then=f"claim {NS}/{s}, request r0 has no selectors of its own",
        does=remaking(a_claim(s)),
    )
    s = "no-devices"
    yield unallocated(s, Cause.NO_DEVICES, a_claim(s), does=applying(a_slice(s, "d1")))
    s = "device-taken"
    yield used_up(s, Cause.DEVICE_TAKEN, exactly("r0", cls=s), a_slice(s, "d1"))
    s = "device-tainted"
    yield unallocated(
        s,
        Cause.DEVICE_TAINTED,
        a_claim(s),
        a_slice(s, {"name": "d1", "taints": [BROKEN]}),
        then="the driver takes the taint from device d1",
        does=applying(a_slice(s, "d1")),
    )
    s = "device-taint-to-tolerate"
    tolerating_it = exactly("r0", cls=s, tolerations=[{**BROKEN, "operator": "Exists"}])
    yield unallocated(
        s,
        Cause.DEVICE_TAINTED,
        a_claim(s),
        a_slice(s, {"name": "d1", "taints": [BROKEN]}),
        then=f"claim {NS}/{s}, request r0 tolerates example.com/broken:NoSchedule",
        does=remaking(a_claim(s, tolerating_it)),
    )
    s = "counters-exhausted"
    counters = {"name": "shared", "counters": {"memory": {"value": "10"}}}
    counting = published(f"{s}-counters", node=s, sharedCounters=[counters]).but("metadata.resourceVersion", None)
    yield used_up(
        s,
        Cause.COUNTERS_EXHAUSTED,
        exactly("r0", cls=s),
        _of_two(a_slice(s, consuming(device("d1"), memory="8"), consuming(device("d2"), memory="8"))),
        _of_two(counting).but("spec.devices", None),
    )
    s = "capacity-exhausted"
    wanted = exactly("r0", cls=s, capacity={"requests": {"memory": "6"}})
    yield used_up(s, Cause.CAPACITY_EXHAUSTED, wanted, a_slice(s, shared("d1", memory="10")))
    s = "constraint"
    yield unallocated(
        s,
        Cause.CONSTRAINT,
        a_claim(s, exactly("r0", 2, cls=s), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
        a_slice(s, device("d1", numa=1), device("d2", numa=2)),
        then=f"claim {NS}/{s} has no constraints",
        does=remaking(a_claim(s, exactly("r0", 2, cls=s))),
    )
    s = "pool-incomplete"
    yield unallocated(
        s,
        Cause.POOL_INCOMPLETE,
        a_claim(s),
        _of_two(a_slice(s, "d1")),
        then=f"what is published of pool {DRIVER}/{s} is all of it",
        does=applying(a_slice(s, "d1")),
    )
    s = "pool-invalid"
    twice = published(f"{s}-twice", "d1", node=s).but("metadata.resourceVersion", None)
    other = published(f"{s}-twice", "d2", node=s).but("metadata.resourceVersion", None)
    yield unallocated(
        s,
        Cause.POOL_INVALID,
        a_claim(s),
        _of_two(a_slice(s, "d1")),
        _of_two(twice),
        said="invalid resource pools were encountered",
        does=applying(_of_two(other)),
    )
    s = "reservation-pinned"
    yield Planted(
        s,
        Cause.RESERVATION_PINNED,
        claiming(s),
        "resourceclaim not available on the node",
        objects=with_devices(s, "d1"),
        nodes=[node(s), node(f"{s}-other")],
        then=f"ResourceClaim {NS}/{s} gives up its devices",
        prepares=reserving(s, f"{s}-other", 1),
        does=freeing(s),
    )
    s = "reservation-full"
    yield Planted(
        s,
        Cause.RESERVATION_FULL,
        claiming(s),
        "must have at most 256 items",
        objects=with_devices(s, "d1"),
        prepares=reserving(s, s, 256),
        does=freeing(s),
    )
    s = "claim-elsewhere"
    yield occupied(
        s,
        Cause.NODE_FULL,
        asking(s, "3").claims(s),
        "Insufficient cpu",
        asking(s, "2", "-first").claims(s),
        objects=with_devices(s, "d1"),
        nodes=[node(s), node(f"{s}-other")],
    )


def of_nodes() -> Iterator[Planted]:
    s = "too-small"
    yield Planted(
        s,
        Cause.NODE_TOO_SMALL,
        asking(s, "8"),
        "Insufficient cpu",
        then="the Pod asks for 4 cpu",
        does=remaking(asking(s, "4")),
    )
    s = "full"
    yield occupied(s, Cause.NODE_FULL, asking(s, "2"), "Insufficient cpu", asking(s, "3", "-there"))
    s = "full-for-so-much"
    yield Planted(
        s,
        Cause.NODE_FULL,
        asking(s, "2"),
        "Insufficient cpu",
        before=[asking(s, "3", "-there")],
        then="the Pod asks for 1 cpu",
        does=remaking(asking(s, "1")),
    )
    s = "cordoned"
    yield Planted(
        s,
        Cause.NODE_CORDONED,
        said="unschedulable",
        then=f"node {s} is uncordoned",
        does=lambda kubectl: kubectl("uncordon", "cordoned"),
    )
    s = "no-label"
    yield Planted(
        s,
        Cause.NODE_AFFINITY,
        a_pod(s, NS).but("spec.nodeSelector", {"disk": s}),
        "node affinity/selector",
        does=lambda kubectl: kubectl("label", "node", "no-label", "disk=no-label"),
    )
    s = "host-port"
    yield occupied(s, Cause.HOST_PORTS, _port(on(s)), "free ports", _port(on(s, "-there")))
    s = "anti-affinity"
    yield occupied(s, Cause.POD_AFFINITY, _apart(on(s), s), "anti-affinity rules", _apart(on(s, "-there"), s))
    s = "anti-affinity-of-its-own"
    yield Planted(
        s,
        Cause.POD_AFFINITY,
        _apart(on(s), s),
        "anti-affinity rules",
        before=[on(s, "-there").labelled(app=s)],
        then="the Pod has no Pod affinity and anti-affinity",
        does=remaking(on(s).labelled(app=s)),
    )
    s = "spread"
    yield Planted(
        s,
        Cause.TOPOLOGY_SPREAD,
        _spread(s),
        "topology spread constraints",
        before=[_spread(s, "-there")],
        nodes=[NodeSpec(s, labels={"set": s, "rack": "a"}), NodeSpec(f"{s}-cordoned", labels={"set": s, "rack": "b"})],
        then="the Pod's topology spread constraints say ScheduleAnyway",
        does=remaking(_spread(s, otherwise="ScheduleAnyway")),
    )
    s = "volume-missing"
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": s}}
    yield Planted(
        s,
        Cause.VOLUMES,
        on(s).but("spec.volumes", [volume]),
        "not found",
        then=f"PersistentVolumeClaim {s} exists, bound to a volume",
        does=binding(s),
    )
    s = "no-scheduler"
    yield Planted(
        s,
        Cause.NO_SCHEDULER,
        on(s).but("spec.schedulerName", "mine"),
        later=60.0,
        then="the Pod names default-scheduler",
        does=remaking(on(s)),
    )


_ALL: Final = chain(of_claims(), of_gates(), of_rules(), of_devices(), of_nodes())
PLANTED: Final[Mapping[str, Planted]] = {each.name: each for each in _ALL}
CORDONED: Final = ("cordoned", "spread-cordoned")
REFUSED: Final = "reservation-full"
"""A Node fits, and the API server refuses what kube-scheduler writes then: the copy finds nothing to say."""


@pytest.fixture(scope="module")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    """One of its own: the Nodes of other tests would fit, too."""
    with RealPlane(binaries, tmp_path_factory.mktemp("plane"), Options()) as plane:
        yield plane


@pytest.fixture(scope="module")
def planted(plane: RealPlane) -> Iterator[Kubectl]:
    """All situations, once kube-scheduler has said what it says."""
    kubectl = plane.kubectl
    files = [*sorted((BASE / "crds").glob("tollbar.dev_*.yaml")), BASE / "rbac" / "users.yaml"]
    kubectl("apply", "--server-side", *(f"--filename={each}" for each in files))
    kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    kubectl("create", "namespace", NS)
    with BackgroundKubelet(plane.kubeconfig) as kubelet:
        for each in PLANTED.values():
            for spec in each.nodes:
                kubelet.add_node(spec)
        kubectl("cordon", *CORDONED)
        eventually(lambda: kubectl("get", "serviceaccount", "default", "-n", NS), what="the account of the Pods")
        kubectl.apply(*(as_written(obj) for each in PLANTED.values() for obj in each.objects))
        before = [pod for each in PLANTED.values() for pod in each.before]
        kubectl.apply(*map(as_written, before))
        eventually(lambda: _have_nodes(kubectl, before), what="what is there before has its Nodes")
        for each in PLANTED.values():
            if each.prepares is not None:
                each.prepares(kubectl)
        kubectl.apply(*(as_written(each.pod) for each in PLANTED.values()))
        for each in PLANTED.values():
            if each.spoils is not None:
                each.spoils(kubectl)
        eventually(lambda: _all_is_said(kubectl), what="kube-scheduler has said what it says")
        yield kubectl


def _pods(kubectl: Kubectl) -> dict[str, Object]:
    return {each["metadata"]["name"]: each for each in access(kubectl).read(PODS, namespace=NS)["items"]}


def _have_nodes(kubectl: Kubectl, pods: Sequence[Object]) -> bool:
    now = _pods(kubectl)
    return all(now[each["metadata"]["name"]]["spec"].get("nodeName") for each in pods)


def _all_is_said(kubectl: Kubectl) -> bool:
    """By kube-scheduler, of every Pod that it tries."""
    now = _pods(kubectl)
    said = {name: str(conditions.of(pod, "PodScheduled").get("message") or "") for name, pod in now.items()}
    return all(each.said in said[each.name] for each in PLANTED.values() if each.said)


async def _copied(plane: RealPlane) -> Cluster:
    client = await Client.connect(kubeconfig=str(plane.kubeconfig), metrics=Metrics(), user_agent="test")
    try:
        return await loading.load(client)
    finally:
        await client.close()


@pytest.fixture(scope="module")
def copy(plane: RealPlane, planted: Kubectl) -> Cluster:
    return asyncio.run(_copied(plane))


@pytest.fixture(scope="module")
def explanations(copy: Cluster) -> dict[str, PodExplanation]:
    found, moment = {}, copy.now
    for name, each in PLANTED.items():
        copy.now = moment + each.later
        found[name] = pods.explain(copy, copy.get(PODS, name, NS) or {})
    return found


@pytest.mark.parametrize("name", PLANTED)
def test_the_true_cause_comes_first(name: str, explanations: dict[str, PodExplanation]) -> None:
    given, found = PLANTED[name], explanations[name]
    assert found.findings[0].cause == given.cause, found
    assert given.told in found.findings[0].what
    if given.then:
        assert given.then in [each.change for each in found.remedies if each.helps], found.remedies


@pytest.mark.parametrize("name", [each.name for each in PLANTED.values() if each.said and each.name != REFUSED])
def test_the_copy_finds_what_kube_scheduler_says(name: str, explanations: dict[str, PodExplanation]) -> None:
    seen = explanations[name].scheduling
    assert seen is not None
    assert seen.said.startswith(seen.message.rstrip(".")), "but for preemption, which kube-scheduler adds"


NOT_TRIED: Final = [each.name for each in PLANTED.values() if not each.said and each.name != "no-scheduler"]


@pytest.mark.parametrize("name", NOT_TRIED)
def test_the_copy_holds_back_what_kube_scheduler_does_not_try(name: str, planted: Kubectl, copy: Cluster) -> None:
    pod = _pods(planted)[name]
    reason = conditions.of(pod, "PodScheduled").get("reason")
    assert copy.scheduler.attempt(copy.get(PODS, name, NS) or {}).held is not None
    if pod["spec"].get("schedulingGates"):
        assert reason == "SchedulingGated", "which the API server writes"
    else:
        assert reason != "Unschedulable"


OBJECTS: Final = (
    (
        "claim",
        "device-taken",
        f"ResourceClaim {NS}/device-taken: pending: it is allocated with the first Pod that gets a Node",
    ),
    ("rule", "rule-in-audit", "TolerationRule rule-in-audit: in Audit: it is looked at, and adds nothing"),
    ("node", "cordoned", "Node cordoned: unschedulable: it is cordoned"),
)


def test_an_account_with_the_shipped_role_reads_all(plane: RealPlane, planted: Kubectl, tmp_path: Path) -> None:
    planted("create", "serviceaccount", "reader", "-n", NS)
    account = f"--serviceaccount={NS}:reader"
    planted("create", "clusterrolebinding", "reader", "--clusterrole=tollbar-explain", account)
    said = eventually(lambda: _complete(_explain(plane, "reader", "pod", "full")), what="RBAC is in force")
    first = ["Why", "  NodeFull: node full: the Pod asks for 2 cpu, at most 1 of 4 is free"]
    assert said.splitlines()[2:4] == first, said
    for kind, name, summary in OBJECTS:
        assert _explain(plane, "reader", kind, name).stdout.splitlines()[0] == summary

    dump, file = str(tmp_path / "dump.json"), tmp_path / "pod.yaml"
    file.write_text(json.dumps(as_written(on("full", "-more"))))
    for code, arguments in (
        (0, ("dump", "-o", dump)),
        (0, ("simulate", "-f", str(file), "--live")),
        (0, ("drift",)),
    ):
        done = _tollbar(plane, "reader", *arguments)
        assert (done.returncode, "not read" in done.stderr) == (code, False), done.stderr
    assert json.loads(Path(dump).read_text())["unread"] == {}


def test_what_an_account_may_not_read_is_said(plane: RealPlane, planted: Kubectl) -> None:
    planted("create", "serviceaccount", "tenant", "-n", NS)
    readable = "--resource=pods,resourceclaims.resource.k8s.io,resourceclaimtemplates.resource.k8s.io"
    planted("create", "role", "tenant", "-n", NS, "--verb=get,list", readable)
    planted("create", "rolebinding", "tenant", "-n", NS, "--role=tenant", f"--serviceaccount={NS}:tenant")
    said = eventually(lambda: _read(_explain(plane, "tenant", "pod", "claim-missing")), what="RBAC is in force")
    assert "  ClaimMissing: ResourceClaim claim-missing does not exist" in said
    assert re.search(r"^  Node: .*nodes is forbidden", said, re.MULTILINE)
    said = _explain(plane, "tenant", "pod", "full").stdout
    assert "  Unknown: Node, Pod may not be read everywhere, so that what a scheduler finds is not known" in said


def _complete(done: "subprocess.CompletedProcess[str]") -> str:
    """What it says, if it could read everything."""
    return "" if done.returncode or "Not read" in done.stdout else done.stdout


def _read(done: "subprocess.CompletedProcess[str]") -> str:
    return "" if done.returncode else done.stdout


def _explain(plane: RealPlane, account: str, kind: str, name: str) -> "subprocess.CompletedProcess[str]":
    namespaced = ("-n", NS) if kind in ("pod", "claim") else ()
    return _tollbar(plane, account, "explain", kind, name, *namespaced)


def _tollbar(plane: RealPlane, account: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    kubeconfig = plane.service_account_kubeconfig(NS, account)
    command = [sys.executable, "-m", "tollbar.cli", *arguments, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _nothing_of(planted: Kubectl, kind: str, namespace: str) -> None:
    """A namespace whose quota allows nothing of this kind."""
    meta, body = {"name": "none"}, {"hard": {kind: "0"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": body}
    planted("create", "namespace", namespace)
    planted("apply", "-n", namespace, "-f", "-", stdin=json.dumps(quota))


def _says(plane: RealPlane, namespace: str, word: str) -> list[str]:
    """What is said of the Pod `web`, once this word is in it."""
    command = [sys.executable, "-m", "tollbar.cli", "explain", "pod", "web", "-n", namespace]
    done = subprocess.run(
        [*command, "--kubeconfig", str(plane.kubeconfig)], capture_output=True, text=True, check=False
    )
    return done.stdout.splitlines() if word in done.stdout else []


def test_a_quota_that_keeps_pods_from_being_made(plane: RealPlane, planted: Kubectl) -> None:
    _nothing_of(planted, "pods", "no-pods")
    planted("create", "deployment", "web", "-n", "no-pods", "--image=none")
    answer = eventually(lambda: _says(plane, "no-pods", "exceeded quota"), what="the quota is named")
    assert answer[:3] == ["Pod no-pods/web: not created", "", "Why"]
    assert answer[3].startswith("  NotCreated: ReplicaSet web-")
    planted("delete", "resourcequota", "none", "-n", "no-pods")
    eventually(lambda: planted.json("get", "pods", "-n", "no-pods")["items"], what="its controller tries again")


def test_a_quota_that_keeps_claims_from_being_made(plane: RealPlane, planted: Kubectl) -> None:
    _nothing_of(planted, "count/resourceclaims.resource.k8s.io", "no-claims")
    planted("wait", "--for=create", "serviceaccount/default", "-n", "no-claims", "--timeout=60s")
    nowhere = a_pod("web", "no-claims").templates("t").but("spec.nodeSelector", {"kubernetes.io/hostname": "nowhere"})
    planted.apply(as_written(template("t", "no-claims").request("device-taken")), as_written(nowhere))
    answer = eventually(lambda: _says(plane, "no-claims", "quota"), what="the quota is named")
    assert answer[3].startswith("  ClaimNotGenerated: nobody has made ResourceClaim from template t: ")
    planted("delete", "resourcequota", "none", "-n", "no-claims")
    eventually(lambda: planted.json("get", "resourceclaims", "-n", "no-claims")["items"], what="the claim is made")


def test_every_situation_has_something_that_ends_it() -> None:
    assert [name for name, each in PLANTED.items() if each.does is None] == []


@pytest.mark.timeout(900)
def test_what_would_change_it_is_done_and_then_true(
    plane: RealPlane, planted: Kubectl, explanations: dict[str, PodExplanation], tmp_path: Path
) -> None:
    """The last one: it ends the situations, the controllers run."""
    command = [sys.executable, "-m", "tollbar.cli", "explain", "pod", "full", "-n", NS, "--watch"]
    watching = subprocess.Popen([*command, "--kubeconfig", str(plane.kubeconfig)], stdout=subprocess.PIPE, text=True)
    assert watching.stdout is not None
    assert watching.stdout.readline().startswith(f"Pod {NS}/full: Pending")
    with installed(plane, tmp_path) as stack:
        stack.controllers()
        for each in PLANTED.values():
            assert each.does is not None
            each.does(planted)
        _all_have_what_was_promised(planted, explanations)
    answers, _ = watching.communicate(timeout=60)
    last = f"Pod {NS}/full: "
    assert (watching.returncode, " on node full, " in answers.rpartition(last)[2].partition("\n")[0]) == (0, True)


def _all_have_what_was_promised(planted: Kubectl, explanations: dict[str, PodExplanation]) -> None:
    waiting = set(PLANTED)

    def without_node() -> set[str]:
        waiting.difference_update(name for name, pod in _pods(planted).items() if pod["spec"].get("nodeName"))
        return waiting

    # A template that comes does not make kube-controller-manager look at a Pod whose recorded claim is somebody else's:
    # only its retries do, each after twice the time of the one before, so after as long as the Pod has been there.
    created = min(timestamps.parse(pod["metadata"]["creationTimestamp"]) for pod in _pods(planted).values())
    eventually_is(set(), without_node, seconds=120 + time.time() - created)
    bound = {name: pod["spec"]["nodeName"] for name, pod in _pods(planted).items() if name in PLANTED}
    promised = {
        name: (each.then, each.promise.format(bound[name]))
        in [(found.change, found.result) for found in explanations[name].remedies if found.helps]
        for name, each in PLANTED.items()
        if each.then
    }
    assert all(promised.values()), promised
