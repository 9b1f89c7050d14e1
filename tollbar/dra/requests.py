"""What a claim asks for, parsed once for all Nodes.

Problems of a request are kept with it and not raised: which of them is told depends on what comes before it.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from tollbar.dra import constraints
from tollbar.dra.constraints import Constraint
from tollbar.dra.features import Features
from tollbar.model.claims import RESULTS_MAX, requests_of
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.model.quantity import Amount, amount


@dataclass(slots=True, eq=False)
class Selector:
    """A CEL selector of a request, or of its DeviceClass.

    `where` names the claim or the class for messages, `index` is the selector's place in its list there.
    """

    expression: str
    where: str
    index: int
    is_of_class: bool

    @property
    def origin(self) -> str:
        """Where it stands, for messages: `class gpu: selector #0`."""
        return f"{self.where}: selector #{self.index}"


@dataclass(slots=True, eq=False)
class Request:
    """A request, or one alternative of a prioritized list; never changed, as a claim.

    `claim` is the place of its claim among those of the Pod, `index` its own in the claim.  `name` is the request's,
    `full_name` the one in results: `request/alternative` for an alternative.  `label` begins messages; it names an
    alternative by its own name alone.  `count` is None for mode All.  `constraints` are those of the claim's that apply
    to it, each with its index.
    """

    claim: int
    claim_key: Key
    index: int
    name: str
    full_name: str
    label: str
    device_class: Object
    selectors: tuple[Selector, ...]
    question: Hashable
    """Its selectors and the capacity that it wants, under which the answer is kept with a device's content: equal for
    requests to which every device gives the same answer."""
    kind: object
    """The same object for the requests of a claim that may get the same devices, whatever is chosen already."""
    count: int | None
    admin_access: bool
    tolerations: tuple[Object, ...]
    capacity: tuple[tuple[str, Amount], ...]
    """Requested amounts by name, sorted."""
    constraints: tuple[tuple[int, Constraint], ...]
    problem: str
    is_alternative: bool = field(init=False)

    def __post_init__(self) -> None:
        self.is_alternative = self.name != self.full_name


@dataclass(slots=True, eq=False)
class Claim:
    """A ResourceClaim.  Each entry of `requests` has the alternatives of one request: one, or a prioritized list."""

    obj: Object
    label: str
    requests: tuple[tuple[Request, ...], ...]
    constraints: tuple[Constraint | None, ...]
    """None for one of a kind that is not known."""
    is_plain: bool
    """Whether any Node can be searched at once: nothing is wrong with it, and no request is for all devices."""
    has_config: bool
    """Whether it has configs for drivers, or one of its classes."""

    @property
    def selectors(self) -> Iterator[Selector]:
        """Those of all its requests.  Whether they compile is told when a device is examined."""
        return (
            selector for alternatives in self.requests for request in alternatives for selector in request.selectors
        )


class Asked:
    """What a Pod asks for: its claims in their order, and the requests of all of them."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        self.claims = claims
        self.requests = [alternatives for claim in claims for alternatives in claim.requests]


def parse(index: int, claim: Object, device_class: Callable[[str], Object | None], features: Features) -> Claim:
    """The claim; `index` is its place among those of the Pod.

    ValueError or KeyError for what the API server would refuse.
    """
    key, devices = key_of(claim), spec(claim).get("devices") or {}
    label = str(key)
    given = devices.get("constraints") or ()
    made = tuple(constraints.make(each, lists=features.list_type_attributes) for each in given)
    applying = [(each.get("requests") or (), number, made[number]) for number, each in enumerate(given)]
    reader = _Reader(index, key, label, applying, device_class, features)
    found = tuple(tuple(reader.alternatives(number, each)) for number, each in enumerate(requests_of(claim)))
    every = [each for alternatives in found for each in alternatives]
    least = sum(min(each.count or 0 for each in alternatives) for alternatives in found)
    return Claim(
        obj=claim,
        label=label,
        requests=found,
        constraints=made,
        is_plain=not any(each.problem or each.count is None for each in every)
        and least <= RESULTS_MAX
        and None not in made,
        has_config=bool(devices.get("config") or any(spec(each.device_class).get("config") for each in every)),
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    claim: int
    key: Key
    label: str
    constraints: Sequence[tuple[Sequence[str], int, Constraint | None]]
    """Those of the claim, each with the requests that it is for and its index."""
    device_class: Callable[[str], Object | None]
    features: Features
    kinds: dict[Hashable, object] = field(default_factory=dict)

    def alternatives(self, index: int, request: Object) -> Iterator[Request]:
        problem, name = self._feature_problem(request), request["name"]
        if given := request.get("firstAvailable"):
            for each in given:
                yield self._request(index, name, f"{name}/{each['name']}", each["name"], each, problem)
        else:
            yield self._request(index, name, name, name, request.get("exactly") or {}, problem)

    def _request(self, index: int, name: str, full_name: str, shown: str, given: Object, problem: str) -> Request:
        where = f"claim {self.label}, request {shown}"
        class_name = given.get("deviceClassName") or ""
        found = self.device_class(class_name) if class_name else None
        asked = ((given.get("capacity") or {}).get("requests") or {}).items()
        capacity = tuple(sorted((key, amount(str(value))) for key, value in asked))
        selectors = (
            *_selectors(spec(found or {}).get("selectors") or (), f"class {class_name}", is_of_class=True),
            *_selectors(given.get("selectors") or (), f"claim {self.label}", is_of_class=False),
        )
        question = (tuple(each.expression for each in selectors), capacity)
        admin_access, tolerations = bool(given.get("adminAccess")), tuple(given.get("tolerations") or ())
        return Request(
            claim=self.claim,
            claim_key=self.key,
            index=index,
            name=name,
            full_name=full_name,
            label=where,
            device_class=found or {},
            selectors=selectors,
            question=question,
            kind=self.kinds.setdefault((question, admin_access, repr(tolerations)), object()),
            count=None if given.get("allocationMode") == "All" else given.get("count", 1),
            admin_access=admin_access,
            tolerations=tolerations,
            capacity=capacity,
            constraints=tuple(
                (number, constraint)
                for names, number, constraint in self.constraints
                if constraint is not None and constraints.applies(names, name, full_name)
            ),
            problem=problem or self._problem(where, given, found),
        )

    def _feature_problem(self, request: Object) -> str:
        alternatives = request.get("firstAvailable") or ()
        where = f"claim {self.label}, request {request['name']}"
        if alternatives and not self.features.prioritized_list:
            return f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled"
        if not self.features.consumable_capacity:
            disabled = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
            if (request.get("exactly") or {}).get("capacity") is not None:
                return f"{where}: {disabled}"
            for each in alternatives:
                if each.get("capacity") is not None:
                    return f"claim {self.label}, subrequest {each['name']}: {disabled}"
        return ""

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


def _selectors(given: list[Object] | tuple[Object, ...], where: str, *, is_of_class: bool) -> Iterator[Selector]:
    for index, each in enumerate(given):
        if each.get("cel") is not None:
            yield Selector(each["cel"]["expression"], where, index, is_of_class)
