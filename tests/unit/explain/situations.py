"""Clusters in which a Pod waits, each for one reason that is planted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.scheduler import node
from objects.builders import (
    CREATED,
    claim,
    device_class,
    pod,
    scheduling_gate,
    template,
    toleration,
    toleration_rule,
)
from objects.devices import (
    DRIVER,
    allocation,
    consuming,
    device,
    exactly,
    published,
    selecting,
    shared,
    taint_rule,
    whole,
)

from tollbar.explain.causes import Cause
from tollbar.model import timestamps
from tollbar.model.objects import Object

DATA: Object = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
WANTS_GPU = 'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
TAINT: Object = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
TOLERATION = toleration("example.com/gpu")
MODEL = f'device.attributes["{DRIVER}"].model'


@dataclass(frozen=True)
class Situation:
    """`cause` is the true one, `then` those that follow; `helps` has to be among the remedies that help."""

    objects: list[Object]
    pod: Object
    cause: Cause
    helps: str = ""
    then: tuple[Cause, ...] = ()
    events: tuple[Object, ...] = ()


def lease(renewed: float) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "tollbar-controllers", "namespace": "tollbar-system"},
        "spec": {"holderIdentity": "c-0", "leaseDurationSeconds": 15, "renewTime": timestamps.micro_time(renewed)},
    }


def rule(name: str = "gpu") -> Any:
    return toleration_rule(name).cel(WANTS_GPU).giving(TOLERATION)


def wanting(*requests: Object, name: str = "c", **devices: Any) -> Any:
    return claim(name).but("spec.devices", {"requests": list(requests), **devices})


def claiming() -> Any:
    return pod().claims("c")


NOW: Final = CREATED + 30
GPU: Final[list[Object]] = [device_class("gpu"), wanting(exactly("r0"))]
TAINTED: Final = node("n1", taints=[TAINT])
HELD: Final = claim("other").request("gpu").but("status.allocation", allocation("d1"))
_OF_TWO: Final = ("spec.pool.resourceSliceCount", 2)
COUNTERS: Final = {"name": "shared", "counters": {"memory": {"value": "10"}}}
ON_N1: Final = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}

SITUATIONS: Final[Mapping[str, Callable[[], Situation]]] = {
    "the class is missing, our gate holds": lambda: Situation(
        [node("n1"), rule(), wanting(exactly("r0")), scheduling_gate()],
        claiming().gated(),
        Cause.CLASS_MISSING,
        "DeviceClass gpu exists",
    ),
    "the claim is missing, our gate holds": lambda: Situation(
        [node("n1"), rule(), device_class("gpu"), scheduling_gate()],
        claiming().gated(),
        Cause.CLAIM_MISSING,
        "ResourceClaim c exists",
    ),
    "the template is missing, our gate holds": lambda: Situation(
        [node("n1"), rule(), device_class("gpu"), scheduling_gate()],
        pod().templates("t").gated(),
        Cause.TEMPLATE_MISSING,
        "ResourceClaimTemplate t exists",
    ),
    "the class is missing, no gate": lambda: Situation(
        [node("n1"), wanting(exactly("r0")), published("s", "d1")],
        claiming(),
        Cause.CLASS_MISSING,
        "DeviceClass gpu exists, and selects every device",
    ),
    "the class is missing, no gate, and there are no devices": lambda: Situation(
        [node("n1"), wanting(exactly("r0"))], claiming(), Cause.CLASS_MISSING
    ),
    "the claim is missing, no gate": lambda: Situation(
        [node("n1")], claiming(), Cause.CLAIM_MISSING, "ResourceClaim c exists, and asks for nothing"
    ),
    "the template is missing, no gate": lambda: Situation(
        [node("n1")],
        pod().templates("t"),
        Cause.TEMPLATE_MISSING,
        "ResourceClaimTemplate t exists, and asks for nothing",
    ),
    "the PodGroup is missing": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0")), published("s", "d1")],
        claiming().in_group("gang"),
        Cause.POD_GROUP_MISSING,
        "PodGroup gang exists, and wants no other Pods with it",
    ),
    "nobody generates the claim": lambda: Situation(
        [node("n1"), template("t").request("gpu"), device_class("gpu"), published("s", "d1")],
        pod().templates("t"),
        Cause.CLAIM_NOT_GENERATED,
        "ResourceClaim from template t is made",
    ),
    "the generated claim is another Pod's": lambda: Situation(
        [
            node("n1"),
            template("t").request("gpu"),
            device_class("gpu"),
            wanting(exactly("r0"), name="web-t-1"),
            published("s", "d1"),
        ],
        pod().templates("t").generated("t", "web-t-1"),
        Cause.OWNER_MISMATCH,
        "ResourceClaim from template t is made",
    ),
    "the generated claim is another Pod's, and there is no template for another one": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0"), name="web-t-1")],
        pod().templates("t").generated("t", "web-t-1"),
        Cause.OWNER_MISMATCH,
        "ResourceClaimTemplate t exists, and asks for nothing",
    ),
    "the claim is being deleted": lambda: Situation(
        [node("n1"), *GPU[:1], wanting(exactly("r0")).deleting(), published("s", "d1")],
        claiming(),
        Cause.CLAIM_DELETING,
        "ResourceClaim c is made anew",
    ),
    "a foreign gate": lambda: Situation(
        [node("n1"), scheduling_gate("quota", "example.com/quota").but("spec.owners", ["quota-controller"])],
        pod().gated("example.com/quota"),
        Cause.FOREIGN_GATE,
        "scheduling gate example.com/quota is removed",
    ),
    "the gate of a class, which says what for": lambda: Situation(
        [node("n1"), scheduling_gate("quota", "tollbar.dev/quota").but("spec.owners", ["controllers"])],
        pod().gated("tollbar.dev/quota"),
        Cause.GATE_CLASS,
        "scheduling gate tollbar.dev/quota is removed",
        events=(
            {"reason": "SchedulingHeld", "note": "tollbar.dev/quota: waiting for cpu in PodQuota q", "metadata": {}},
        ),
    ),
    "our gate is due, and no controller runs": lambda: Situation(
        [node("n1"), *GPU, rule(), lease(NOW - 300), published("s", "d1")],
        claiming().gated(),
        Cause.NO_CONTROLLER,
        "a controller runs",
    ),
    "our gate is due, and a controller runs": lambda: Situation(
        [node("n1"), *GPU, rule(), lease(NOW), published("s", "d1")], claiming().gated(), Cause.RELEASE_DUE
    ),
    "our gate is due, and the toleration comes with the release": lambda: Situation(
        [TAINTED, *GPU, rule(), lease(NOW), published("s", "d1")], claiming().gated(), Cause.RELEASE_DUE
    ),
    "a policy refuses the release": lambda: Situation(
        [node("n1"), *GPU, rule(), lease(NOW), published("s", "d1")],
        claiming().gated(),
        Cause.RELEASE_REFUSED,
        events=({"reason": "ReleaseRefused", "note": "policy says no", "metadata": {}},),
    ),
    "a policy refused the release before, and a class is missing now": lambda: Situation(
        [node("n1"), wanting(exactly("r0")), rule(), lease(NOW), published("s", "d1")],
        claiming().gated(),
        Cause.CLASS_MISSING,
        "DeviceClass gpu exists",
        events=({"reason": "ReleaseRefused", "note": "policy says no", "metadata": {}},),
    ),
    "a taint that no rule is about": lambda: Situation(
        [TAINTED, node("n2", cpu="1")],
        pod().wants({"cpu": "2"}),
        Cause.UNTOLERATED_TAINT,
        "the Pod tolerates example.com/gpu=true:NoSchedule",
        (Cause.NODE_TOO_SMALL,),
    ),
    "a rule in Audit": lambda: Situation(
        [TAINTED, node("n2"), *GPU, published("s", "d1"), rule().mode("Audit")],
        claiming(),
        Cause.RULE_IN_AUDIT,
        "rule gpu has mode Enforce",
        (Cause.NO_DEVICES,),
    ),
    "a rule that is disabled": lambda: Situation(
        [TAINTED, *GPU, published("s", "d1"), rule().mode("Disabled")],
        claiming(),
        Cause.RULE_NOT_IN_FORCE,
        "rule gpu has mode Enforce",
    ),
    "a rule that does not compile": lambda: Situation(
        [TAINTED, *GPU, published("s", "d1"), rule().cel("claims.exists(")],
        claiming(),
        Cause.RULE_NOT_IN_FORCE,
        "rule gpu gives its tolerations",
    ),
    "a rule that fails": lambda: Situation(
        [TAINTED, *GPU, published("s", "d1"), rule().cel('pod.metadata.labels["x"] == "y"')],
        claiming(),
        Cause.RULE_FAILED,
        "rule gpu gives its tolerations",
    ),
    "a rule that leaves the namespace out": lambda: Situation(
        [TAINTED, *GPU, published("s", "d1"), rule().in_namespaces(team="a")],
        claiming(),
        Cause.RULE_OUT_OF_SCOPE,
        "namespace ml has the label team=a",
    ),
    "a rule that is true and was not applied": lambda: Situation(
        [TAINTED, *GPU, published("s", "d1"), rule()],
        claiming(),
        Cause.RULE_NOT_APPLIED,
        "the toleration of rule gpu is added",
    ),
    "no device matches the selector": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", selectors=selecting(f'{MODEL} == "h100"'))),
            published("s", device("d1", model="a100")),
        ],
        claiming(),
        Cause.NO_DEVICE_MATCHES,
        "claim ml/c, request r0 has no selectors of its own",
    ),
    "no device matches the class": lambda: Situation(
        [
            node("n1"),
            device_class("gpu").selecting('device.driver == "other"'),
            wanting(exactly("r0")),
            published("s", "d1"),
        ],
        claiming(),
        Cause.NO_DEVICE_MATCHES,
        "DeviceClass gpu selects every device",
    ),
    "a selector fails": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", selectors=selecting(f'{MODEL} == "h100"'))),
            published("s", "d1"),
        ],
        claiming(),
        Cause.SELECTOR_FAILED,
        "claim ml/c, request r0 has no selectors of its own",
    ),
    "a selector of the class fails": lambda: Situation(
        [
            node("n1"),
            device_class("gpu").selecting(f'{MODEL} == "h100"'),
            wanting(exactly("r0")),
            published("s", "d1"),
        ],
        claiming(),
        Cause.SELECTOR_FAILED,
        "DeviceClass gpu selects every device",
    ),
    "there are no devices": lambda: Situation([node("n1"), *GPU], claiming(), Cause.NO_DEVICES),
    "there are fewer devices than asked for": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", 2)), published("s", "d1")],
        claiming(),
        Cause.TOO_FEW_DEVICES,
        "claim ml/c, request r0 asks for 1 instead of 2",
    ),
    "there are fewer devices than asked for, and another Pod has one": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", 3)), published("s", "d1", "d2"), HELD],
        claiming(),
        Cause.TOO_FEW_DEVICES,
        "claim ml/c, request r0 asks for 1 instead of 3",
    ),
    "there are fewer devices than asked for, and another Pod has all": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", 2)), published("s", "d1"), HELD],
        claiming(),
        Cause.TOO_FEW_DEVICES,
        "claim ml/c, request r0 asks for 1 instead of 2, and ResourceClaim ml/other gives up its devices",
        (Cause.DEVICE_TAKEN,),
    ),
    "there are fewer devices than two requests ask for": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0"), exactly("r1")), published("s", "d1")],
        claiming(),
        Cause.TOO_FEW_DEVICES,
    ),
    "there are fewer devices than two requests ask for, and another Pod has all": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0"), exactly("r1")), published("s", "d1"), HELD],
        claiming(),
        Cause.TOO_FEW_DEVICES,
    ),
    "another Pod has a device, and the constraint could not be met without it": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", 2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            published("s", device("d1", numa=1), device("d2", numa=2)),
            HELD,
        ],
        claiming(),
        Cause.CONSTRAINT,
        "claim ml/c, request r0 asks for 1 instead of 2",
    ),
    "of two devices that are needed one is free, one is taken, and one is tainted": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", 2)),
            published("s", "d1", "d2", {"name": "d3", "taints": [TAINT]}),
            HELD,
        ],
        claiming(),
        Cause.DEVICE_TAKEN,
        "ResourceClaim ml/other gives up its devices",
    ),
    "the device is taken": lambda: Situation(
        [node("n1"), *GPU, published("s", "d1"), HELD],
        claiming(),
        Cause.DEVICE_TAKEN,
        "ResourceClaim ml/other gives up its devices",
    ),
    "the device is tainted by a rule": lambda: Situation(
        [node("n1"), *GPU, published("s", "d1"), taint_rule("broken", driver=DRIVER)],
        claiming(),
        Cause.DEVICE_TAINTED,
        "DeviceTaintRule broken is gone",
    ),
    "the device is tainted by its driver": lambda: Situation(
        [node("n1"), *GPU, published("s", {"name": "d1", "taints": [TAINT]})],
        claiming(),
        Cause.DEVICE_TAINTED,
        "the driver takes the taint from device d1",
    ),
    "the device is tainted, and a rule is newer than the claim": lambda: Situation(
        [
            node("n1"),
            *GPU,
            published("s", {"name": "d1", "taints": [TAINT]}),
            toleration_rule("cards").cel(WANTS_GPU).giving_devices(TOLERATION),
        ],
        claiming(),
        Cause.DEVICE_TAINTED,
        "the claim made anew, with the tolerations of rule cards",
    ),
    "the device is tainted, and a rule is in Audit": lambda: Situation(
        [
            node("n1"),
            *GPU,
            published("s", {"name": "d1", "taints": [TAINT]}),
            toleration_rule("cards").cel(WANTS_GPU).giving_devices(TOLERATION).mode("Audit"),
        ],
        claiming(),
        Cause.DEVICE_TAINTED,
        "rule cards in force instead of in Audit, the claim made anew, with the tolerations of rule cards",
    ),
    "counters are exhausted": lambda: Situation(
        [
            node("n1"),
            *GPU,
            published("s", consuming(device("d1"), memory="8"), consuming(device("d2"), memory="8")).but(*_OF_TWO),
            published("counters", sharedCounters=[COUNTERS]).but(*_OF_TWO),
            HELD,
        ],
        claiming(),
        Cause.COUNTERS_EXHAUSTED,
        "ResourceClaim ml/other gives up its devices",
    ),
    "capacity is exhausted": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", capacity={"requests": {"memory": "6"}})),
            published("s", shared("d1", memory="10")),
            claim("other").request("gpu").but("status.allocation", allocation(_share("d1", memory="6"))),
        ],
        claiming(),
        Cause.CAPACITY_EXHAUSTED,
        "ResourceClaim ml/other gives up its devices",
    ),
    "the device has too little capacity": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", capacity={"requests": {"memory": "60"}})),
            published("s", device("d1", capacity={"memory": "10"})),
        ],
        claiming(),
        Cause.NO_DEVICE_MATCHES,
        "claim ml/c, request r0 asks for no capacity",
    ),
    "a constraint cannot be met": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            wanting(exactly("r0", 2), constraints=[{"matchAttribute": f"{DRIVER}/numa"}]),
            published("s", device("d1", numa=1), device("d2", numa=2)),
        ],
        claiming(),
        Cause.CONSTRAINT,
        "claim ml/c has no constraints",
    ),
    "the pool is incomplete": lambda: Situation(
        [node("n1"), *GPU, published("s", "d1").but(*_OF_TWO)],
        claiming(),
        Cause.POOL_INCOMPLETE,
        f"what is published of pool {DRIVER}/n1 is all of it",
    ),
    "all devices are asked for, and the pool is incomplete": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", None)), published("s", "d1").but(*_OF_TWO)],
        claiming(),
        Cause.POOL_INCOMPLETE,
    ),
    "all devices are asked for, and the slices of the pool contradict each other": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", None)), published("s", "d1", "d1")],
        claiming(),
        Cause.POOL_INVALID,
    ),
    "more devices are asked for than a claim may have": lambda: Situation(
        [node("n1"), device_class("gpu"), wanting(exactly("r0", 40)), published("s", "d1")],
        claiming(),
        Cause.OTHER_PLUGIN,
    ),
    "the claim is on another Node, which is full": lambda: Situation(
        [
            node("n1"),
            node("n2"),
            device_class("gpu"),
            _on_n1(),
            pod("big").wants({"cpu": "4"}).but("spec.nodeName", "n1"),
        ],
        claiming().wants({"cpu": "2"}),
        Cause.NODE_FULL,
        "Pod ml/big on node n1 ends",
        (Cause.CLAIM_ON_OTHER_NODE,),
    ),
    "a workload pins the claim to a Node that is gone": lambda: Situation(
        [
            node("n2"),
            device_class("gpu"),
            published("s", "d1", node="n2"),
            _on_n1().reserved({"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u"}),
        ],
        claiming(),
        Cause.RESERVATION_PINNED,
        "ResourceClaim ml/c gives up its devices",
    ),
    "the claim is reserved for as many as may be": lambda: Situation(
        [
            node("n1"),
            device_class("gpu"),
            _on_n1().reserved(*({"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(256))),
        ],
        claiming(),
        Cause.RESERVATION_FULL,
        "one of the 256 consumers lets ResourceClaim c go",
    ),
    "the Node is too small": lambda: Situation(
        [node("n1")], pod().wants({"cpu": "8"}), Cause.NODE_TOO_SMALL, "the Pod asks for 4 cpu"
    ),
    "the Node is full": lambda: Situation(
        [
            node("n1"),
            pod("a").wants({"cpu": "1"}).but("spec.nodeName", "n1"),
            pod("b").wants({"cpu": "2"}).but("spec.nodeName", "n1"),
        ],
        pod().wants({"cpu": "2"}),
        Cause.NODE_FULL,
        "Pod ml/b on node n1 ends",
    ),
    "the Nodes are cordoned": lambda: Situation(
        [node("n1", unschedulable=True)], pod(), Cause.NODE_CORDONED, "node n1 is uncordoned"
    ),
    "no Node has the label": lambda: Situation(
        [node("n1")],
        pod().but("spec.nodeSelector", {"disk": "ssd"}),
        Cause.NODE_AFFINITY,
        "node n1 has the label disk=ssd",
    ),
    "the host port is taken": lambda: Situation(
        [node("n1"), _with_port(pod("old")).but("spec.nodeName", "n1")],
        _with_port(pod()),
        Cause.HOST_PORTS,
        "Pod ml/old on node n1 ends",
    ),
    "topology spread": lambda: Situation(
        [node("n1"), node("n2", unschedulable=True), pod("old").labelled(app="a").but("spec.nodeName", "n1")],
        _spread(pod().labelled(app="a")),
        Cause.TOPOLOGY_SPREAD,
        "the Pod's topology spread constraints say ScheduleAnyway",
        (Cause.NODE_CORDONED,),
    ),
    "anti-affinity": lambda: Situation(
        [node("n1"), pod("old").labelled(app="a").but("spec.nodeName", "n1")],
        pod().labelled(app="a").but("spec.affinity", {"podAntiAffinity": _terms("a")}),
        Cause.POD_AFFINITY,
        "the Pod has no Pod affinity and anti-affinity",
    ),
    "the anti-affinity of a Pod that is there": lambda: Situation(
        [
            node("n1"),
            pod("old").but("spec.affinity", {"podAntiAffinity": _terms("a")}).but("spec.nodeName", "n1"),
        ],
        pod().labelled(app="a"),
        Cause.POD_AFFINITY,
        "Pod ml/old on node n1 ends",
    ),
    "a volume claim is missing": lambda: Situation(
        [node("n1")],
        pod().but("spec.volumes", [DATA]),
        Cause.VOLUMES,
        "PersistentVolumeClaim data exists, bound to a volume",
    ),
    "a volume claim has no volume": lambda: Situation(
        [node("n1"), _volume_claim("data")],
        pod().but("spec.volumes", [DATA]),
        Cause.VOLUMES,
        "PersistentVolumeClaim data is bound to a volume",
    ),
    "one volume claim is missing, and one has no volume": lambda: Situation(
        [node("n1"), _volume_claim("data")],
        pod().but("spec.volumes", [DATA, {"name": "w", "persistentVolumeClaim": {"claimName": "more"}}]),
        Cause.VOLUMES,
        "PersistentVolumeClaim data is bound to a volume, and PersistentVolumeClaim more exists, bound to a volume",
    ),
    "two causes at once: a taint, and the device behind it is taken": lambda: Situation(
        [TAINTED, node("n2"), *GPU, published("s", "d1"), HELD],
        claiming(),
        Cause.UNTOLERATED_TAINT,
        "the Pod tolerates example.com/gpu=true:NoSchedule, and ResourceClaim ml/other gives up its devices",
        (Cause.DEVICE_TAKEN, Cause.NO_DEVICES),
    ),
    "two causes at once: a foreign gate, and no room": lambda: Situation(
        [node("n1")],
        pod().gated("example.com/quota").wants({"cpu": "8"}),
        Cause.FOREIGN_GATE,
        "scheduling gate example.com/quota is removed, and the Pod asks for 4 cpu",
        (Cause.NODE_TOO_SMALL,),
    ),
    "two causes at once: a foreign gate, and a claim is missing": lambda: Situation(
        [node("n1")],
        claiming().gated("example.com/quota"),
        Cause.FOREIGN_GATE,
        "scheduling gate example.com/quota is removed, and ResourceClaim c exists, and asks for nothing",
        (Cause.CLAIM_MISSING,),
    ),
    "two causes at once: two foreign gates, and Tollbar's, which no controller takes off": lambda: Situation(
        [node("n1"), *GPU, rule(), published("s", "d1")],
        claiming().gated("tollbar.dev/tolerations", "example.com/a", "example.com/b"),
        Cause.NO_CONTROLLER,
        "Tollbar releases the Pod, and 2 scheduling gates (example.com/a, example.com/b) are removed",
        (Cause.FOREIGN_GATE, Cause.FOREIGN_GATE),
    ),
    "there are no Nodes": lambda: Situation([], pod(), Cause.NO_NODES),
    "nobody serves the scheduler's name": lambda: Situation(
        [node("n1")], pod().but("spec.schedulerName", "mine"), Cause.NO_SCHEDULER, "the Pod names default-scheduler"
    ),
    "the scheduler does not look at the Pod": lambda: Situation([node("n1")], pod(), Cause.NO_SCHEDULER),
    "it fits by now": lambda: Situation(
        [node("n1")],
        pod().but(
            "status.conditions",
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}],
        ),
        Cause.SCHEDULER_BEHIND,
    ),
    "it has a Node": lambda: Situation([node("n1")], pod().but("spec.nodeName", "n1"), Cause.RUNNING),
    "it is being deleted": lambda: Situation([node("n1")], pod().deleting(), Cause.ENDED),
}


def _volume_claim(name: str) -> Object:
    meta = {"name": name, "namespace": "ml"}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": meta, "spec": {"storageClassName": ""}}


def _share(name: str, **consumed: str) -> Object:
    return whole(name, shareID="s1", consumedCapacity=consumed)


def _on_n1() -> Any:
    return wanting(exactly("r0")).but("status.allocation", {**allocation("d1"), "nodeSelector": ON_N1})


def _with_port(given: Any) -> Any:
    return given.but("spec.containers", [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}])


def _terms(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _spread(given: Any) -> Any:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
    }
    return given.but("spec.topologySpreadConstraints", [constraint])
