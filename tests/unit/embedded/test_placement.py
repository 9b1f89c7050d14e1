"""Where the embedded plane's binder puts a Pod, and which devices it gives to its claims."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from tollbar.devplane.embedded.placement import place
from tollbar.devplane.embedded.storage import Delta
from tollbar.devplane.embedded.world import Placement, World
from tollbar.devplane.nodes import NodeSpec, node
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Key, Object
from tollbar.model.resources import DEVICE_CLASSES, NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

TAINT = {"key": "example.com/gpu", "value": "true", "effect": "NoSchedule"}
DRIVER = "gpu.example.com"
CLASS: Object = {
    "metadata": {"name": DRIVER},
    "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]},
}
PLAIN, RESERVED = node(NodeSpec("plain", {"zone": "a"}), 0), node(NodeSpec("reserved", {"zone": "b"}, (TAINT,)), 0)
SMALL = node(NodeSpec("small", capacity={"cpu": "1", "pods": "1", "example.com/card": "2"}), 0)
UNREADY: Object = {**node(NodeSpec("unready"), 0), "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
TOLERATION = {"key": "example.com/gpu", "operator": "Exists"}


def pod(requests: Object | None = None, **spec: Any) -> Object:
    return {"metadata": {"name": "web"}, "spec": {"containers": [{"resources": {"requests": requests or {}}}], **spec}}


def world(*nodes: Object, slices: Sequence[Object] = (), taken: Iterable[DeviceId] = ()) -> World:
    """With one class; what is taken belongs to a claim of somebody else."""
    made = World()
    for each in nodes:
        made.observe(NODES, Delta(Key("", each["metadata"]["name"]), None, each))
    for number, each in enumerate(slices):
        made.observe(RESOURCE_SLICES, Delta(Key("", str(number)), None, each))
    made.observe(DEVICE_CLASSES, Delta(Key("", DRIVER), None, CLASS))
    others = {"status": {"allocation": {"devices": {"results": [each._asdict() for each in taken]}}}}
    made.observe(RESOURCE_CLAIMS, Delta(Key("other", "claim"), None, others))
    return made


def affine(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> Object:
    return {"key": key, "operator": operator, "values": list(values)}


UNTOLERATED = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
UNSELECTED = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
PLACES: dict[str, tuple[Object, list[Object], str]] = {
    "the first that will do": (pod(), [PLAIN, SMALL], "plain"),
    "none at all": (pod(), [], "no nodes available to schedule pods"),
    "not one that is not ready": (pod(), [UNREADY, PLAIN], "plain"),
    "not one that is cordoned": (pod(), [{**PLAIN, "spec": {"unschedulable": True}}, SMALL], "small"),
    "a taint": (pod(), [RESERVED], UNTOLERATED),
    "a taint that is tolerated": (pod(tolerations=[TOLERATION]), [RESERVED], "reserved"),
    "a taint that is tolerated by its value": (
        pod(tolerations=[{**TOLERATION, "operator": "Equal", "value": "true"}]),
        [RESERVED],
        "reserved",
    ),
    "a taint of another value": (
        pod(tolerations=[{**TOLERATION, "operator": "Equal", "value": "x"}]),
        [RESERVED],
        UNTOLERATED,
    ),
    "a taint that is tolerated for another effect": (
        pod(tolerations=[{**TOLERATION, "effect": "NoExecute"}]),
        [RESERVED],
        UNTOLERATED,
    ),
    "a taint among all that are tolerated": (pod(tolerations=[{"operator": "Exists"}]), [RESERVED], "reserved"),
    "a taint that only prefers": (
        pod(),
        [{**PLAIN, "spec": {"taints": [{**TAINT, "effect": "PreferNoSchedule"}]}}],
        "plain",
    ),
    "a node selector": (pod(nodeSelector={"zone": "b"}), [PLAIN], UNSELECTED),
    "a node selector that fits": (pod(nodeSelector={"zone": "a"}), [SMALL, PLAIN], "plain"),
    "one of two required terms": (
        pod(
            affinity=affine(
                {"matchExpressions": [expression("zone", "In", "x")]},
                {"matchExpressions": [expression("zone", "Exists")]},
            )
        ),
        [PLAIN],
        "plain",
    ),
    "a required name": (
        pod(affinity=affine({"matchFields": [expression("metadata.name", "In", "small")]})),
        [PLAIN, SMALL],
        "small",
    ),
    "an empty term": (pod(affinity=affine({})), [PLAIN], UNSELECTED),
    "more than there is": (pod({"cpu": "1500m"}), [SMALL], "0/1 nodes are available: 1 Insufficient cpu."),
    "exactly what there is": (pod({"example.com/card": "2"}), [SMALL], "small"),
    "a resource that is not there": (
        pod({"example.com/card": "1"}),
        [PLAIN],
        "0/1 nodes are available: 1 Insufficient example.com/card.",
    ),
    "several reasons": (
        pod({"cpu": "2"}),
        [RESERVED, SMALL],
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).",
    ),
}


@pytest.mark.parametrize(("given", "nodes", "want"), PLACES.values(), ids=PLACES)
def test_where_a_pod_goes(given: Object, nodes: list[Object], want: str) -> None:
    found = place(given, [], world(*nodes))
    assert (found.node if isinstance(found, Placement) else found) == want


def test_a_placed_pod_counts_before_it_is_bound() -> None:
    busy = world(SMALL)
    busy.assume(pod(), Placement("small", {}))
    assert place({**pod(), "metadata": {"name": "other"}}, [], busy) == "0/1 nodes are available: 1 Too many pods."


def resource_slice(*devices: Object, generation: int = 1, **place_: Any) -> Object:
    spec = {"driver": DRIVER, "pool": {"name": "pool", "generation": generation}, "devices": list(devices)}
    return {"spec": {**spec, **(place_ or {"allNodes": True})}}


def device(name: str, **attributes: Object) -> Object:
    return {"name": name, "attributes": attributes}


def known(*names: str) -> set[DeviceId]:
    return {DeviceId(DRIVER, "pool", name) for name in names}


def request(name: str = "r", **exactly: Any) -> Object:
    wanted = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1, **exactly}
    return {"name": name, "exactly": wanted}


def claim(*requests: Object, name: str = "c", **more: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": list(requests), **more}}}


def selector(expression_: str) -> list[Object]:
    return [{"cel": {"expression": expression_}}]


TWO = [resource_slice(device("a", model={"string": "x"}), device("b", model={"string": "y"}))]
DEVICES: dict[str, tuple[list[Object], list[Object], set[DeviceId], dict[str, list[tuple[str, str]]] | None]] = {
    "the first": ([claim(request())], TWO, set(), {"c": [("r", "a")]}),
    "the first that is free": ([claim(request())], TWO, known("a"), {"c": [("r", "b")]}),
    "none is free": ([claim(request())], TWO, known("a", "b"), None),
    "two of two": ([claim(request(count=2))], TWO, set(), {"c": [("r", "a"), ("r", "b")]}),
    "three of two": ([claim(request(count=3))], TWO, set(), None),
    "all": ([claim(request(allocationMode="All", count=0))], TWO, set(), {"c": [("r", "a"), ("r", "b")]}),
    "all, of which one is taken": ([claim(request(allocationMode="All", count=0))], TWO, known("b"), None),
    "two requests get two": ([claim(request("r"), request("s"))], TWO, set(), {"c": [("r", "a"), ("s", "b")]}),
    "two claims get two": (
        [claim(request()), claim(request(), name="d")],
        TWO,
        set(),
        {"c": [("r", "a")], "d": [("r", "b")]},
    ),
    "a selector": (
        [claim(request(selectors=selector("device.attributes['gpu.example.com'].model == 'y'")))],
        TWO,
        set(),
        {"c": [("r", "b")]},
    ),
    "a selector that fails on every device": (
        [claim(request(selectors=selector("device.attributes['gpu.example.com'].none == 'y'")))],
        TWO,
        set(),
        None,
    ),
    "a class that does not exist": ([claim(request(deviceClassName="none"))], TWO, set(), None),
    "the first alternative that can be had": (
        [
            claim(
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "many", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 3},
                        {"name": "one", "deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": 1},
                    ],
                }
            )
        ],
        TWO,
        set(),
        {"c": [("r/one", "a")]},
    ),
    "constraints are not understood": (
        [claim(request(), constraints=[{"matchAttribute": "gpu.example.com/model"}])],
        TWO,
        set(),
        None,
    ),
    "only the newest generation of a pool": (
        [claim(request())],
        [resource_slice(device("old")), resource_slice(device("new"), generation=2)],
        set(),
        {"c": [("r", "new")]},
    ),
    "not those of another Node": ([claim(request())], [resource_slice(device("a"), nodeName="other")], set(), None),
    "nothing for a claim that has something": (
        [{**claim(request()), "status": {"allocation": {"devices": {"results": []}}}}],
        TWO,
        set(),
        {},
    ),
}


@pytest.mark.parametrize(("given", "slices", "taken", "want"), DEVICES.values(), ids=DEVICES)
def test_which_devices_a_claim_gets(
    given: list[Object], slices: list[Object], taken: set[DeviceId], want: dict[str, list[tuple[str, str]]] | None
) -> None:
    found = place(pod(), given, world(PLAIN, slices=slices, taken=taken))
    chosen = isinstance(found, Placement) and {
        name: [(each["request"], each["device"]) for each in allocation["devices"]["results"]]
        for name, allocation in found.allocations.items()
    }
    assert chosen == (False if want is None else want)


def test_devices_of_a_node_bind_the_claim_to_it() -> None:
    local = resource_slice(device("a"), nodeName="plain")
    found = place(pod(), [claim(request())], world(PLAIN, slices=[local]))
    assert isinstance(found, Placement)
    held = {**claim(request()), "status": {"allocation": found.allocations["c"]}}
    assert place(pod(), [held], world(SMALL)) == UNSELECTED


def test_requests_are_counted_exactly_and_freed_when_the_pod_has_finished() -> None:
    busy = world(SMALL)
    there = {**pod({"cpu": "999m"}, nodeName="small"), "metadata": {"name": "there"}}
    plenty = node(NodeSpec("small", capacity={"cpu": "1"}), 0)
    busy.observe(NODES, Delta(Key("", "small"), SMALL, plenty))
    busy.observe(PODS, Delta(Key("", "there"), None, there))
    before = [place(pod({"cpu": amount}), [], busy) for amount in ("1m", "2m")]
    freed = busy.observe(PODS, Delta(Key("", "there"), there, {**there, "status": {"phase": "Succeeded"}}))
    assert (before, freed, place(pod({"cpu": "1"}), [], busy)) == (
        [Placement("small", {}), "0/1 nodes are available: 1 Insufficient cpu."],
        True,
        Placement("small", {}),
    )
