"""Which devices a request may get, whatever else is chosen: examined once for all Nodes that see the same pool."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tollbar import cel
from tollbar.cel import CelError
from tollbar.dra.capacity import CapacityError, Consumption, consumption
from tollbar.dra.features import Features
from tollbar.dra.inventory import Pool
from tollbar.dra.requests import Request
from tollbar.dra.selectors import Selectors, explained
from tollbar.dra.slices import Content, Device
from tollbar.dra.state import AllocatedState
from tollbar.model.objects import Object
from tollbar.model.tolerations import untolerated

PAUSE: Final = 64
"""A search can pause after so many devices at the latest."""


class Candidate(NamedTuple):
    """A device that a request may get, with what it takes of the capacities; or an error in its place.

    `is_share` says that others may get the device, too.
    """

    device: Device
    pool: Pool
    consumed: Consumption
    is_share: bool
    error: str = ""


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
            self.has_errors |= bool(candidate.error)
            return True
        self.is_complete = True
        return True


class Examiner:
    """Examines the devices of pools for the requests of one scheduling cycle."""

    def __init__(self, state: AllocatedState, features: Features, selectors: Selectors) -> None:
        self._state = state
        self._features = features
        self._selectors = selectors
        self._known: dict[tuple[Request, Pool], Candidates] = {}

    def candidates(self, request: Request, pool: Pool, node: Object) -> Iterator[Candidate | None]:
        """The candidates of a pool; None is a pause, after a device that took time to examine."""
        if pool.is_local or pool.is_per_device:
            yield from self._examined(request, pool, node)
            return
        known = self._known.get((request, pool))
        if known is None:
            known = self._known[request, pool] = Candidates(self._examined(request, pool, node))
        place = 0
        while place < len(known.found) or not known.is_complete:
            if place < len(known.found):
                yield known.found[place]
                place += 1
            else:
                try:
                    is_further = known.examine()
                except Exception:
                    del self._known[request, pool]  # its iterator has ended, which does not make it complete
                    raise
                if not is_further:
                    yield None

    def compile(self, request: Request) -> Iterator[None]:
        """Compile the selectors of the request; each value is a pause.  Errors are told when a device is examined."""
        for selector in request.selectors:
            if self._selectors.compile(selector.expression):
                yield

    def candidate(self, request: Request, pool: Pool, device: Device, node: Object) -> Candidate | None:
        """The device as a candidate, if it is what the request asks for; nothing is said about its being free."""
        if device.binding_conditions and not self._features.binding_conditions:
            return None
        content = device.content
        is_share = content.shared and self._features.consumable_capacity
        for selector in request.selectors:
            verdict = self._selectors.verdict(selector.expression, content)
            if isinstance(verdict, CelError):
                on_device = "" if verdict.kind == cel.COMPILE else f" on device {device.id}"
                return Candidate(device, pool, {}, is_share, f"{selector.origin}{on_device}: {explained(verdict)}")
            if not verdict:
                return None
        if pool.is_per_device and not device.reach.includes(node):
            return None
        if not self._features.consumable_capacity or not (content.capacities or request.capacity):
            return Candidate(device, pool, {}, is_share)
        consumed = self._consumption(request, content)
        if isinstance(consumed, str):
            name = device.id.device if request.count is None else device.id
            problem = f"{request.label}: checking capacity for device {name}: {consumed}"
            return Candidate(device, pool, {}, is_share, problem)
        return None if consumed is None else Candidate(device, pool, consumed, is_share)

    def _consumption(self, request: Request, content: Content) -> Consumption | str | None:
        """What the request takes of such a device, None if it cannot have it, or what is wrong with the request."""
        fractional = self._features.fractional_capacity_range
        question = (request.capacity, fractional)
        if question not in content.memo:
            try:
                answer: Any = consumption(dict(request.capacity), content.capacities, fractional=fractional)
            except CapacityError as error:
                answer = str(error)
            content.remember(question, answer)
        found: Consumption | str | None = content.memo[question]
        return found

    def is_free(self, request: Request, device: Device) -> bool:
        """Whether no allocated claim holds the whole device, or the request may use it all the same."""
        held = self._state.devices if self._features.consumable_capacity else self._state
        return request.admin_access or device.id not in held

    def is_allowed(self, request: Request, device: Device) -> bool:
        """Whether the request tolerates its taints, and its counters are understood."""
        if device.consumes and not self._features.partitionable_devices:
            return False
        return not (self._features.device_taints and device.taints and untolerated(device.taints, request.tolerations))

    def _examined(self, request: Request, pool: Pool, node: Object) -> Iterator[Candidate | None]:
        for number, device in enumerate(pool.devices, 1):
            if not self.is_free(request, device):
                continue
            evaluations = self._selectors.evaluations
            candidate = self.candidate(request, pool, device, node)
            if candidate is not None and (candidate.error or self.is_allowed(request, device)):
                yield candidate
            elif self._selectors.evaluations > evaluations or not number % PAUSE:
                yield None
