"""ResourceSlices as the allocator reads them: parsed once when a slice changes, not once per Pod and node.

Quantities are whole numbers of nano units.  Names of attributes stay as the slice has them.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from tollbar.model import nodeaffinity
from tollbar.model.devices import DeviceId
from tollbar.model.flat import Flat, flat, one_text, unfolded
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.quantity import Amount, amount

CounterId: TypeAlias = tuple[str, str]
"""A counter of a pool: the name of its counter set and its own."""

_KEPT_ANSWERS: Final = 256
"""So many answers are kept with a device content."""
MAX_ANSWERS: Final = 2_000_000
"""So many answers are kept with all device contents together, which take some 70 MB."""
_MEMO: Final = 8
"""The memory of a dictionary for the answers about one device, in answers."""
_KEPT_CONTENTS: Final = 1024
"""So many device contents are known; then it starts anew, so that what each device has for itself does not stay."""
_NO_ANSWERS: Final[dict[Hashable, Any]] = {}
_NO_CAPACITY: Final[Mapping[str, "Capacity"]] = {}


class Range(NamedTuple):
    """`validRange` of a request policy: a request is at least `least`, at most `most`, and goes up in steps."""

    least: Amount | None
    most: Amount | None
    step: Amount | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity of a device, and what a request may take of it where the device is shared (KEP-5075)."""

    value: Amount
    default: Amount | None = None
    range: Range | None = None
    values: tuple[Amount, ...] = ()


class Memos:
    """The answers about all devices, at most MAX_ANSWERS.  Beyond that the device loses its own that has had some for
    longest."""

    def __init__(self) -> None:
        self._memos: dict[int, dict[Hashable, Any]] = {}
        """By their identity, the oldest first."""
        self._answers = 0

    def new(self) -> dict[Hashable, Any]:
        """For the answers about one more device; it is empty again when they have gone, and then is not counted."""
        memo: dict[Hashable, Any] = {}
        self._memos[id(memo)] = memo
        self._answers += _MEMO
        return memo

    def count(self) -> None:
        """One of them has got one more answer."""
        self._answers += 1
        while self._answers > MAX_ANSWERS:
            self.drop(next(iter(self._memos.values())))

    def drop(self, memo: dict[Hashable, Any]) -> None:
        """Forget these answers: the device is gone, or there are too many."""
        del self._memos[id(memo)]
        self._answers -= _MEMO + len(memo)
        memo.clear()


@dataclass(slots=True, eq=False)
class Content:
    """What device selectors, constraints and requests for capacity see of a device; equal devices share one.

    `offered` is the pair of attributes and capacity, flat.  `memo` keeps answers about the device: verdicts of
    selectors, values of attributes, what requests consume.
    """

    driver: str
    offered: Flat
    shared: bool
    """Whether several claims may hold the device at once: `allowMultipleAllocations`."""
    capacities: Mapping[str, Capacity]
    memos: Memos
    memo: dict[Hashable, Any] = field(default_factory=lambda: _NO_ANSWERS)

    def __del__(self) -> None:
        if self.memo:
            self.memos.drop(self.memo)

    def read(self) -> tuple[Mapping[str, Object], Mapping[str, Object]]:
        """Attributes and capacity by name, as the slice has them."""
        attributes, capacity = unfolded(self.offered)
        return attributes, capacity

    def remember(self, question: Hashable, answer: Any) -> None:
        """Keep the answer, at the cost of the oldest one when there are many: tenants choose how many there are."""
        memo = self.memo = self.memo or self.memos.new()
        before = len(memo)
        if before >= _KEPT_ANSWERS:
            del memo[next(iter(memo))]
        memo[question] = answer
        if len(memo) > before:
            self.memos.count()

    def attribute(self, name: str) -> Object | None:
        """The attribute of this fully qualified name; the driver's own attributes may be written without a domain."""
        attributes, _ = self.read()
        found = attributes.get(name)
        if found is None:
            domain, _, unqualified = name.partition("/")
            found = attributes.get(unqualified) if domain == self.driver else None
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """From which Nodes devices can be used: one Node, all of them, or those that a NodeSelector selects."""

    node: str = ""
    everywhere: bool = False
    selector: Object | None = None

    def __bool__(self) -> bool:
        return bool(self.node or self.everywhere or self.selector is not None)

    def includes(self, node: Object) -> bool:
        if self.node:
            return key_of(node).name == self.node
        return self.everywhere or (self.selector is not None and nodeaffinity.selects(self.selector, node))


@dataclass(slots=True, eq=False)
class Device:
    """A device of a ResourceSlice, never changed: a frozen one would take twice as long to make.

    `reach` is its own where the slice selects Nodes per device, else the slice's.
    """

    id: DeviceId
    content: Content
    reach: Reach
    taints: tuple[Object, ...]
    consumes: tuple[tuple[CounterId, int], ...]
    binding_conditions: tuple[str, ...] | None
    binding_failure_conditions: tuple[str, ...] | None
    binds_to_node: bool


