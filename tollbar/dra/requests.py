"""What a claim asks for, parsed once for all Nodes.

Problems of a request are kept with it and not raised: which of them is told depends on what comes before it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tollbar.dra.constraints import applies
from tollbar.dra.features import Features
from tollbar.model.claims import requests_of
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.quantity import Amount, amount


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    expression: str
    origin: str
    """Where it stands, for messages: `class gpu: selector #0`."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """A request, or one alternative of a prioritized list.

    `name` is the request's, `full_name` the one in results: `request/alternative` for an alternative.  `label` begins
    messages; it names an alternative by its own name alone.  `count` is None for mode All.  `constraints` are the
    indexes of the claim's constraints that apply to it.
    """

    claim: int
    index: int
    name: str
    full_name: str
    label: str
    device_class: Object
    selectors: tuple[Selector, ...]
    count: int | None
    admin_access: bool
    tolerations: tuple[Object, ...]
    capacity: tuple[tuple[str, Amount], ...]
    """Requested amounts by name, sorted."""
    constraints: tuple[int, ...]
    problem: str

    @property
    def is_alternative(self) -> bool:
        return self.name != self.full_name


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """A ResourceClaim.  Each entry of `requests` has the alternatives of one request: one, or a prioritized list.

    `feature_problems` are problems that come before those of the request of the same index.
    """

    obj: Object
    label: str
    requests: tuple[tuple[Request, ...], ...]
    feature_problems: tuple[str, ...]
    constraints: tuple[Object, ...]


def parse(index: int, claim: Object, device_class: Callable[[str], Object | None], features: Features) -> Claim:
    """The claim; `index` is its place among those of the Pod.

    ValueError or KeyError for what the API server would refuse.
    """
    label = str(key_of(claim))
    constraints = tuple((spec(claim).get("devices") or {}).get("constraints") or ())
    reader = _Reader(index, label, constraints, device_class, features)
    given = requests_of(claim)
    return Claim(
        obj=claim,
        label=label,
        requests=tuple(tuple(reader.alternatives(number, each)) for number, each in enumerate(given)),
        feature_problems=tuple(_feature_problem(label, each, features) for each in given),
        constraints=constraints,
    )


def _feature_problem(label: str, request: Object, features: Features) -> str:
    alternatives = request.get("firstAvailable") or ()
    if alternatives and not features.prioritized_list:
        return (
            f"claim {label}, request {request['name']}: has subrequests, but the DRAPrioritizedList feature is disabled"
        )
    if not features.consumable_capacity:
        disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if (request.get("exactly") or {}).get("capacity") is not None:
            return f"claim {label}, request {request['name']}: {disabled}"
        for each in alternatives:
            if each.get("capacity") is not None:
                return f"claim {label}, subrequest {each['name']}: {disabled}"
    return ""


@dataclass(frozen=True, slots=True)
class _Reader:
    claim: int
    label: str
    constraints: tuple[Object, ...]
    device_class: Callable[[str], Object | None]
    features: Features

    def alternatives(self, index: int, request: Object) -> Iterator[Request]:
        if given := request.get("firstAvailable"):
            for each in given:
                yield self._request(index, request["name"], f"{request['name']}/{each['name']}", each["name"], each)
        else:
            yield self._request(index, request["name"], request["name"], request["name"], request.get("exactly") or {})

    def _request(self, index: int, name: str, full_name: str, shown: str, given: Object) -> Request:
        where = f"claim {self.label}, request {shown}"
        class_name = given.get("deviceClassName") or ""
        found = self.device_class(class_name) if class_name else None
        selectors = given.get("selectors") or ()
        asked = (given.get("capacity") or {}).get("requests") or {}
        return Request(
            claim=self.claim,
            index=index,
            name=name,
            full_name=full_name,
            label=where,
            device_class=found or {},
            selectors=(
                *_selectors((spec(found or {})).get("selectors") or (), f"class {class_name}"),
                *_selectors(selectors, f"claim {self.label}"),
            ),
            count=None if given.get("allocationMode") == "All" else given.get("count", 1),
            admin_access=bool(given.get("adminAccess")),
            tolerations=tuple(given.get("tolerations") or ()),
            capacity=tuple(sorted((key, amount(str(value))) for key, value in asked.items())),
            constraints=tuple(
                number
                for number, each in enumerate(self.constraints)
                if applies(each.get("requests") or (), name, full_name)
            ),
            problem=self._problem(where, given, found),
        )

    def _problem(self, where: str, given: Object, device_class: Object | None) -> str:
        if given.get("derivedAttributes"):
            return f"{where}: cannot handle request with derived attributes, the feature is disabled"
        for number, each in enumerate(given.get("selectors") or ()):
            if each.get("cel") is None:
                return f"{where}, selector #{number}: CEL expression empty (unsupported selector type?)"
        if given.get("adminAccess") is not None and not self.features.admin_access:
            return f"{where}: admin access is requested, but the feature is disabled"
        name = given.get("deviceClassName")
        if not name:
            return f"{where}: missing device class name (unsupported request type?)"
        if device_class is None:
            missing = f'deviceclass.resource.k8s.io "{name}" not found'
            return f"{where}: could not retrieve device class {name}: {missing}"
        if given.get("allocationMode", "ExactCount") not in ("ExactCount", "All"):
            return f"{where}: unsupported count mode {given['allocationMode']}"
        return ""


def _selectors(given: list[Object] | tuple[Object, ...], origin: str) -> Iterator[Selector]:
    for number, each in enumerate(given):
        if each.get("cel") is not None:
            yield Selector(each["cel"]["expression"], f"{origin}: selector #{number}")
