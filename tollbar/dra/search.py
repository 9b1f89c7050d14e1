"""The search for devices: depth first over claims, their requests, and the devices of each request.

The first solution counts.  Within one request only combinations are tried, no permutations: the next device comes
later in the order of pools, slices and devices than the one before.  Source: allocateOne and allocateDevice in
k8s.io/dynamic-resource-allocation/structured.

The search is a stack of moves.  A move makes one choice after the other, each of which leads to the next deeper move;
what it has chosen is taken back before it chooses again, and when the move is dropped.  So the search can pause
anywhere, and no depth is too deep for it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from tollbar.dra.candidates import PAUSE, Available, Candidate, Candidates, Examiner
from tollbar.dra.capacity import Consumption
from tollbar.dra.constraints import Values
from tollbar.dra.counters import FreeCounters
from tollbar.dra.inventory import Pool, PoolState
from tollbar.dra.requests import Asked, Claim, Request
from tollbar.dra.slices import CounterId, Device
from tollbar.dra.state import AllocatedState
from tollbar.model.claims import RESULTS_MAX
from tollbar.model.objects import Object


class Unsolvable(Exception):
    """Something is wrong with the claims, so that no Node needs to be asked; the message is kube-scheduler's."""


class UnusablePool(Unsolvable):
    """A request for all devices meets a pool that gives none, as its state says."""

    def __init__(self, message: str, state: PoolState) -> None:
        super().__init__(message)
        self.state = state


class FailingDevice(Unsolvable):
    """A selector has no answer for a device, or it cannot be told how much of its capacity a request consumes."""


Chosen: TypeAlias = tuple[Request, Candidate]
"""A device for a request."""

_Kept: TypeAlias = tuple[Values | None, ...]
"""What each constraint of a claim has to know of the devices that the claim has so far."""


class _Stop(Enum):
    SOLVED = "solved"
    EXHAUSTED = "exhausted"
    TOO_MANY = "too many devices for one claim"


@dataclass(slots=True, eq=False)
class _Move:
    """`position` is that of its request, counted over all claims.  Before it, the constraints know `kept`."""

    position: int
    kept: _Kept


@dataclass(slots=True, eq=False)
class _Alternatives(_Move):
    """Chooses between the alternatives of a prioritized list, of which it has tried so many."""

    requests: tuple[Request, ...]
    tried: int = 0
    is_too_many: bool = True
    """Whether all of them so far led to more devices than a claim can get."""

    @property
    def claim(self) -> int:
        return self.requests[0].claim


@dataclass(slots=True, eq=False)
class _Device(_Move):
    """Chooses a device for the request, which needs so many with this one, from a place among its candidates on."""

    request: Request
    missing: int
    candidates: Candidates
    place: int = 0
    chosen: Candidate | None = None
    has_counters: bool = False
    """Whether the counters of the chosen device are counted: a second share of a device adds none."""

    @property
    def claim(self) -> int:
        return self.request.claim


