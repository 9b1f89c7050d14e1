"""Which of the waiting Pods fit into the quotas that cover them: one decision about all of them.

Order: by priority, among equals by creation, or where a quota shares fairly by the share of their namespace (dominant
resource fairness: the greatest part of any limit, Ghodsi et al. 2011).  A Pod that fits may overtake one that does
not.  Where a quota shares fairly, it may do so only as far as its namespace gets no larger share than the other Pod
would bring its own: the shares of namespaces that wait differ by one Pod's size at most.

Aging: Pods that have waited for `patience` come before all others, the oldest first.  For the oldest of them that does
not fit, room is kept: those after it are released only if they fit beside it.  Where a quota shares fairly, this is so
for the oldest Pod of a namespace from which no Pod was released for `patience`.  So no Pod that fits into the limits
waits for ever, as long as others end, and no namespace gets more than one Pod in each `patience` out of turn.

Claims: one that several Pods use counts once in each quota.  So a Pod takes less once another Pod that uses its claim
is released, and by aging, too, both need no more than both take together.

Cost: during one decision the usage and the shares only grow.  So if the first Pod of a line (Pods that differ only in
age) is not released, neither are those behind it, and the cost depends on the released Pods and on the number of lines,
not on all Pods that wait.

Invariants: total; what is granted never makes a quota exceed a limit, nor exceed it by more where it is exceeded;
deterministic.
"""

import heapq
import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType
from typing import Final, TypeAlias

from tollbar.api.reasons import HoldReason
from tollbar.decide.quotas.lines import Charge, Lines
from tollbar.model.objects import Key
from tollbar.model.podresources import Amounts

PODS: Final = "pods"
"""The resource that every Pod takes one of."""
_ZERO: Final = Decimal(0)
_INFINITE: Final = Decimal("Infinity")
_HOPELESS: Final = frozenset({HoldReason.TOO_SMALL, HoldReason.CLAIM_MISSING})
"""Room that comes makes no difference: such a Pod keeps nobody from going."""


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits by resource.  `patience` is in seconds, infinite where waiting makes no difference."""

    name: str
    limits: Mapping[str, Decimal]
    fair: bool = False
    patience: float = math.inf
    counts_devices: bool = False
    """Whether a limit is on devices: then no Pod goes of which nobody knows how many it takes."""


@dataclass(frozen=True, slots=True)
class Held:
    """Why a Pod waits, and what for."""

    reason: HoldReason
    subject: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The Pods that are released, in their order, and why each of the others is not; the usage afterwards, by quota."""

    granted: Sequence[Charge]
    held: Mapping[Key, Held]
    accounts: Mapping[str, "Account"]


