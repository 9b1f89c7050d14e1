"""The search for devices: depth first over claims, their requests, and the devices of each request.

The first solution counts.  Within one request only combinations are tried, no permutations: the next device comes
later in the order of pools, slices and devices than the one before.  Source: allocateOne and allocateDevice in
k8s.io/dynamic-resource-allocation/structured.

The search is a stack of moves.  A move is an iterator over choices: it makes one, and yields the next deeper move.
Devices that are chosen are on a trail; before a move makes another choice, all is taken back that came onto the trail
since it began.  So the search can pause anywhere, and no depth is too deep for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

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
from tollbar.model.objects import Object

RESULTS_MAX: Final = 32
"""The most devices that one claim can get (AllocationResultsMaxSize)."""


class Unsolvable(Exception):
    """Something is wrong with the claims, so that no Node needs to be asked; the message is kube-scheduler's."""


Chosen: TypeAlias = tuple[Request, Candidate]
"""A device for a request."""


class _Stop(Enum):
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    TOO_MANY = "too many devices for one claim"


@dataclass(slots=True, eq=False)
class _Move:
    claim: int
    choices: "Iterator[_Next]"
    depth: int
    """How long the trail was before its choice."""


@dataclass(slots=True, eq=False)
class _Alternatives(_Move):
    """Chooses between the alternatives of a prioritized list."""

    is_too_many: bool = True
    """Whether all of them so far led to more devices than a claim can get."""


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

    `steps` are the moves so far.  `solution` has the devices of each claim, None if there is none.  With `has_given_up`
    there may be one all the same: more than `tries_max` devices were tried for a request.
    """

    def __init__(
        self, setting: Setting, node: Object, claims: Sequence[Claim], pools: Sequence[Pool], tries_max: int
    ) -> None:
        self.steps = 0
        self.has_given_up = False
        self._tries_left = tries_max
        self.solution: list[list[Chosen]] | None = None
        self._setting = setting
        self._state = setting.state
        self._examiner = setting.examiner
        self._node = node
        self._claims = claims
        self._pools = pools
        self._requests = [alternatives for claim in claims for alternatives in claim.requests]
        self._constraints: dict[Request, list[Constraint]] = {}
        """Those that apply to a request."""
        self._all: dict[Request, list[Candidate]] = {}
        """The devices of requests for all; no more than a claim can get, of those that are counted."""
        self._counts: dict[Request, int] = {}
        self._candidates: dict[Request, Candidates] = {}
        self._trail: list[tuple[Request, Candidate, bool]] = []
        """What is chosen, in the order of the moves; true for a device whose counters are counted: a second share of a
        device adds none."""
        self._taken: dict[Device, list[int]] = {}
        """Whole devices that are chosen, each with the indexes of the claims that have it."""
        self._shares: dict[Device, list[Consumption]] = {}
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
                if isinstance(ended, _Alternatives) and ended.is_too_many:
                    _back_to_alternatives(moves, ended.claim)
                elif moves and isinstance(moves[-1], _Alternatives):
                    moves[-1].is_too_many = False
            if not moves:
                return
            if self._tries_left < 0:
                self.has_given_up = True
                return
            yield
            move = moves[-1]
            while len(self._trail) > move.depth:
                self._give_back()
            following = next(move.choices, _Stop.EXHAUSTED)
        self.solution = [[] for _ in self._claims]
        for request, candidate, _ in self._trail:
            self.solution[request.claim].append((request, candidate))

    def _prepare(self) -> Iterator[None]:
        """Check the claims in their order, and find the devices of requests for all."""
        for claim in self._claims:
            least = 0
            for alternatives in claim.requests:
                for request in alternatives:
                    if request.problem:
                        raise Unsolvable(request.problem)
                    if request.count is None:
                        yield from self._find_all(request)
                least += min(map(self._count, alternatives))
            if least > RESULTS_MAX:
                raise Unsolvable(
                    f"claim {claim.label}: number of requested devices {least} exceeds the claim limit of {RESULTS_MAX}"
                )
            if claim.constraints:
                made = [self._constraint(claim, number) for number in range(len(claim.constraints))]
                for alternatives in claim.requests:
                    self._constraints |= {each: [made[index] for index in each.constraints] for each in alternatives}

    def _constraint(self, claim: Claim, number: int) -> Constraint:
        made = constraints.make(claim.constraints[number], lists=self._setting.features.list_type_attributes)
        if made is None:
            raise Unsolvable(
                f"claim {claim.label}, constraint #{number}: empty constraint (unsupported constraint type?)"
            )
        return made

    def _find_all(self, request: Request) -> Iterator[None]:
        found = self._all[request] = []
        self._counts[request] = 0
        for pool in self._pools:
            if pool.state is not PoolState.USABLE:
                what = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise Unsolvable(
                    f"{request.label}: asks for all devices, but resource pool {pool.id} is currently {what}"
                )
            for candidate in self._examiner.matching(request, pool, self._node):
                if candidate is None:
                    yield
                    continue
                if candidate.error:
                    raise Unsolvable(candidate.error)
                self._counts[request] += 1
                if len(found) < RESULTS_MAX:
                    found.append(candidate)

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
        return _Alternatives(first.claim, choices, len(self._trail))

    def _begin(self, request: Request, position: int) -> _Next:
        count = self._count(request)
        if request.count is None and not count:
            return _Move(request.claim, iter(()), len(self._trail))
        if len(self._trail) + count > RESULTS_MAX:
            of_claim = sum(other.claim == request.claim for other, _, _ in self._trail)
            if of_claim + count > RESULTS_MAX:
                return _Stop.TOO_MANY
        return self._go_on(request, position, 0, 0)

    def _go_on(self, request: Request, position: int, number: int, start: int) -> _Next:
        """The move for the device of this number of the request, from a place among its candidates on."""
        if number == self._count(request):
            return self._open(position + 1)
        if request.count is None:
            choices = self._take_next_of_all(request, position, number)
        else:
            choices = self._take_any(request, position, number, start)
        return _Move(request.claim, choices, len(self._trail))

    def _take_any(self, request: Request, position: int, number: int, start: int) -> Iterator[_Next]:
        """Give the request one candidate after the other."""
        candidates = self._candidates.get(request)
        if candidates is None:
            found = self._examiner.candidates(request, self._pools, self._node)
            candidates = self._candidates[request] = Candidates(found)
        missing = (request.count or 0) - number
        place = start
        while True:
            while place == len(candidates.found) and not candidates.is_complete:
                if not candidates.examine():
                    yield None
            if candidates.is_complete:
                left = len(candidates.found) - place
                if not left or (left < missing and not candidates.has_errors):
                    return
            candidate = candidates.found[place]
            place += 1
            if self._take(request, candidate):
                yield self._go_on(request, position, number + 1, place)
            elif not place % PAUSE:
                yield None

    def _take_next_of_all(self, request: Request, position: int, number: int) -> Iterator[_Next]:
        """Give the request the next of its devices; without it there is no solution."""
        candidate = self._all[request][number]
        device = candidate.device
        if not (self._examiner.is_free(request, device) and self._examiner.is_allowed(request, device)):
            return
        if self._take(request, candidate, required=True):
            yield self._go_on(request, position, number + 1, 0)

    def _take(self, request: Request, candidate: Candidate, *, required: bool = False) -> bool:
        """Choose the device, if it is free together with what is chosen already.  An error in its place is raised."""
        self._tries_left -= 1
        device, pool, consumed, is_share, error = candidate
        holders = self._taken.get(device)
        if holders and (not request.admin_access or (not is_share and request.claim in holders)):
            return False
        if error:
            raise Unsolvable(error)
        needs_counters = bool(device.consumes) and self._needs_counters(candidate)
        if needs_counters and not self._has_counters(device, pool):
            return False
        if request.constraints and not _meets(self._constraints[request], device):
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
            self._shares.setdefault(device, []).append(consumed)
        else:
            self._taken.setdefault(device, []).append(request.claim)
        self._trail.append((request, candidate, needs_counters))
        return True

    def _give_back(self) -> None:
        """Take back the last choice."""
        request, (device, pool, _, is_share, _), has_counters = self._trail.pop()
        held: dict[Device, Any] = self._shares if is_share else self._taken
        holders = held[device]
        holders.pop()
        if not holders:
            del held[device]
        if has_counters:
            used = self._consumed[pool]
            for counter, value in device.consumes:
                used[counter] -= value
        self._leave_constraints(request)

    def _needs_counters(self, candidate: Candidate) -> bool:
        """Whether its counters are to be counted: those of a device with a share are counted already."""
        device = candidate.device
        return not (candidate.is_share and (device.id in self._state.shares or device in self._shares))

    def _has_counters(self, device: Device, pool: Pool) -> bool:
        free = self._setting.counters.of(pool)
        if free is None:
            return False
        used = self._consumed.get(pool, {})
        return all(used.get(counter, 0) + value <= free[counter] for counter, value in device.consumes)

    def _has_capacity(self, device: Device, consumed: Consumption) -> bool:
        """Whether that much is left of a device that has shares."""
        held, chosen = self._state.capacity.get(device.id, {}), self._shares.get(device, ())
        if not held and not chosen:
            return True
        for name, amount in consumed.items():
            total = held.get(name, 0) + amount.nanos
            for each in chosen:
                total += each[name].nanos
            if total > device.content.capacities[name].value.nanos:
                return False
        return True

    def _leave_constraints(self, request: Request) -> None:
        if request.constraints:
            for each in self._constraints[request]:
                each.remove()


def _meets(given: Sequence[Constraint], device: Device) -> bool:
    """Add the device to these constraints, unless one of them refuses it."""
    for number, constraint in enumerate(given):
        if not constraint.add(device.content):
            for added in given[:number]:
                added.remove()
            return False
    return True


def _back_to_alternatives(moves: list[_Move], claim: int) -> None:
    """Drop the claim's moves up to the last one between alternatives, because other devices are not fewer devices.

    Without alternatives in the claim, the previous claim goes on.
    """
    while moves and moves[-1].claim == claim and not isinstance(moves[-1], _Alternatives):
        moves.pop()