_Next: TypeAlias = _Alternatives | _Device | _Stop | None
"""Where a choice leads to; None is a pause without a choice."""


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What all searches of one scheduling cycle have in common."""

    state: AllocatedState
    examiner: Examiner
    available: Available
    counters: FreeCounters


class Search:
    """One search for the devices of a Pod's claims on one Node.

    `steps` are the moves so far.  `solution` has the devices of each claim, None if there is none.  With `has_given_up`
    there may be one all the same: more than `tries_max` devices were tried for the requests together.
    """

    def __init__(self, setting: Setting, node: Object, asked: Asked, pools: Sequence[Pool], tries_max: int) -> None:
        self.steps = 0
        self.has_given_up = False
        self._tries_left = tries_max
        self.solution: list[list[Chosen]] | None = None
        self._setting = setting
        self._state = setting.state
        self._examiner = setting.examiner
        self._node = node
        self._claims = asked.claims
        self._pools = pools
        self._requests = asked.requests
        self._all: dict[Request, list[Candidate]] = {}
        """The devices of each request for all devices, but no more than a claim can get."""
        self._counts: dict[Request, int] = {}
        """How many devices there are for each request for all devices."""
        self._candidates: dict[object, Candidates] = {}
        """By the kind of request."""
        self._moves: list[_Alternatives | _Device] = []
        self._taken: dict[Device, list[int]] = {}
        """Whole devices that are chosen, each with the indexes of the claims that have it."""
        self._shares: dict[Device, list[Consumption]] = {}
        """Shared devices that are chosen, each with what every share consumes."""
        self._consumed: dict[Pool, dict[CounterId, int]] = {}
        """What the chosen devices consume of the counters of their pools."""

    def run(self) -> Iterator[None]:
        """Search until the end; each value is a pause.  Raises Unsolvable."""
        for claim in self._claims:
            if not claim.is_plain:
                yield from self._check(claim)
        moves = self._moves
        pause_at = max(self._tries_left - PAUSE, -1)
        following = self._open(0, ())
        while following is not _Stop.SOLVED:
            if isinstance(following, _Move):
                self.steps += 1
                moves.append(following)
            elif following is _Stop.TOO_MANY:
                self._back_to_alternatives(moves[-1].claim)
            elif following is _Stop.EXHAUSTED:
                ended = moves.pop()
                if isinstance(ended, _Alternatives) and ended.is_too_many:
                    self._back_to_alternatives(ended.claim)
                elif moves and isinstance(moves[-1], _Alternatives):
                    moves[-1].is_too_many = False
            if not moves:
                return
            if following is None or self._tries_left <= pause_at:
                if self._tries_left < 0:
                    self.has_given_up = True
                    return
                yield
                pause_at = max(self._tries_left - PAUSE, -1)
            move = moves[-1]
            following = self._choose_device(move) if isinstance(move, _Device) else self._choose_alternative(move)
        self.solution = [[] for _ in self._claims]
        for move in moves:
            if isinstance(move, _Device) and move.chosen is not None:
                self.solution[move.request.claim].append((move.request, move.chosen))

    def _check(self, claim: Claim) -> Iterator[None]:
        """Raise what is wrong with the claim, and find the devices of requests for all."""
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
        for number, constraint in enumerate(claim.constraints):
            if constraint is None:
                raise Unsolvable(
                    f"claim {claim.label}, constraint #{number}: empty constraint (unsupported constraint type?)"
                )

    def _find_all(self, request: Request) -> Iterator[None]:
        found = self._all[request] = []
        self._counts[request] = 0
        for pool in self._pools:
            if pool.state is not PoolState.USABLE:
                what = "being updated" if pool.state is PoolState.INCOMPLETE else "invalid"
                raise UnusablePool(
                    f"{request.label}: asks for all devices, but resource pool {pool.id} is currently {what}",
                    pool.state,
                )
            for candidate in self._examiner.matching(request, pool, self._node):
                if candidate is None:
                    yield
                    continue
                if candidate.error:
                    raise FailingDevice(candidate.error)
                self._counts[request] += 1
                if len(found) < RESULTS_MAX:
                    found.append(candidate)

    def _count(self, request: Request) -> int:
        return self._counts[request] if request.count is None else request.count

    def _open(self, position: int, kept: _Kept) -> _Next:
        """The move for the request of this position, before which the constraints know `kept`."""
        if position == len(self._requests):
            return _Stop.SOLVED
        alternatives = self._requests[position]
        first = alternatives[0]
        if first.index == 0:
            kept = (None,) * len(self._claims[first.claim].constraints)
        if first.is_alternative:
            return _Alternatives(position, kept, alternatives)
        return self._begin(first, position, kept)

    def _choose_alternative(self, move: _Alternatives) -> _Next:
        if move.tried == len(move.requests):
            return _Stop.EXHAUSTED
        move.tried += 1
        return self._begin(move.requests[move.tried - 1], move.position, move.kept)

    def _begin(self, request: Request, position: int, kept: _Kept) -> _Next:
        """The move for the first device of the request."""
        count = self._count(request)
        if len(self._moves) + count > RESULTS_MAX:
            of_claim = sum(isinstance(each, _Device) and each.claim == request.claim for each in self._moves)
            if of_claim + count > RESULTS_MAX:
                return _Stop.TOO_MANY
        if request.count == 0:
            return self._open(position + 1, kept)
        candidates = self._candidates.get(request.kind)
        if candidates is None:
            found = self._setting.available.candidates(request, self._pools, self._node)
            candidates = self._candidates[request.kind] = Candidates(found)
        return _Device(position, kept, request, count, candidates)

    def _choose_device(self, move: _Device) -> _Next:
        """Choose the next device in the place of the one that the move has chosen."""
        if move.chosen is not None:
            self._give_back(move, move.chosen)
        chosen = self._take_next_of_all(move) if move.request.count is None else self._take_any(move)
        if not isinstance(chosen, tuple):
            return chosen
        if move.missing == 1:
            return self._open(move.position + 1, chosen)
        return _Device(move.position, chosen, move.request, move.missing - 1, move.candidates, move.place)

    def _take_any(self, move: _Device) -> "_Kept | _Stop | None":
        """Give the request one candidate after the other, until it can have one."""
        candidates = move.candidates
        while True:
            while move.place == len(candidates.found) and not candidates.is_complete:
                if not candidates.examine():
                    return None
            if candidates.is_complete:
                left = len(candidates.found) - move.place
                if not left or (left < move.missing and not candidates.has_errors):
                    return _Stop.EXHAUSTED
            candidate = candidates.found[move.place]
            move.place += 1
            kept = self._take(move, candidate)
            if kept is not None or not move.place % PAUSE:
                return kept

    def _take_next_of_all(self, move: _Device) -> "_Kept | _Stop":
        """Give the request the next of its devices; without it there is no solution."""
        request, devices = move.request, self._all[move.request]
        if move.place + move.missing > len(devices) or not devices:
            return _Stop.EXHAUSTED
        candidate = devices[move.place]
        move.place += 1
        device = candidate.device
        if not (self._examiner.is_free(request, device) and self._examiner.is_allowed(request, device)):
            return _Stop.EXHAUSTED
        kept = self._take(move, candidate, required=True)
        return _Stop.EXHAUSTED if kept is None else kept

    def _take(self, move: _Device, candidate: Candidate, *, required: bool = False) -> _Kept | None:
        """Choose the device, if it is free together with what is chosen already; what the constraints know then.

        An error in its place is raised.
        """
        self._tries_left -= 1
        request = move.request
        device, pool, consumed, is_share, error = candidate
        holders = self._taken.get(device)
        if holders and (not request.admin_access or (not is_share and request.claim in holders)):
            return None
        if error:
            raise FailingDevice(self._examiner.problem(request, candidate, self._node))
        needs_counters = bool(device.consumes) and self._needs_counters(candidate)
        if needs_counters and not self._has_counters(device, pool):
            return None
        kept = _kept_with(device, request, move.kept) if request.constraints else move.kept
        if kept is None and required:
            raise Unsolvable(
                f"{request.label}: cannot add device {device.id} because a claim constraint would not be satisfied"
            )
        if kept is None:
            return None
        if consumed.parts and (is_share or device.id in self._state.capacity) and not self._has_capacity(candidate):
            return None
        if needs_counters:
            used = self._consumed.setdefault(pool, {})
            for counter, value in device.consumes:
                used[counter] = used.get(counter, 0) + value
        if is_share:
            self._shares.setdefault(device, []).append(consumed)
        else:
            self._taken.setdefault(device, []).append(request.claim)
        move.chosen, move.has_counters = candidate, needs_counters
        return kept

    def _give_back(self, move: _Device, chosen: Candidate) -> None:
        """Take back what the move has chosen; all deeper moves must have given back theirs."""
        move.chosen = None
        device, pool, _, is_share, _ = chosen
        held: dict[Device, Any] = self._shares if is_share else self._taken
        holders = held[device]
        holders.pop()
        if not holders:
            del held[device]
        if move.has_counters:
            used = self._consumed[pool]
            for counter, value in device.consumes:
                used[counter] -= value

    def _back_to_alternatives(self, claim: int) -> None:
        """Drop the claim's moves up to the last one between alternatives: other devices are not fewer devices.

        Without alternatives in the claim, the previous claim goes on.
        """
        while self._moves:
            move = self._moves[-1]
            if move.claim != claim or isinstance(move, _Alternatives):
                return
            if move.chosen is not None:
                self._give_back(move, move.chosen)
            self._moves.pop()

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

    def _has_capacity(self, candidate: Candidate) -> bool:
        """Whether that much is left of a device that has, or had, shares."""
        held, chosen = self._state.capacity.get(candidate.device.id), self._shares.get(candidate.device)
        if held is None and chosen is None:
            return True
        for place, (name, total, limit) in enumerate(candidate.consumed.parts):
            if held is not None:
                total += held.get(name, 0)
            for each in chosen or ():
                total += each.parts[place][1]
            if total > limit:
                return False
        return True


def _kept_with(device: Device, request: Request, kept: _Kept) -> _Kept | None:
    """What the constraints know with this device, too; None if one of them refuses it."""
    now = list(kept)
    for index, constraint in request.constraints:
        values = constraint.with_device(device.content, now[index])
        if values is None:
            return None
        now[index] = values
    return tuple(now)