class Account:
    """What is used of one quota, by all and by each namespace."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.used: Amounts = defaultdict(Decimal)
        self.by_namespace: dict[str, Amounts] = defaultdict(lambda: defaultdict(Decimal))
        self._claims: set[Key] = set()
        """ResourceClaims that are counted."""
        self.oldest: Charge | None = None
        """The oldest Pod that has lost its patience and does not fit."""
        self.furthest: Decimal | None = None
        """The share that no namespace may exceed, since somebody was overtaken."""

    def add(self, charge: Charge, times: int = 1) -> None:
        """Count a Pod, or so many of its line."""
        of_namespace = self.by_namespace[charge.pod.namespace]
        for name, amount, _ in self.taken(charge):
            all_of_them = amount + charge.amounts.get(name, _ZERO) * (times - 1)
            self.used[name] += all_of_them
            of_namespace[name] += all_of_them
        self._claims.update(charge.claims)

    def amounts(self, *charges: Charge) -> Mapping[str, Decimal]:
        """What these Pods take together, by resource: nothing by a claim that is counted already."""
        new = {key: amounts for each in charges for key, amounts in each.claims.items() if key not in self._claims}
        if not new and len(charges) == 1:
            return charges[0].amounts
        found: Amounts = defaultdict(Decimal)
        for amounts in (*(each.amounts for each in charges), *new.values()):
            for name, amount in amounts.items():
                found[name] += amount
        return found

    def taken(self, charge: Charge) -> Iterator[tuple[str, Decimal, Decimal]]:
        """What the Pod takes of each limit: the resource, the amount and the limit."""
        amounts = self.amounts(charge)
        for name, limit in self.quota.limits.items():
            if amount := amounts.get(name):
                yield name, amount, limit

    def share(self, namespace: str, more: Charge | None = None) -> Decimal:
        """The dominant share of a namespace, with one Pod more if that is given."""
        of_namespace = self.by_namespace.get(namespace) or {}
        amounts = self.amounts(more) if more is not None else {}
        found = _ZERO
        for name, limit in self.quota.limits.items():
            amount = of_namespace.get(name, _ZERO) + amounts.get(name, _ZERO)
            if amount:
                found = max(found, amount / limit if limit else _INFINITE)
        return found

    def is_possible(self, charge: Charge) -> bool:
        """Whether the Pod would fit if nothing else were used."""
        return not self._is_unknown(charge) and all(amount <= limit for _, amount, limit in self.taken(charge))

    def obstacle(self, charge: Charge, *, impatient: bool) -> Held | None:
        """Why this quota does not let the Pod be released."""
        if self._is_unknown(charge):
            return Held(HoldReason.CLAIM_MISSING, charge.unknown)
        found = None
        beside_oldest = self.amounts(charge, self.oldest) if self.oldest is not None else {}
        for name, amount, limit in self.taken(charge):
            if amount > limit:
                return Held(HoldReason.TOO_SMALL, f"a PodQuota {self.quota.name} that allows it as much {name}")
            room = limit - self.used[name]
            if amount > room:
                found = Held(HoldReason.EXCEEDED, f"{name} in PodQuota {self.quota.name}")
            elif found is None and self.oldest is not None and beside_oldest[name] > room:
                found = Held(
                    HoldReason.KEPT, f"Pod {self.oldest.pod}, which is before it in PodQuota {self.quota.name}"
                )
        if found is not None or impatient or self.furthest is None:
            return found
        if self.share(charge.pod.namespace, charge) > self.furthest:
            return Held(HoldReason.SHARED, f"namespaces with a smaller share of PodQuota {self.quota.name}")
        return None

    def _is_unknown(self, charge: Charge) -> bool:
        return bool(charge.unknown) and self.quota.counts_devices

    def passed_over(self, charge: Charge, *, impatient: bool, is_full: bool) -> None:
        """The Pod does not go; `is_full` is whether it is this quota that has no room for it."""
        if impatient and self.oldest is None:
            self.oldest = charge
        if is_full and self.quota.fair:
            reach = self.share(charge.pod.namespace, charge)
            self.furthest = reach if self.furthest is None else min(self.furthest, reach)

    def is_beyond(self, charge: Charge) -> bool:
        """Whether the Pod, passed over, leaves `furthest` as it is, now and whatever else is granted."""
        return self.furthest is not None and self.share(charge.pod.namespace, charge) >= self.furthest


Served: TypeAlias = Mapping[tuple[str, str], float]
"""When the last Pod went, by quota and namespace, in epoch seconds; absent where that is not known."""


def admit(
    quotas: Iterable[Quota],
    released: Lines,
    waiting: Lines,
    now: float,
    served: Served = MappingProxyType({}),
    *,
    one_by_one: bool = False,
) -> Admission:
    """Which of the `waiting` Pods are released beside those that are `released` already; `now` in epoch seconds.

    A quota that is named and not given limits nothing.  With `one_by_one` every Pod is asked about by itself: `held`
    is in the order of their turns, and each has the reason that holds when its turn comes.
    """
    accounts = {quota.name: Account(quota) for quota in quotas}
    for line in released:
        for account in _covering(line[0], accounts):
            account.add(line[0], len(line))
    queues = [_Queue(line, _covering(line[0], accounts)) for line in waiting]
    turns = _Turns(one_by_one=one_by_one)
    _let_the_impatient_first(queues, now, served)
    turns.serve(queues, impatient=True)
    by_priority: dict[int, list[_Queue]] = defaultdict(list)
    for queue in queues:
        queue.end = len(queue.line)
        by_priority[queue.line[0].priority].append(queue)
    for priority in sorted(by_priority, reverse=True):
        turns.serve(by_priority[priority], impatient=False)
    return Admission(turns.granted, turns.held, accounts)


def exceeded(charge: Charge, accounts: Mapping[str, Account]) -> Held | None:
    """What keeps a Pod that counts as released from going: a limit on something it takes, of which too much is used."""
    taken = {name for amounts in (charge.amounts, *charge.claims.values()) for name in amounts}
    for account in _covering(charge, accounts):
        for name, limit in account.quota.limits.items():
            if name in taken and account.used[name] > limit:
                return Held(HoldReason.EXCEEDED, f"{name} in PodQuota {account.quota.name}")
    return None


def _covering(charge: Charge, accounts: Mapping[str, Account]) -> tuple[Account, ...]:
    return tuple(accounts[name] for name in charge.quotas if name in accounts)


class _Queue:
    """The Pods of one line from `place` to before `end`, who have the quotas in common that cover them."""

    def __init__(self, line: Sequence[Charge], covering: tuple[Account, ...]) -> None:
        self.line = line
        self.covering = covering
        self._fair = tuple(each for each in covering if each.quota.fair)
        self.place = self.end = 0
        self.share = _ZERO
        """Of their namespace, when it was last looked at: where quotas share fairly, the greatest."""

    def __lt__(self, other: "_Queue") -> bool:
        return (self.share, self.line[self.place].age) < (other.share, other.line[other.place].age)

    def share_now(self) -> Decimal:
        namespace = self.line[0].pod.namespace
        return max((each.share(namespace) for each in self._fair), default=_ZERO)

    def speaks_for_the_line(self, why: Held) -> bool:
        """Whether Pods behind the one at `place`, held for this reason, are held as well and keep nobody else back."""
        charge = self.line[self.place]
        if why.reason in _HOPELESS and not charge.claims:
            return True
        return all(each.is_beyond(charge) for each in self._fair)


class _Turns:
    """Asks about one Pod after the other, and keeps what came of it."""

    def __init__(self, *, one_by_one: bool) -> None:
        self._one_by_one = one_by_one
        self.granted: list[Charge] = []
        self.held: dict[Key, Held] = {}

    def serve(self, queues: Iterable[_Queue], *, impatient: bool) -> None:
        """The oldest first; unless they are impatient, by the share that their namespace has when their turn comes."""
        heap = [each for each in queues if each.place < each.end]
        heapq.heapify(heap)
        while heap:
            queue = heap[0]
            if not impatient and (share := queue.share_now()) > queue.share:  # it has grown since it was looked at
                queue.share = share
            else:
                self._ask(queue, impatient=impatient)
            if queue.place < queue.end:
                heapq.heapreplace(heap, queue)
            else:
                heapq.heappop(heap)

    def _ask(self, queue: _Queue, *, impatient: bool) -> None:
        charge, after = queue.line[queue.place], queue.place + 1
        why = _obstacle(charge, queue.covering, impatient=impatient)
        if why is None:
            for account in queue.covering:
                account.add(charge)
            self.granted.append(charge)
        else:
            if not self._one_by_one and queue.speaks_for_the_line(why):
                after = queue.end
            self.held.update((each.pod, why) for each in queue.line[queue.place : after])
        queue.place = after


def _let_the_impatient_first(queues: Iterable[_Queue], now: float, served: Served) -> None:
    """Let each queue end behind the Pods that have lost their patience and could go at all."""
    oldest: dict[tuple[str, str], _Queue] = {}
    for queue in queues:
        head = queue.line[0]
        if not all(each.is_possible(head) for each in queue.covering):
            continue
        for quota in (each.quota for each in queue.covering):
            whose = quota.name, head.pod.namespace
            if now - head.created < quota.patience:
                continue
            if not quota.fair:
                lost = bisect_right(queue.line, -quota.patience, key=lambda each: each.created - now)
                queue.end = max(queue.end, lost)
            elif now - served.get(whose, -math.inf) >= quota.patience:
                known = oldest.get(whose)
                oldest[whose] = queue if known is None or head.age < known.line[0].age else known
    for queue in oldest.values():
        queue.end = max(queue.end, 1)


def _obstacle(charge: Charge, covering: Iterable[Account], *, impatient: bool) -> Held | None:
    found = [(each, why) for each in covering if (why := each.obstacle(charge, impatient=impatient)) is not None]
    if not found:
        return None
    hopeless = next((why for _, why in found if why.reason in _HOPELESS), None)
    if hopeless is not None:
        return hopeless
    full = [each for each, why in found if why.reason is HoldReason.EXCEEDED]
    for each in covering:
        each.passed_over(charge, impatient=impatient, is_full=each in full)
    return found[0][1]
