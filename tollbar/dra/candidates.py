"""Which devices a request may get, whatever else is chosen: examined once for all Nodes that see the same pool."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from tollbar import cel
from tollbar.cel import CelError
from tollbar.dra.capacity import NOTHING, CapacityError, Consumption, consumption
from tollbar.dra.features import Features
from tollbar.dra.inventory import Pool
from tollbar.dra.requests import Request, Selector
from tollbar.dra.selectors import Selectors, explained
from tollbar.dra.slices import Device
from tollbar.dra.state import AllocatedState
from tollbar.model.objects import Object
from tollbar.model.tolerations import untolerated

PAUSE: Final = 64
"""A search can pause after so many devices at the latest."""
_NO_MATCH: Final = object()
_SELECTORS: Final = 64
"""As many selectors as the API server accepts of a class and a request together.  Verdicts on more would push one
another out of what is kept of a device."""


class Candidate(NamedTuple):
    """A device that a request may get, with what it takes of the capacities; or an error in its place.

    `is_share` says that others may get the device, too.  The error is that of the first request which asked; what
    `Examiner.problem` says is the same for another one of its kind.
    """

    device: Device
    pool: Pool
    consumed: Consumption
    is_share: bool
    error: str = ""


class Examination(Enum):
    UNFINISHED = auto()
    """A selector was evaluated, which takes up to some milliseconds; there may be others."""


Examined: TypeAlias = Candidate | Examination | None
"""None for a device that is not what the request asks for."""


@dataclass(slots=True, eq=False)
class Candidates:
    """Candidates in the order of their devices, which are examined as far as somebody needs them."""

    more: Iterator[Candidate | None]
    found: list[Candidate] = field(default_factory=list)
    is_complete: bool = False
    has_errors: bool = False

    def examine(self) -> bool:
        """Examine devices up to the next candidate or the end; false for a pause before."""
        for candidate in self.more:
            if candidate is None:
                return False
            self.found.append(candidate)
            if candidate.error:
                self.has_errors = True
            return True
        self.is_complete = True
        return True


class Examiner:
    """Examines the devices of pools for the requests of one scheduling cycle."""

    def __init__(self, state: AllocatedState, features: Features, selectors: Selectors) -> None:
        self._features = features
        self._selectors = selectors
        self._held = state.devices if features.consumable_capacity else state
        """Devices of which there is nothing left."""

    def candidate(self, request: Request, pool: Pool, device: Device, node: Object) -> Candidate | None:
        """The device, if it is what the request asks for."""
        while (found := self.examined(request, pool, device, node)) is Examination.UNFINISHED:
            pass
        return found

    def examined(self, request: Request, pool: Pool, device: Device, node: Object) -> Examined:
        """The same with one evaluation of a selector at most: ask again until it is finished.

        Answers are kept, but for errors, which name the device.
        """
        if device.binding_conditions and not self._features.binding_conditions:
            return None
        content = device.content
        known = content.memo.get(request.question)
        if known is None:
            return self._examine(request, pool, device, node)
        if known is _NO_MATCH or (pool.is_per_device and not device.reach.includes(node)):
            return None
        return Candidate(device, pool, known, content.shared and self._features.consumable_capacity)

    def _examine(self, request: Request, pool: Pool, device: Device, node: Object) -> Examined:
        content = device.content
        is_share = content.shared and self._features.consumable_capacity
        for selector in request.selectors:
            verdict = self._selectors.known(selector.expression, content)
            if verdict is None:
                verdict = self._selectors.verdict(selector.expression, content)
                if len(request.selectors) <= _SELECTORS:
                    return Examination.UNFINISHED
            if isinstance(verdict, CelError):
                on_device = "" if verdict.kind == cel.COMPILE else f" on device {device.id}"
                return Candidate(device, pool, NOTHING, is_share, f"{selector.origin}{on_device}: {explained(verdict)}")
            if not verdict:
                content.remember(request.question, _NO_MATCH)
                return None
        if pool.is_per_device and not device.reach.includes(node):
            return None
        consumed: Consumption | None = NOTHING
        if self._features.consumable_capacity and (content.capacities or request.capacity):
            fractional = self._features.fractional_capacity_range
            try:
                consumed = consumption(dict(request.capacity), content.capacities, fractional=fractional)
            except CapacityError as error:
                name = device.id.device if request.count is None else device.id
                problem = f"{request.label}: checking capacity for device {name}: {error}"
                return Candidate(device, pool, NOTHING, is_share, problem)
        content.remember(request.question, _NO_MATCH if consumed is None else consumed)
        return None if consumed is None else Candidate(device, pool, consumed, is_share)

    def problem(self, request: Request, erroneous: Candidate, node: Object) -> str:
        """The error in the place of this candidate, as this request gets it."""
        again = self.candidate(request, erroneous.pool, erroneous.device, node)
        return erroneous.error if again is None else again.error

    def refusing(self, request: Request, device: Device) -> Selector | None:
        """The first selector of the request that is false for the device."""
        content = device.content
        return next((s for s in request.selectors if self._selectors.verdict(s.expression, content) is False), None)

    def matching(self, request: Request, pool: Pool, node: Object) -> Iterator[Candidate | None]:
        """The devices that are what the request asks for, free or not; None is a pause."""
        for number, device in enumerate(pool.devices, 1):
            while (candidate := self.examined(request, pool, device, node)) is Examination.UNFINISHED:
                yield None
            if candidate is not None:
                yield candidate
            if not number % PAUSE:
                yield None

    def is_free(self, request: Request, device: Device) -> bool:
        """Whether no allocated claim holds the whole device, or the request may use it all the same."""
        return request.admin_access or device.id not in self._held

    def is_allowed(self, request: Request, device: Device) -> bool:
        """Whether the request tolerates its taints, and its counters are understood."""
        if device.consumes and not self._features.partitionable_devices:
            return False
        return not (device.taints and self._features.device_taints and untolerated(device.taints, request.tolerations))

    def available(self, request: Request, pool: Pool, node: Object) -> Iterator[Candidate | None]:
        """The matching devices of the pool that are free and allowed; None is a pause, after some that took time."""
        held = () if request.admin_access else self._held
        for number, device in enumerate(pool.devices, 1):
            if device.id in held:
                continue
            while (candidate := self.examined(request, pool, device, node)) is Examination.UNFINISHED:
                yield None
            if candidate is not None and (
                candidate.error or not (device.taints or device.consumes) or self.is_allowed(request, device)
            ):
                yield candidate
            if not number % PAUSE:
                yield None


class Available:
    """The available devices of pools; what is examined of one that several Nodes see is known for all of these.

    An Examiner must not refer to this: a search that is not complete refers to its Examiner, and a cycle would stay in
    memory until the garbage collector finds it.
    """

    def __init__(self, examiner: Examiner) -> None:
        self._examiner = examiner
        self._known: dict[tuple[object, Pool], Candidates] = {}
        """By the kind of request."""

    def candidates(self, request: Request, pools: Iterable[Pool], node: Object) -> Iterator[Candidate | None]:
        """Those of these pools for the request; None is a pause."""
        return chain.from_iterable(
            self._examiner.available(request, pool, node)
            if pool.is_local or pool.is_per_device
            else self._shared(request, pool, node)
            for pool in pools
        )

    def _shared(self, request: Request, pool: Pool, node: Object) -> Iterator[Candidate | None]:
        """Those of a pool that several Nodes see, which are the same for all of these."""
        known = self._known.get((request.kind, pool))
        if known is None:
            known = self._known[request.kind, pool] = Candidates(self._examiner.available(request, pool, node))
        place = 0
        while place < len(known.found) or not known.is_complete:
            if place < len(known.found):
                yield known.found[place]
                place += 1
            else:
                try:
                    is_further = known.examine()
                except Exception:
                    del self._known[request.kind, pool]  # its iterator has ended, which does not make it complete
                    raise
                if not is_further:
                    yield None