@dataclass(slots=True, eq=False)
class Slice:
    """A ResourceSlice, never changed; `per_device` says that its devices have a `reach` of their own."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    reach: Reach
    per_device: bool
    devices: tuple[Device, ...]
    counters: tuple[tuple[str, Mapping[str, int]], ...]
    """Shared counters: pairs of the counter set's name and its counters."""
    is_partitioned: bool
    """Whether it uses fields that only partitionable devices have: shared counters or `perDeviceNodeSelection`."""
    has_compatibility_groups: bool

    def reaches(self, node: Object) -> bool:
        """Whether some device of it, or its counters, are for this Node.

        A slice without any known field for that has a field of the future, and is for none.
        """
        if self.reach:
            return self.reach.includes(node)
        return self.per_device and any(device.reach.includes(node) for device in self.devices)


class Parser:
    """Makes slices of API objects.  Devices of equal contents share one `Content`, as long as it is known."""

    def __init__(self) -> None:
        self._memos = Memos()
        self._contents: dict[bytes, Content] = {}
        self._last: tuple[tuple[str, Object, Object, bool], Content] | None = None
        """What the last device had, and its content."""

    def parse(self, obj: Object) -> Slice:
        """The slice.  ValueError or KeyError for an object that the API server would refuse."""
        body = spec(obj)
        driver, pool, pool_name = one_text(_text(body["driver"])), body["pool"], _text(body["pool"]["name"])
        reach, per_device = _reach(body), bool(body.get("perDeviceNodeSelection"))
        given = body.get("devices") or ()
        partitions = [each for each in given if each.get("consumesCounters")]
        return Slice(
            name=key_of(obj).name,
            driver=driver,
            pool=pool_name,
            generation=pool.get("generation") or 0,
            slice_count=pool.get("resourceSliceCount") or 0,
            reach=reach,
            per_device=per_device,
            devices=tuple(
                _device(each, content, driver, pool_name, _reach(each) if per_device else reach)
                for each, content in zip(given, self._contents_of(given, driver), strict=True)
            ),
            counters=tuple(
                (each["name"], _counters(each.get("counters") or {})) for each in body.get("sharedCounters") or ()
            ),
            is_partitioned=body.get("perDeviceNodeSelection") is not None or bool(body.get("sharedCounters")),
            has_compatibility_groups=any(
                consumed.get("compatibilityGroups") for each in partitions for consumed in each["consumesCounters"]
            ),
        )

    def _contents_of(self, devices: Sequence[Object], driver: str) -> Iterator[Content]:
        """The content of each device; neighbours, also of two slices, are told to be equal by comparing them."""
        for each in devices:
            attributes, capacity = each.get("attributes") or {}, each.get("capacity") or {}
            offered = (driver, attributes, capacity, bool(each.get("allowMultipleAllocations")))
            if self._last is None or self._last[0] != offered:
                self._last = offered, self._content(*offered)
            yield self._last[1]

    def _content(self, driver: str, attributes: Object, capacity: Object, shared: bool) -> Content:
        written = orjson.dumps((driver, attributes, capacity, shared), option=orjson.OPT_SORT_KEYS)
        identity = blake2b(written, digest_size=16).digest()
        found = self._contents.get(identity)
        if found is None:
            if len(self._contents) >= _KEPT_CONTENTS:
                self._contents.clear()
            capacities = _capacities(orjson.dumps(capacity).decode()) if capacity else _NO_CAPACITY
            found = self._contents[identity] = Content(
                driver, flat([attributes, capacity]), shared, capacities, self._memos
            )
        return found


def _device(given: Object, content: Content, driver: str, pool: str, reach: Reach) -> Device:
    return Device(
        id=DeviceId(driver, pool, one_text(_text(given["name"]))),
        content=content,
        reach=reach,
        taints=tuple(given.get("taints") or ()),
        consumes=_consumed(given["consumesCounters"]) if given.get("consumesCounters") else (),
        binding_conditions=_texts(given.get("bindingConditions")),
        binding_failure_conditions=_texts(given.get("bindingFailureConditions")),
        binds_to_node=bool(given.get("bindsToNode")),
    )


def _reach(body: Object) -> Reach:
    return Reach(body.get("nodeName") or "", bool(body.get("allNodes")), body.get("nodeSelector"))


def _counters(given: Mapping[str, Any]) -> dict[str, int]:
    return {name: amount(each["value"]).nanos for name, each in given.items()}


def _consumed(given: list[Object]) -> tuple[tuple[CounterId, int], ...]:
    consumed: dict[CounterId, int] = {}
    for each in given:
        for name, value in _counters(each.get("counters") or {}).items():
            known = (each["counterSet"], name)
            consumed[known] = consumed.get(known, 0) + value
    return tuple(consumed.items())


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError("a name is no text")
    return given


def _texts(given: list[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


@lru_cache(maxsize=1024)
def _capacities(written: str) -> Mapping[str, Capacity]:
    """Parsed from JSON, so that devices which offer the same share it."""
    return {name: _capacity(each) for name, each in orjson.loads(written).items()}


def _capacity(given: Object) -> Capacity:
    policy = given.get("requestPolicy") or {}
    given_range = policy.get("validRange")
    limits = None
    if given_range is not None:
        limits = Range(*(_optional(given_range.get(name)) for name in ("min", "max", "step")))
    return Capacity(
        amount(given["value"]),
        _optional(policy.get("default")),
        limits,
        tuple(amount(each) for each in policy.get("validValues") or ()),
    )


def _optional(text: Any) -> Amount | None:
    return None if text is None else amount(text)
