"""Which devices claims get: every feature of Dynamic Resource Allocation that is on by default, on one Node.

kube-scheduler is the judge.  A row publishes the devices of a driver of its own, and makes one Pod after the other with
a claim each.  The first claim of a row gets its devices, so the scheduler knows the slices when it answers the others.
"""

import json
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from contract.api import Api, until
from contract.objects import made, pod
from contract.tables import Rows, newer, rows

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.nodes import NodeSpec
from tollbar.model.objects import Object
from tollbar.model.resources import DEVICE_CLASSES, NAMESPACES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tollbar.runtime.client import PatchType

DOMAIN = "contract.example.com"
ZONE = f"{DOMAIN}/zone"


@pytest.fixture(scope="module", autouse=True)
def node(contracted: Any) -> Iterator[str]:
    """The only Node."""
    name = f"contract-{uuid.uuid4().hex[:10]}"
    with BackgroundKubelet(contracted.kubeconfig) as kubelet:
        kubelet.add_node(NodeSpec(name, {ZONE: "a"}))
        yield name


def device(name: str, *, model: str = "x", **more: Any) -> Object:
    return {"name": name, "attributes": {f"{DOMAIN}/model": {"string": model}}, **more}


def request(count: int | None = 1, *, model: str = "", name: str = "r", **more: Any) -> Object:
    """For so many devices, of a model if one is given; None is for all."""
    wanted: Object = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    if model:
        wanted["selectors"] = selecting(f"device.attributes['{DOMAIN}'].model == '{model}'")
    return {"name": name, "exactly": {**wanted, **more}}


def selecting(expression: str) -> list[Object]:
    return [{"cel": {"expression": expression}}]


def first_available(**counts: int) -> Object:
    alternatives = [{"name": name, "allocationMode": "ExactCount", "count": count} for name, count in counts.items()]
    return {"name": "r", "firstAvailable": alternatives}


def claim(*requests: Object, **more: Any) -> Object:
    """`spec.devices` of a claim."""
    return {"requests": list(requests or [request()]), **more}


class Trial:
    """The devices of a driver that nobody else has, and Pods with claims for them.

    All names are new, because a scheduler may remember what had them before.
    """

    def __init__(self, api: Api, slices: Sequence[Object], **device_class: Any) -> None:
        """`slices` are lists of devices, or more of the spec, each a slice of one pool."""
        self.api = api
        self.name = f"trial-{uuid.uuid4().hex[:10]}"
        self.driver = f"{self.name}.{DOMAIN}"
        self.pods = 0
        for number, each in enumerate(slices):
            body = {
                "driver": self.driver,
                "pool": {"name": "pool", "generation": 1, "resourceSliceCount": len(slices)},
                **({} if each.keys() & {"nodeName", "nodeSelector"} else {"allNodes": True}),
                **each,
            }
            api.create(made(RESOURCE_SLICES, f"{self.driver}-{number}", spec=body)).accepted()
        body = {"selectors": selecting(f"device.driver == '{self.driver}'"), **device_class}
        api.create(made(DEVICE_CLASSES, self.driver, spec=body)).accepted()

    def start(self, wanted: Object) -> str:
        """Make a Pod with a claim, both of this name."""
        name, self.pods = f"{self.name}-{self.pods}", self.pods + 1
        devices = {**wanted, "requests": [self._of_class(each) for each in wanted["requests"]]}
        self.api.create(made(RESOURCE_CLAIMS, name, spec={"devices": devices})).accepted()
        references = [{"name": "devices", "resourceClaimName": name}]
        self.api.create(pod(name=name, schedulerName="default-scheduler", resourceClaims=references)).accepted()
        return name

    def _of_class(self, wanted: Object) -> Object:
        """The request with the class of these devices, where it names no other."""
        if "exactly" in wanted:
            return {**wanted, "exactly": {"deviceClassName": self.driver, **wanted["exactly"]}}
        alternatives = [{"deviceClassName": self.driver, **each} for each in wanted["firstAvailable"]]
        return {**wanted, "firstAvailable": alternatives}

    def claim(self, name: str) -> Object:
        return dict(self.api.get(RESOURCE_CLAIMS, name).accepted().object)

    def devices(self, name: str) -> Any:
        """Request and device of each result, and what it consumes of a shared one; None without an allocation."""
        allocation = (self.claim(name).get("status") or {}).get("allocation")
        return allocation and [
            (each["request"], each["device"], *(each.get("consumedCapacity") or {}).values())
            for each in allocation["devices"]["results"]
        ]

    def reason(self, name: str) -> str:
        """Why the Pod is not scheduled, without what preemption has to say about it."""
        for each in self.api.get(PODS, name)["status.conditions"] or ():
            if each["type"] == "PodScheduled" and each["status"] == "False":
                if each["reason"] == "Unschedulable":
                    return str(each["message"].partition(". ")[0].removesuffix("."))
                said = f"{each['reason']}: {each['message']}"
                return said.replace(self.name, "TRIAL").replace(self.api.namespace, "NAMESPACE")
        return ""

    def given(self, wanted: Object) -> Any:
        """The devices that a claim gets once the scheduler knows them."""
        name = self.start(wanted)
        until(lambda: self.api.get(PODS, name)["spec.nodeName"], f"{name} is bound")
        return self.devices(name)

    def outcome(self, wanted: Object) -> Any:
        """The devices that a claim gets, or why it gets none."""
        name = self.start(wanted)
        until(lambda: self.api.get(PODS, name)["spec.nodeName"] or self.reason(name), f"{name} was tried")
        return self.devices(name) or self.reason(name)


