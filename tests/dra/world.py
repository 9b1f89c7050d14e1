"""Scheduling cycles for the allocator of devices: a cluster, what is allocated in it, and the claims of a Pod.

Objects are as the API server stores them, with its defaults.  Given a seed, what is left open is random.
"""

import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from tollbar.model.objects import Object

GPU: Final = "gpu.example.com"
NIC: Final = "nic.example.com"
OURS: Final = f'device.attributes["{GPU}"]'
NAMESPACE: Final = "ml"

DEFAULTS: Final[Mapping[str, bool]] = dict.fromkeys(
    ("AdminAccess", "ConsumableCapacity", "DeviceBindingAndStatus", "DeviceTaints", "FractionalCapacityRange",
     "PartitionableDevices", "PrioritizedList"), True) | {"ListTypeAttributes": False}  # fmt: skip
"""The features that problems switch, as Kubernetes 1.37 has them."""


@dataclass(slots=True)
class Problem:
    """The claims of a Pod, and the cluster in which they are to be allocated; `features` differ from the defaults."""

    family: str = ""
    seed: int = 0
    features: dict[str, bool] = field(default_factory=dict)
    nodes: list[Object] = field(default_factory=list)
    claims: list[Object] = field(default_factory=list)
    classes: list[Object] = field(default_factory=list)
    slices: list[Object] = field(default_factory=list)
    allocated: list[Object] = field(default_factory=list)

    def request(self) -> Object:
        """For `Oracle.allocate`."""
        return {
            "features": self.features,
            "nodes": self.nodes,
            "claims": self.claims,
            "classes": self.classes,
            "slices": self.slices,
            "allocated": self.allocated,
        }


def ask(class_name: str = "any", count: int | None = 1, selectors: Iterable[str] = (), **more: Any) -> Object:
    """What one request asks for; without a count it is all devices."""
    how: Object = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount", "count": count}
    if found := [{"cel": {"expression": each}} for each in selectors]:
        how["selectors"] = found
    return {"deviceClassName": class_name, **how, **more}


def exactly(name: str, *given: Any, **more: Any) -> Object:
    return {"name": name, "exactly": ask(*given, **more)}


def first_of(name: str, *alternatives: Object) -> Object:
    return {
        "name": name,
        "firstAvailable": [{"name": f"s{number}", **each} for number, each in enumerate(alternatives)],
    }


def here(node: str) -> Object:
    return {"nodeName": node}


def where(key: str, operator: str, *values: str) -> Object:
    """A NodeSelector with one term."""
    requirement = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    return {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}


EVERYWHERE: Final[Object] = {"allNodes": True}
PER_DEVICE: Final[Object] = {"perDeviceNodeSelection": True}

ATTRIBUTES: Final[Mapping[str, Sequence[Object]]] = {
    "model": [{"string": each} for each in "abc"],
    "numa": [{"int": each} for each in (0, 1)],
    "ecc": [{"bool": each} for each in (False, True)],
    "firmware": [{"version": each} for each in ("1.0.0", "1.2.0", "2.0.0-rc.1")],
    "example.com/root": [{"string": each} for each in ("r0", "r1", "r2")],
    f"{GPU}/slot": [{"int": each} for each in (0, 1, 2)],
}
QUALIFIED: Final = (*(f"{GPU}/{name}" for name in ("model", "numa", "ecc", "firmware", "slot")), "example.com/root")
"""Names of attributes in constraints."""


