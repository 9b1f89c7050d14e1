"""The search for devices: depth first over claims, their requests, and the devices of each request.

The first solution counts.  Within one request only combinations are tried, no permutations: the next device comes
later in the order of pools, slices and devices than the one before.  Source: allocateOne and allocateDevice in
k8s.io/dynamic-resource-allocation/structured.

The search is a stack of moves.  A move is an iterator over choices: it makes one, yields the next deeper move, and
takes the choice back when it is asked for another.  So the search can pause anywhere, and no depth is too deep for it.
"""

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from tollbar.dra import constraints
from tollbar.dra.candidates import PAUSE, Candidate, Candidates, Examiner
from tollbar.dra.capacity import Consumption
from tollbar.dra.constraints import Constraint
from tollbar.dra.counters import FreeCounters
from tollbar.dra.features import Features
from tollbar.dra.inventory import Pool, PoolState
from tollbar.dra.requests import Claim, Request
from tollbar.dra.slices import CounterId, Device
from tollbar.dra.state import AllocatedState
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object

RESULTS_MAX: Final = 32
"""The most devices that one claim can get (AllocationResultsMaxSize)."""


class Unsolvable(Exception):
    """Something is wrong with the claims, so that no Node needs to be asked; the message is kube-scheduler's."""


class Chosen(NamedTuple):
    """A device for a request; `consumed` is what it takes of a shared device, None for a whole one."""

    request: Request
    device: Device
    consumed: Consumption | None
    has_counters: bool = False
    """Whether the counters that it consumes are counted for it; a second share of a device adds none."""


class _Stop(Enum):
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    TOO_MANY = "too many devices for one claim"


@dataclass(slots=True, eq=False)
class _Move:
    claim: int
    choices: "Generator[_Next, None, None]"
    is_alternatives: bool = False
    """Whether it chooses between the alternatives of a prioritized list."""
    is_too_many: bool = False
    """Whether all alternatives that it tried led to more devices than a claim can get."""


_Next: TypeAlias = "_Move | _Stop | None"
"""Where a choice leads to; None is a pause without a choice."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What all searches of one scheduling cycle have in common."""

    state: AllocatedState
    features: Features
    examiner: Examiner
    counters: FreeCounters