def outcomes(slices: Sequence[Object], *claims: Object) -> Any:
    """What becomes of the claims, one after the other."""

    def attempt(api: Api) -> list[Any]:
        trial = Trial(api, slices)
        return [trial.given(claims[0]), *map(trial.outcome, claims[1:])]

    return attempt


def allocation(slice_: Object, wanted: Object, **device_class: Any) -> Any:
    """The allocation of a claim, without its results and the time, with NODE for the name of the Node."""

    def attempt(api: Api) -> Any:
        trial = Trial(api, [slice_], **device_class)
        trial.given(wanted)
        node = api.get(PODS, f"{trial.name}-0")["spec.nodeName"]
        written = trial.claim(f"{trial.name}-0")["status"]["allocation"]
        del written["devices"]["results"]
        written.pop("allocationTimestamp", None)
        text = json.dumps({key: value for key, value in written.items() if value})
        return json.loads(text.replace(node, "NODE"))

    return attempt


def on_the_node(api: Api) -> Any:
    """Of devices that the Node alone can reach."""
    (node,) = [each for each in api.names(NODES) if each.startswith("contract-")]
    return allocation({"nodeName": node, "devices": [device("a")]}, claim())(api)


def invalid(api: Api) -> str:
    """Two devices of one name are an invalid pool, once both slices are known."""
    trial = Trial(api, [{"devices": [device("a")]}, {"devices": [device("a")]}])
    name = trial.start(claim())
    until(lambda: "invalid" in trial.reason(name), "the pool is invalid")
    return trial.reason(name)


def watching(api: Api) -> Any:
    """A claim with admin access for a device that another claim has."""
    labels = {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}
    api.request("PATCH", NAMESPACES.path("", api.namespace), labels, content_type=PatchType.MERGE.value).accepted()
    return outcomes([{"devices": [device("a")]}], claim(), claim(request(adminAccess=True)), claim())(api)


def written(api: Api) -> Any:
    """Finalizers, reservations and the members of the status that a scheduler writes."""
    trial = Trial(api, [{"devices": [device("a")]}])
    trial.given(claim())
    found = trial.claim(f"{trial.name}-0")
    users = [(each["resource"], each["name"].replace(trial.name, "TRIAL")) for each in found["status"]["reservedFor"]]
    return found["metadata"]["finalizers"], users, sorted(found["status"]), sorted(found["status"]["allocation"])