class World:
    """A problem in the making."""

    def __init__(self, rng: random.Random | None = None) -> None:
        self.rng = rng or random.Random(0)
        self.problem = Problem()
        self._slices = 0
        for name, driver in (("any", ""), ("gpu", GPU), ("nic", NIC)):
            self.device_class(name, *([f'device.driver == "{driver}"'] if driver else ()))

    def maybe(self, share: float) -> bool:
        return self.rng.random() < share

    def some(self, given: Sequence[Any], least: int = 0) -> list[Any]:
        """Some of them, in their order."""
        chosen = self.rng.sample(range(len(given)), self.rng.randint(min(least, len(given)), len(given)))
        return [given[index] for index in sorted(chosen)]

    def nodes(self, least: int = 1, most: int = 3) -> list[str]:
        """Names of new Nodes, each with a label for its zone and one for its rank."""
        names = [f"node-{number}" for number in range(self.rng.randint(least, most))]
        for number, name in enumerate(names):
            labels = {"zone": self.rng.choice("ab"), "rank": str(number)}
            self.problem.nodes.append({"metadata": {"name": name, "labels": labels}})
        return names

    def device_class(self, name: str, *selectors: str, config: Sequence[Object] = ()) -> None:
        spec: Object = {"selectors": [{"cel": {"expression": each}} for each in selectors]} if selectors else {}
        if config:
            spec["config"] = list(config)
        self.problem.classes.append({"metadata": {"name": name}, "spec": spec})

    def claim(
        self, requests: Sequence[Object], constraints: Sequence[Object] = (), config: Sequence[Object] = ()
    ) -> None:
        devices: Object = {"requests": list(requests)} if requests else {}
        if constraints:
            devices["constraints"] = list(constraints)
        if config:
            devices["config"] = list(config)
        name = f"claim-{len(self.problem.claims)}"
        self.problem.claims.append({"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {"devices": devices}})

    def slice(self, driver: str, pool: str, place: Object, count: int, generation: int = 1, **content: Any) -> Object:
        """A ResourceSlice, whose name says nothing about its place in the list."""
        name = f"{self.rng.choice(('a', 'b.', 'm', 'z-'))}{self._slices}"
        self._slices += 1
        body = {"name": pool, "generation": generation, "resourceSliceCount": count}
        made: Object = {
            "metadata": {"name": name},
            "spec": {"driver": driver, "pool": body, **place, **{key: each for key, each in content.items() if each}},
        }
        self.problem.slices.append(made)
        return made

    def pool(
        self, driver: str, name: str, place: Object, devices: Sequence[Object], counters: Sequence[Object] = ()
    ) -> None:
        """A whole pool of one or more slices, all for the same Nodes."""
        parts = self.parts(devices)
        count = len(parts) + bool(counters)
        if counters:
            shared = here(place["nodeName"]) if "nodeName" in place else EVERYWHERE
            self.slice(driver, name, shared, count, sharedCounters=list(counters))
        for part in parts:
            self.slice(driver, name, place, count, devices=part)

    def parts(self, devices: Sequence[Object]) -> list[list[Object]]:
        """The devices in one to three parts."""
        cuts = sorted(self.rng.randint(0, len(devices)) for _ in range(self.rng.choice((0, 0, 0, 1, 2))))
        edges = [0, *cuts, len(devices)]
        return [list(devices[start:end]) for start, end in pairwise(edges)]

    def fleet(self, least: int = 2, most: int = 6, nodes: tuple[int, int] = (1, 3), missing: float = 0.0) -> None:
        """Nodes, each with a pool of GPUs, and now and then network-attached ones."""
        names = self.nodes(*nodes)
        for name in names:
            devices = [self.device(number, missing) for number in range(self.rng.randint(least, most))]
            self.pool(GPU, name, here(name), devices)
        if self.maybe(0.3):
            place = self.rng.choice((EVERYWHERE, {"nodeSelector": where("zone", "In", "a")}))
            self.pool(NIC, "fabric", place, [self.device(number) for number in range(self.rng.randint(1, 2))])

    def device(self, number: int, missing: float = 0.0, **more: Any) -> Object:
        """A device with most of the attributes, less this share of them."""
        attributes = {
            name: self.rng.choice(values)
            for name, values in ATTRIBUTES.items()
            if missing == 0 or not self.maybe(missing)
        }
        return {"name": f"dev-{number}", **({"attributes": attributes} if attributes else {}), **more}

    def devices(self) -> Iterator[tuple[Object, Object]]:
        """All slices' specs with each of their devices."""
        for each in self.problem.slices:
            for device in each["spec"].get("devices") or ():
                yield each["spec"], device

    def hold(self, share: float, admin: float = 0.1) -> None:
        """Let other claims hold this share of the devices."""
        for spec, device in self.devices():
            if self.maybe(share):
                self.hold_device(spec, device, **({"adminAccess": True} if self.maybe(admin) else {}))
        if share and self.maybe(0.1):
            self._allocated({"driver": GPU, "pool": "gone", "device": "dev-0"})

    def hold_device(self, spec: Object, device: Object, **more: Any) -> None:
        held = {"driver": spec["driver"], "pool": spec["pool"]["name"], "device": device["name"], **more}
        # Now and then the driver has made a device shared, or no longer shared, after it was allocated.
        if bool(device.get("allowMultipleAllocations")) != self.maybe(0.05):
            held["shareID"] = f"{self.rng.getrandbits(32):08x}-0000-4000-8000-{self.rng.getrandbits(48):012x}"
            consumed = {
                name: (each.get("requestPolicy") or {}).get("default") or each["value"]
                for name, each in (device.get("capacity") or {}).items()
            }
            if consumed and not self.maybe(0.1):
                held["consumedCapacity"] = consumed
        self._allocated(held)

    def _allocated(self, result: Object) -> None:
        name = f"held-{len(self.problem.allocated)}"
        status = {"allocation": {"devices": {"results": [{"request": "r", **result}]}}}
        self.problem.allocated.append(
            {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}, "status": status}
        )

    def selectors(self, share: float = 0.5) -> list[str]:
        """None, one or two selectors that do not fail."""
        found = []
        while self.maybe(share) and len(found) < 2:
            found.append(self.rng.choice(SELECTORS))
            share /= 2
        return found

    def count(self, most: int = 3, everything: float = 0.1) -> int | None:
        return None if self.maybe(everything) else self.rng.randint(1, most)

    def request(self, name: str, most: int = 3, everything: float = 0.1, **more: Any) -> Object:
        """An ordinary request, now and then with alternatives."""
        if self.maybe(0.15):
            given = [ask(self.class_name(), self.count(most, everything), self.selectors()) for _ in range(2)]
            return first_of(name, *given)
        return exactly(name, self.class_name(), self.count(most, everything), self.selectors(), **more)

    def requests(self, fewest: int = 1, largest: int = 3, **more: Any) -> list[Object]:
        """So many ordinary requests, mostly the choosy ones last, for which the others leave nothing."""
        found = [self.request(f"r{number}", **more) for number in range(self.rng.randint(fewest, largest))]
        if self.maybe(0.7):
            found.sort(key=lambda each: len((each.get("exactly") or {}).get("selectors") or ()))
        return found

    def class_name(self) -> str:
        return self.rng.choice(("any", "any", "any", "gpu", "gpu", "gpu", "gpu", "nic"))

    def names(self, requests: Sequence[Object]) -> list[str]:
        """What constraints and configs can refer to."""
        return [
            name
            for each in requests
            for name in (each["name"], *(f"{each['name']}/{sub['name']}" for sub in each.get("firstAvailable") or ()))
        ]

    def constraint(self, requests: Sequence[Object], distinct: float = 0.35) -> Object:
        """On some attribute, for all requests or for some."""
        kind = "distinctAttribute" if self.maybe(distinct) else "matchAttribute"
        made: Object = {kind: self.rng.choice(QUALIFIED)}
        if self.maybe(0.4):
            made["requests"] = self.some(self.names(requests), 1)
        return made

    def combinations(self) -> float:
        """An estimate, mostly too large, of what an exhaustive search would try on the largest Node."""
        sizes = [sum(1 for spec, _ in self.devices() if spec.get("nodeName") in (None, each["metadata"]["name"]))
                 for each in self.problem.nodes]  # fmt: skip
        largest = max(sizes, default=0)
        found = 1.0
        for claim in self.problem.claims:
            for each in claim["spec"]["devices"].get("requests") or ():
                given = each.get("firstAvailable") or [each.get("exactly") or {}]
                found *= max(1, sum(_choices(largest, alternative) for alternative in given))
        return found


def _choices(devices: int, body: Object) -> int:
    if body.get("allocationMode") == "All":
        return 1
    return sum(math.comb(devices, taken) for taken in range(1, min(body.get("count", 1), devices) + 1))


SELECTORS: Final = (
    "true",
    f'device.driver == "{GPU}"',
    f'{OURS}.?model.orValue("") == "a"',
    f'{OURS}.?model.orValue("") != "b"',
    f'{OURS}.?model.orValue("") in ["b", "c"]',
    f"{OURS}.?numa.orValue(0) == 0",
    f'"ecc" in {OURS} && {OURS}.ecc',
    f'has({OURS}.firmware) && {OURS}.firmware.isGreaterThan(semver("1.0.0"))',
    f"!has({OURS}.slot) || {OURS}.slot < 2",
)
"""None of them fails, whatever a device has."""


def counter_set(name: str, **counters: object) -> Object:
    return {"name": name, "counters": {key: {"value": str(value)} for key, value in counters.items()}}


def consumes(counter_set_name: str, **counters: object) -> Object:
    used = {key: {"value": str(value)} for key, value in counters.items()}
    return {"counterSet": counter_set_name, "counters": used}