class Search:
    """One search for the devices of a Pod's claims on one Node.

    `steps` are the moves so far, `tries` the devices that were tried for a request.  `solution` has the devices of each
    claim, None if there is none.
    """

    def __init__(self, setting: Setting, node: Object, claims: Sequence[Claim], pools: Sequence[Pool]) -> None:
        self.steps = 0
        self.tries = 0
        self.solution: list[list[Chosen]] | None = None
        self._chosen: list[list[Chosen]] = [[] for _ in claims]
        self._setting = setting
        self._features = setting.features
        self._state = setting.state
        self._examiner = setting.examiner
        self._node = node
        self._claims = claims
        self._pools = pools
        self._requests = [alternatives for claim in claims for alternatives in claim.requests]
        self._constraints: list[list[Constraint]] = [[] for _ in claims]
        self._all: dict[Request, list[Candidate]] = {}
        """The devices of requests for all; no more than a claim can get, of those that are counted."""
        self._counts: dict[Request, int] = {}
        self._candidates: dict[Request, Candidates] = {}
        self._taken: dict[DeviceId, list[int]] = {}
        """Whole devices that are chosen, each with the indexes of the claims that have it."""
        self._shares: dict[DeviceId, list[Consumption]] = {}
        """Shared devices that are chosen, each with what every share consumes."""
        self._consumed: dict[Pool, dict[CounterId, int]] = {}
        """What the chosen devices consume of the counters of their pools."""

    def progress(self) -> Iterator[None]:
        """Search until the end; each value is a pause.  Raises Unsolvable."""
        yield from self._prepare()
        moves: list[_Move] = []
        following = self._open(0)
        while following is not _Stop.SOLVED:
            if isinstance(following, _Move):
                self.steps += 1
                moves.append(following)
            elif following is _Stop.TOO_MANY:
                _back_to_alternatives(moves, moves[-1].claim)
            elif following is _Stop.EXHAUSTED:
                ended = moves.pop()
                if ended.is_too_many:
                    _back_to_alternatives(moves, ended.claim)
                elif moves:
                    moves[-1].is_too_many = False
            if not moves:
                return
            yield
            following = next(moves[-1].choices, _Stop.EXHAUSTED)
        self.solution = [list(each) for each in self._chosen]  # closing the moves undoes them

    def _prepare(self) -> Iterator[None]:
        """Check the claims in their order, and find the devices of requests for all."""
        for index, claim in enumerate(self._claims):
            least = 0
            for problem, alternatives in zip(claim.feature_problems, claim.requests, strict=True):
                if problem:
                    raise Unsolvable(problem)
                for request in alternatives:
                    if request.problem:
                        raise Unsolvable(request.problem)
                    yield from self._examiner.compile(request)
                    if request.count is None:
                        yield from self._find_all(request)
                least += min(map(self._count, alternatives))
            if least > RESULTS_MAX:
                raise Unsolvable(
                    f"claim {claim.label}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}"
                )
            for number, given in enumerate(claim.constraints):
                made = constraints.make(given, lists=self._features.list_type_attributes)
                if made is None:
                    raise Unsolvable(
                        f"claim {claim.label}, constraint #{number}: empty constraint (unsupported constraint type?)"
                    )
                self._constraints[index].append(made)

    def _find_all(self, request: Request) -> Iterator[None]:
        found = self._all[request] = []
        self._counts[request] = 0
        for pool in self._pools:
            if pool.state is not PoolState.USABLE:
                what = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise Unsolvable(
                    f"{request.label}: asks for all devices, but resource pool {pool.id} is currently {what}"
                )
            for device in pool.devices:
                candidate = self._examiner.candidate(request, pool, device, self._node)
                if candidate is not None:
                    if candidate.error:
                        raise Unsolvable(candidate.error)
                    self._counts[request] += 1
                    if len(found) < RESULTS_MAX:
                        found.append(candidate)
                yield

    def _count(self, request: Request) -> int:
        return self._counts[request] if request.count is None else request.count

    def _open(self, position: int) -> _Next:
        """The move for the request of this position, counted over all claims."""
        if position == len(self._requests):
            return _Stop.SOLVED
        alternatives = self._requests[position]
        first = alternatives[0]
        if not first.is_alternative:
            return self._begin(first, position)
        choices = (self._begin(each, position) for each in alternatives)
        return _Move(first.claim, choices, is_alternatives=True, is_too_many=True)

    def _begin(self, request: Request, position: int) -> _Next:
        count = self._count(request)
        if request.count is None and not count:
            return _Move(request.claim, _nothing())
        if len(self._chosen[request.claim]) + count > RESULTS_MAX:
            return _Stop.TOO_MANY
        return self._go_on(request, position, 0, 0)

    def _go_on(self, request: Request, position: int, number: int, start: int) -> _Next:
        """The move for the device of this number of the request, from a place among its candidates on."""
        if number == self._count(request):
            return self._open(position + 1)
        if request.count is None:
            return _Move(request.claim, self._take_next_of_all(request, position, number))
        return _Move(request.claim, self._take_any(request, position, number, start))

    def _take_any(self, request: Request, position: int, number: int, start: int) -> Generator[_Next, None, None]:
        """Give the request one candidate after the other."""
        candidates = self._candidates.get(request)
        if candidates is None:
            candidates = self._candidates[request] = Candidates(self._examined(request))
        missing = (request.count or 0) - number
        place = start
        while True:
            if candidates.is_complete:
                left = len(candidates.found) - place
                if not left or (left < missing and not candidates.has_errors):
                    return
            elif place == len(candidates.found):
                if not candidates.examine():
                    yield None
                continue
            candidate = candidates.found[place]
            place += 1
            if self._take(request, candidate):
                try:
                    yield self._go_on(request, position, number + 1, place)
                finally:
                    self._give_back(request, candidate)
            elif not place % PAUSE:
                yield None

    def _take_next_of_all(self, request: Request, position: int, number: int) -> Generator[_Next, None, None]:
        """Give the request the next of its devices; without it there is no solution."""
        candidate = self._all[request][number]
        device = candidate.device
        if not (self._examiner.is_free(request, device) and self._examiner.is_allowed(request, device)):
            return
        if not self._take(request, candidate, required=True):
            return
        try:
            yield self._go_on(request, position, number + 1, 0)
        finally:
            self._give_back(request, candidate)

    def _examined(self, request: Request) -> Iterator[Candidate | None]:
        for pool in self._pools:
            yield from self._examiner.candidates(request, pool, self._node)

    def _take(self, request: Request, candidate: Candidate, *, required: bool = False) -> bool:
        """Choose the device, if it is free together with what is chosen already.  An error in its place is raised."""
        self.tries += 1
        device, pool, consumed, is_share, error = candidate
        holders = self._taken.get(device.id)
        if holders and (not request.admin_access or (not is_share and request.claim in holders)):
            return False
        if error:
            raise Unsolvable(error)
        needs_counters = bool(device.consumes) and self._needs_counters(candidate)
        if needs_counters and not self._has_counters(device, pool):
            return False
        if request.constraints and not self._meets_constraints(request, device):
            if required:
                raise Unsolvable(
                    f"{request.label}: cannot add device {device.id} because a claim constraint would not be satisfied"
                )
            return False
        if consumed and not self._has_capacity(device, consumed):
            self._leave_constraints(request)
            return False
        if needs_counters:
            used = self._consumed.setdefault(pool, {})
            for counter, value in device.consumes:
                used[counter] = used.get(counter, 0) + value
        if is_share:
            self._shares.setdefault(device.id, []).append(consumed)
        else:
            self._taken.setdefault(device.id, []).append(request.claim)
        self._chosen[request.claim].append(Chosen(request, device, consumed if is_share else None, needs_counters))
        return True

    def _give_back(self, request: Request, candidate: Candidate) -> None:
        """Undo the last choice, which was this one."""
        device = candidate.device
        chosen = self._chosen[request.claim].pop()
        held: dict[DeviceId, Any] = self._shares if candidate.is_share else self._taken
        holders = held[device.id]
        holders.pop()
        if not holders:
            del held[device.id]
        if chosen.has_counters:
            used = self._consumed[candidate.pool]
            for counter, value in device.consumes:
                used[counter] -= value
        self._leave_constraints(request)

    def _needs_counters(self, candidate: Candidate) -> bool:
        """Whether its counters are to be counted: those of a device with a share are counted already."""
        device = candidate.device.id
        return not (candidate.is_share and (device in self._state.shares or device in self._shares))

    def _has_counters(self, device: Device, pool: Pool) -> bool:
        free = self._setting.counters.of(pool)
        if free is None:
            return False
        used = self._consumed.get(pool, {})
        return all(used.get(counter, 0) + value <= free[counter] for counter, value in device.consumes)

    def _has_capacity(self, device: Device, consumed: Consumption) -> bool:
        """Whether that much is left of a device that has shares."""
        held, chosen = self._state.capacity.get(device.id, {}), self._shares.get(device.id, ())
        if not held and not chosen:
            return True
        return all(
            held.get(name, 0) + sum(each[name].nanos for each in chosen) + amount.nanos
            <= device.content.capacities[name].value.nanos
            for name, amount in consumed.items()
        )

    def _meets_constraints(self, request: Request, device: Device) -> bool:
        of_claim = self._constraints[request.claim]
        for number, index in enumerate(request.constraints):
            if not of_claim[index].add(device.content):
                for added in request.constraints[:number]:
                    of_claim[added].remove()
                return False
        return True

    def _leave_constraints(self, request: Request) -> None:
        for index in request.constraints:
            self._constraints[request.claim][index].remove()


def _nothing() -> Generator[_Next, None, None]:
    """No choice at all."""
    yield from ()


def _back_to_alternatives(moves: list[_Move], claim: int) -> None:
    """Undo the claim's choices up to the last one between alternatives, because other devices are not fewer devices.

    Without alternatives in the claim, the previous claim goes on.
    """
    while moves and moves[-1].claim == claim and not moves[-1].is_alternatives:
        moves.pop().choices.close()