def of_two_classes(api: Api) -> Any:
    """The devices that a Pod gets for an extended resource which two classes stand for.

    The class created last is also the first by name, because the API server counts seconds.
    """
    trial = Trial(api, [{"devices": [device("a"), device("b", model="y"), device("c", model="y")]}])
    resource, later = f"{trial.driver}/card", f"a-{trial.driver}"
    for name, model in ((f"z-{trial.driver}", "x"), (later, "y")):
        expression = f"device.driver == '{trial.driver}' && device.attributes['{DOMAIN}'].model == '{model}'"
        spec = {"selectors": selecting(expression), "extendedResourceName": resource}
        api.create(made(DEVICE_CLASSES, name, spec=spec)).accepted()
    taken = trial.given(claim(request(deviceClassName=later)))
    container = {"name": "main", "image": "none", "resources": {"limits": {resource: "1"}}}
    name = f"{trial.name}-extended"
    api.create(pod(name=name, schedulerName="default-scheduler", containers=[container])).accepted()
    until(lambda: api.get(PODS, name)["spec.nodeName"], f"{name} is bound")
    made_for_it = api.get(PODS, name)["status.extendedResourceClaimStatus.resourceClaimName"]
    return [given for _, given in (*taken, *trial.devices(made_for_it))]


def opaque(owner: str) -> Object:
    return {"opaque": {"driver": "any.example.com", "parameters": {"of": owner}}}


NONE = "0/1 nodes are available: 1 cannot allocate all claims"
MODELS = [{"devices": [device("a"), device("b", model="y"), device("c")]}]
ONE_MODEL = [{"matchAttribute": f"{DOMAIN}/model"}]
PAIR = [{"devices": [device("a"), device("b")]}]
TAINT = {"key": DOMAIN, "value": "broken", "effect": "NoSchedule"}
TOLERATION = {"key": DOMAIN, "operator": "Exists", "effect": "NoSchedule"}
ZONES = {"key": ZONE, "operator": "In", "values": ["a", "b"]}


def consuming(amount: str) -> Object:
    return {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": amount}}}]}


CARD = [
    {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]},
    {
        "devices": [
            device("half-1", model="half", **consuming("20Gi")),
            device("half-2", model="half", **consuming("20Gi")),
            device("whole", model="whole", **consuming("40Gi")),
        ]
    },
]
SHARED = [
    {"devices": [device("a", allowMultipleAllocations=True, capacity={"memory": {"value": "10Gi"}})]},
]


def share(amount: str) -> Object:
    return claim(request(capacity={"requests": {"memory": amount}}))


