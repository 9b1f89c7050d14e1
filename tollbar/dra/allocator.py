"""The structured allocator of Dynamic Resource Allocation: which devices the claims of a Pod get on a Node.

It decides as kube-scheduler's does (k8s.io/dynamic-resource-allocation/structured), and needs neither a cluster nor a
scheduler.  Errors are values with upstream's texts; docs/reference/allocator.md lists what differs.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from operator import attrgetter
from random import getrandbits
from typing import Final

from tollbar.dra import requests, results
from tollbar.dra.candidates import Available, Examiner
from tollbar.dra.counters import FreeCounters
from tollbar.dra.inventory import Inventory, Pool, PoolState
from tollbar.dra.requests import Asked, Claim
from tollbar.dra.search import Search, Setting, Unsolvable
from tollbar.dra.selectors import Selectors
from tollbar.dra.state import AllocatedState
from tollbar.model.objects import Object
from tollbar.model.steps import Steps

_ORDER: Final = attrgetter("order")
TRIES_MAX: Final = 1_000_000
"""How many devices an allocation on one Node may try for its requests: some seconds of search."""


def _share_ids() -> Iterator[str]:
    """UUIDs (RFC 9562, version 4) that begin at a random one and differ in their last 48 bits, which are counted on.

    To make each of them at random takes several times as long.  They are no secret.
    """
    head = f"{getrandbits(32):08x}-{getrandbits(16):04x}-4{getrandbits(12):03x}-8{getrandbits(12):03x}"
    for number in count(getrandbits(47)):
        yield f"{head}-{number:012x}"


@dataclass(frozen=True, slots=True)
class Failed:
    """Why the claims cannot be allocated.

    With `node_only` another Node may still do, and with `timed_out` more time; else the claims or their classes are at
    fault, and `error` is what is wrong with them.
    """

    message: str
    node_only: bool = False
    timed_out: bool = False
    error: Unsolvable | None = field(default=None, compare=False)


class Allocation:
    """An allocation under way, which can be worked on in pieces so that an event loop is not held for long.

    `result` is what `Allocator.allocate` returns; it stands once `run` has returned true.
    """

    def __init__(self, allocator: "Allocator", node: Object, claims: Sequence[Object]) -> None:
        self.result: list[Object] | Failed | None = None
        self._allocator = allocator
        self._work = _work(allocator, node, claims)
        self._has_ended = False

    def run(self, seconds: float = float("inf")) -> bool:
        """Go on for about so many seconds; true at the end.

        A piece takes longer by what is done at a time: to compile a selector, to evaluate it for a device, to parse a
        claim, to make a pool anew whose slices have changed.
        """
        clock, deadline = self._allocator.clock, self._allocator.deadline
        until = min(clock() + seconds, deadline)
        while not self._has_ended:
            try:
                next(self._work)
            except StopIteration as end:
                self._end(end.value)
                break
            if clock() >= until:
                if until < deadline:
                    return False
                self._work.close()
                self._end(Failed("filter operation aborted: context deadline exceeded", timed_out=True))
        return True

    def _end(self, result: list[Object] | Failed | None) -> None:
        self.result, self._has_ended = result, True


def _work(allocator: "Allocator", node: Object, claims: Sequence[Object]) -> Steps[list[Object] | Failed | None]:
    """The result of an Allocation, with a pause after each step.

    It does not refer to the Allocation, which would refer to itself then: one that is dropped in a pause would stay in
    memory until the garbage collector finds it.
    """
    known = tuple(map(id, claims))
    asked = allocator.known.get(known)
    if asked is None:
        parsed = []
        for index, claim in enumerate(claims):
            parsed.append((yield from allocator.parsed(index, claim)))
        asked = allocator.known[known] = Asked(parsed)
    pools = []
    for pool in allocator.inventory.pools(node):
        if allocator.may_use(pool):
            pools.append(pool)
        yield
    if len(pools) > 1:
        pools.sort(key=_ORDER)
    search = Search(allocator.setting, node, asked, pools, allocator.tries_max)
    try:
        yield from search.run()
        if search.has_given_up:
            limit = f"no solution within {allocator.tries_max} tries"
            return Failed(f"filter operation aborted: {limit}", timed_out=True)
        if search.solution is not None:
            return [
                results.allocation(claim, chosen, node, allocator.inventory.features, allocator.share_id)
                for claim, chosen in zip(asked.claims, search.solution, strict=True)
            ]
    except Unsolvable as problem:
        return Failed(str(problem), error=problem.with_traceback(None))  # whose frames would keep the search in memory
    finally:
        allocator.steps += search.steps
    if any(pool.state is PoolState.INVALID for pool in pools):
        return Failed("invalid resource pools were encountered", node_only=True)
    return None


class Allocator:
    """Allocates the claims of one Pod, on as many Nodes as are asked about.

    All Nodes of a scheduling cycle are asked of one allocator, so that requests, counters and pools are worked out
    once.  `selectors` keeps compiled device selectors: share one between the allocators of a process.  `deadline` is a
    time of `clock` (seconds) and counts for all Nodes together, `tries_max` for one Node.  `steps` counts the moves of
    all searches that have ended.  Pools that the caller may not use count as if they did not exist.

    When the state or the inventory changes, an Allocation under way has to be dropped.
    """

    def __init__(
        self,
        inventory: Inventory,
        state: AllocatedState,
        classes: Mapping[str, Object],
        *,
        selectors: Selectors | None = None,
        clock: Callable[[], float] = time.monotonic,
        deadline: float = float("inf"),
        tries_max: int = TRIES_MAX,
        share_id: Callable[[], str] | None = None,
        may_use: Callable[[Pool], bool] = lambda _: True,
    ) -> None:
        self.inventory = inventory
        self.clock = clock
        self.deadline = deadline
        self.tries_max = tries_max
        self.share_id = share_id or _share_ids().__next__
        self.may_use = may_use
        self.steps = 0
        self._selectors = selectors or Selectors()
        examiner = Examiner(state, inventory.features, self._selectors)
        self.setting = Setting(state, examiner, Available(examiner), FreeCounters(state))
        self._classes = classes
        self.known: dict[tuple[int, ...], Asked] = {}
        """The claims of a Pod, by the identities of their objects, which the parsed claims keep alive."""
        self._parsed: dict[tuple[int, int], Claim] = {}
        """By the claim's place in the Pod and the identity of the object, which the parsed claim keeps alive."""

    def allocate(self, node: Object, claims: Sequence[Object]) -> list[Object] | Failed | None:
        """One `status.allocation` for each of the claims, which have none yet; None if they do not fit on this Node.

        Claims are ResourceClaims as the API server has them.  ValueError or KeyError for one that it would refuse.
        """
        allocation = self.begin(node, claims)
        allocation.run()
        return allocation.result

    def begin(self, node: Object, claims: Sequence[Object]) -> Allocation:
        """The same in pieces: call `run` of the Allocation until it returns true."""
        return Allocation(self, node, claims)

    def parsed(self, index: int, claim: Object) -> Steps[Claim]:
        """The claim as the search reads it, with compiled selectors; `index` is its place among those of the Pod."""
        known = (index, id(claim))
        found = self._parsed.get(known)
        if found is None:
            found = requests.parse(index, claim, self._classes.get, self.inventory.features)
            yield
            for selector in found.selectors:
                if self._selectors.compile(selector.expression):
                    yield
            self._parsed[known] = found
        return found