SELECTOR_FAILS = (
    'SchedulerError: running "DynamicResources" filter plugin: claim NAMESPACE/TRIAL-1: selector #0 on device '
    f"TRIAL.{DOMAIN}/pool/b: CEL runtime error: no such key: none. consider using CEL optional chaining (.? followed "
    "by orValue()) or guarding the check with has() for optional fields"
)
DEVICES: Rows = {
    "the devices of a slice are given in their order": (
        outcomes(PAIR, claim(), claim(), claim()),
        [[("r", "a")], [("r", "b")], NONE],
    ),
    "a selector": (outcomes(MODELS, claim(request(model="y")), claim(request(model="y"))), [[("r", "b")], NONE]),
    "two devices of one model": (
        outcomes(MODELS, claim(request(2), constraints=ONE_MODEL), claim(request(), request(name="s"))),
        [[("r", "a"), ("r", "c")], NONE],
    ),
    "a constraint on two requests": (
        outcomes(MODELS, claim(request(), request(name="s"), constraints=ONE_MODEL)),
        [[("r", "a"), ("s", "c")]],
    ),
    "devices of different models": newer(
        "1.36",
        "consumable capacity is off",
        outcomes(MODELS, claim(request(2), constraints=[{"distinctAttribute": f"{DOMAIN}/model"}])),
        [[("r", "a"), ("r", "b")]],
    ),
    "the first alternative that can be had": (
        outcomes(PAIR, claim(first_available(many=3, one=1)), claim(first_available(many=3, two=2))),
        [[("r/one", "a")], NONE],
    ),
    "all devices": (outcomes(PAIR, claim(request(None))), [[("r", "a"), ("r", "b")]]),
    "all devices, one of which is held": (outcomes(PAIR, claim(), claim(request(None))), [[("r", "a")], NONE]),
    "partitions of a device": newer(
        "1.36",
        "partitionable devices are off",
        outcomes(
            CARD, claim(request(model="half")), claim(request(model="whole")), claim(request(model="half")), claim()
        ),
        [[("r", "half-1")], NONE, [("r", "half-2")], NONE],
    ),
    "two claims share a device, as far as it goes": newer(
        "1.36",
        "consumable capacity is off",
        outcomes(SHARED, share("6Gi"), share("6Gi"), share("4Gi")),
        [[("r", "a", "6Gi")], NONE, [("r", "a", "4Gi")]],
    ),
    "a tainted device is for those who tolerate it": newer(
        "1.36",
        "taints of devices are off",
        outcomes(
            [{"devices": [device("a", taints=[TAINT]), device("b")]}],
            claim(),
            claim(),
            claim(request(tolerations=[TOLERATION])),
        ),
        [[("r", "b")], NONE, [("r", "a")]],
    ),
    "a device that a claim with admin access looks at": newer(
        "1.36", "admin access is not settled", watching, [[("r", "a")], [("r", "a")], NONE]
    ),
    "an invalid pool": newer(
        "1.36",
        "partitionable devices are off",
        invalid,
        "0/1 nodes are available: 1 invalid resource pools were encountered",
    ),
    "an extended resource that two classes stand for is of the one created last": newer(
        "1.36", "extended resources are off", of_two_classes, ["b", "c"]
    ),
    "a class that does not exist": (
        outcomes(PAIR, claim(), claim(request(deviceClassName="none"))),
        [[("r", "a")], "0/1 nodes are available: request r: device class none does not exist"],
    ),
    "a selector that fails": newer(
        "1.37",
        "other words",
        outcomes(PAIR, claim(), claim(request(selectors=selecting(f"device.attributes['{DOMAIN}'].none == 'x'")))),
        [
            [("r", "a")],
            SELECTOR_FAILS,
        ],
    ),
}


@rows(DEVICES)
def test_which_devices_claims_get(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == want


ALLOCATIONS: Rows = {
    "devices that every Node can reach": (allocation(PAIR[0], claim()), {}),
    "devices that one Node can reach": (
        on_the_node,
        {
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["NODE"]}]}]
            }
        },
    ),
    "devices that some Nodes can reach": (
        allocation({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONES]}]}, **PAIR[0]}, claim()),
        {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [ZONES]}]}},
    ),
    "configuration of class and claim": (
        allocation(
            PAIR[0],
            claim(request(), request(name="s"), config=[{"requests": ["s"], **opaque("claim")}]),
            config=[opaque("class")],
        ),
        {
            "devices": {
                "config": [
                    {"source": "FromClass", **opaque("class")},
                    {"source": "FromClaim", "requests": ["s"], **opaque("claim")},
                ]
            }
        },
    ),
}


@rows(ALLOCATIONS)
def test_what_an_allocation_says(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == want


@rows(
    {
        "a claim that a Pod has got": newer(
            "1.36",
            "no time is written",
            written,
            (
                ["resource.kubernetes.io/delete-protection"],
                [("pods", "TRIAL-0")],
                ["allocation", "reservedFor"],
                ["allocationTimestamp", "devices"],
            ),
        )
    }
)
def test_what_the_scheduler_writes(api: Api, attempt: Any, want: Any) -> None:
    assert attempt(api) == want
