"""Which of the Pods that wait fit into the quotas that cover them: one decision about all of them.

Order: by priority, among equals by creation, or where a quota shares fairly by the share of their namespace (dominant
resource fairness: the greatest part of any limit, Ghodsi et al. 2011).  A Pod that fits may overtake one that does
not.  Where a quota shares fairly, it may do so only as far as its namespace gets no larger share than the other Pod
would bring its own: the shares of namespaces that wait differ by one Pod's size at most.

Aging: Pods that have lost their patience go before all others, the oldest first.  The oldest of them that does not
fit keeps its room: those after it go only if they fit beside it.  Where a quota shares fairly, patience is the
namespace's: it is lost by the oldest Pod of one from which no Pod has gone for so long.  So no Pod that fits into the
limits waits for ever, as long as others end, and no namespace gets more than one Pod in its patience out of turn.

Invariants: total; what is granted never makes a quota exceed a limit, nor exceed it by more where it is exceeded;
deterministic.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from types import MappingProxyType
from typing import Final, TypeAlias

from tollbar.api.reasons import HoldReason
from tollbar.model.objects import Key
from tollbar.model.podresources import Amounts

PODS: Final = "pods"
"""The resource that every Pod takes one of."""
_ZERO: Final = Decimal(0)


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits by resource.  `patience` is in seconds, infinite where waiting makes no difference."""

    name: str
    limits: Mapping[str, Decimal]
    fair: bool = False
    patience: float = math.inf


@dataclass(frozen=True, slots=True)
class Charge:
    """What one Pod takes of the quotas of these names; `amounts` are positive."""

    pod: Key
    quotas: tuple[str, ...]
    amounts: Mapping[str, Decimal]
    priority: int = 0
    created: float = 0.0
    """In epoch seconds."""

    @property
    def age(self) -> tuple[float, Key]:
        """Sorts the oldest Pod first."""
        return self.created, self.pod


@dataclass(frozen=True, slots=True)
class Held:
    """Why a Pod waits, and what for."""

    reason: HoldReason
    subject: str


@dataclass(frozen=True, slots=True)
class Admission:
    """The Pods that may go, and why each of the others may not, both in their order; what is used then, by quota."""

    granted: Sequence[Charge]
    held: Mapping[Key, Held]
    accounts: Mapping[str, "Account"]


class Account:
    """What is used of one quota, by all and by each namespace."""

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self.used: Amounts = defaultdict(Decimal)
        self.by_namespace: dict[str, Amounts] = defaultdict(lambda: defaultdict(Decimal))
        self.oldest: Charge | None = None
        """The oldest Pod that has lost its patience and does not fit."""
        self.furthest: Decimal | None = None
        """The share that no namespace may exceed, since somebody was overtaken."""

    def add(self, charge: Charge) -> None:
        of_namespace = self.by_namespace[charge.pod.namespace]
        for name, amount in charge.amounts.items():
            if name in self.quota.limits:
                self.used[name] += amount
                of_namespace[name] += amount

    def taken(self, charge: Charge) -> Iterator[tuple[str, Decimal, Decimal]]:
        """What the Pod takes of each limit: the resource, the amount and the limit."""
        for name, limit in self.quota.limits.items():
            if amount := charge.amounts.get(name):
                yield name, amount, limit

    def share(self, namespace: str, more: Charge | None = None) -> Decimal:
        """The dominant share of a namespace, with one Pod more if that is given."""
        of_namespace = self.by_namespace.get(namespace) or {}
        found = _ZERO
        for name, limit in self.quota.limits.items():
            amount = of_namespace.get(name, _ZERO) + (more.amounts.get(name, _ZERO) if more is not None else _ZERO)
            if amount:
                found = max(found, amount / limit if limit else Decimal("Infinity"))
        return found

    def is_possible(self, charge: Charge) -> bool:
        """Whether the Pod would fit if nothing were used."""
        return all(amount <= limit for _, amount, limit in self.taken(charge))

    def obstacle(self, charge: Charge, *, impatient: bool) -> Held | None:
        """What keeps the Pod from going by this quota."""
        found = None
        for name, amount, limit in self.taken(charge):
            if amount > limit:
                return Held(HoldReason.TOO_SMALL, f"a PodQuota {self.quota.name} that allows it as much {name}")
            room = limit - self.used[name] - amount
            if room < 0:
                found = Held(HoldReason.EXCEEDED, f"{name} in PodQuota {self.quota.name}")
            elif found is None and self.oldest is not None and room < self.oldest.amounts.get(name, _ZERO):
                found = Held(
                    HoldReason.KEPT, f"Pod {self.oldest.pod}, which is before it in PodQuota {self.quota.name}"
                )
        if found is not None or impatient or self.furthest is None:
            return found
        if self.share(charge.pod.namespace, charge) > self.furthest:
            return Held(HoldReason.SHARED, f"namespaces with a smaller share of PodQuota {self.quota.name}")
        return None

    def passed_over(self, charge: Charge, *, impatient: bool, is_full: bool) -> None:
        """The Pod does not go; `is_full` is whether it is this quota that has no room for it."""
        if impatient and self.oldest is None:
            self.oldest = charge
        if is_full and self.quota.fair:
            reach = self.share(charge.pod.namespace, charge)
            self.furthest = reach if self.furthest is None else min(self.furthest, reach)


Served: TypeAlias = Mapping[tuple[str, str], float]
"""When the last Pod went, by quota and namespace, in epoch seconds; absent where that is not known."""


@dataclass(order=True, slots=True)
class _Stream:
    """Pods of one level that are told apart by their age alone: of one namespace, if that makes a difference."""

    share: Decimal
    age: tuple[float, Key]
    waiting: list[Charge] = field(compare=False)
    """The oldest is the last."""


def admit(
    quotas: Iterable[Quota],
    charged: Iterable[Charge],
    waiting: Iterable[Charge],
    now: float,
    served: Served = MappingProxyType({}),
) -> Admission:
    """`charged` are the Pods that are out already; `now` in epoch seconds.

    A quota that is named and not given limits nothing.
    """
    accounts = {quota.name: Account(quota) for quota in quotas}
    for charge in charged:
        _charge(accounts, charge)
    granted: list[Charge] = []
    held: dict[Key, Held] = {}
    for charge, impatient in _in_turn([*waiting], accounts, now, served):
        if (why := _obstacle(charge, accounts, impatient=impatient)) is None:
            _charge(accounts, charge)
            granted.append(charge)
        else:
            held[charge.pod] = why
    return Admission(granted, held, accounts)


def _in_turn(
    waiting: Sequence[Charge], accounts: Mapping[str, Account], now: float, served: Served
) -> Iterator[tuple[Charge, bool]]:
    """Each Pod when its turn comes, and whether it has lost its patience."""
    impatient = _impatient(waiting, accounts, now, served)
    for charge in sorted(impatient.values(), key=lambda each: each.age):
        yield charge, True
    by_priority: dict[int, list[Charge]] = defaultdict(list)
    for charge in waiting:
        if charge.pod not in impatient:
            by_priority[charge.priority].append(charge)
    for priority in sorted(by_priority, reverse=True):
        for charge in _in_order(by_priority[priority], accounts):
            yield charge, False


def _impatient(
    waiting: Iterable[Charge], accounts: Mapping[str, Account], now: float, served: Served
) -> Mapping[Key, Charge]:
    found: dict[Key, Charge] = {}
    oldest: dict[tuple[str, str], Charge] = {}
    for charge in waiting:
        covering = [accounts[name] for name in charge.quotas if name in accounts]
        for account in covering:
            patience, whose = account.quota.patience, (account.quota.name, charge.pod.namespace)
            if now - charge.created < patience or not all(each.is_possible(charge) for each in covering):
                continue
            if not account.quota.fair:
                found[charge.pod] = charge
            elif now - served.get(whose, -math.inf) >= patience:
                oldest[whose] = min(oldest.get(whose, charge), charge, key=lambda each: each.age)
    return found | {charge.pod: charge for charge in oldest.values()}


def _in_order(charges: Iterable[Charge], accounts: Mapping[str, Account]) -> Iterator[Charge]:
    """Pods of one level, by the share that their namespace has when their turn comes."""
    by_stream: dict[tuple[str, tuple[Account, ...]], list[Charge]] = defaultdict(list)
    for charge in charges:
        fair = tuple(accounts[name] for name in charge.quotas if name in accounts and accounts[name].quota.fair)
        by_stream[charge.pod.namespace if fair else "", fair].append(charge)
    heap: list[tuple[_Stream, int]] = []
    keys = list(by_stream)
    for number, (namespace, fair) in enumerate(keys):
        queue = sorted(by_stream[namespace, fair], key=lambda each: each.age, reverse=True)
        heap.append((_Stream(_greatest(fair, namespace), queue[-1].age, queue), number))
    heapq.heapify(heap)
    while heap:
        stream, number = heap[0]
        namespace, fair = keys[number]
        share = _greatest(fair, namespace)
        if share > stream.share:  # it has grown since it was looked at
            heapq.heapreplace(heap, (_Stream(share, stream.age, stream.waiting), number))
            continue
        yield stream.waiting.pop()
        if stream.waiting:
            after = _Stream(_greatest(fair, namespace), stream.waiting[-1].age, stream.waiting)
            heapq.heapreplace(heap, (after, number))
        else:
            heapq.heappop(heap)


def _greatest(fair: Iterable[Account], namespace: str) -> Decimal:
    return max((each.share(namespace) for each in fair), default=_ZERO)


def _obstacle(charge: Charge, accounts: Mapping[str, Account], *, impatient: bool) -> Held | None:
    covering = [accounts[name] for name in charge.quotas if name in accounts]
    found = [(each, why) for each in covering if (why := each.obstacle(charge, impatient=impatient)) is not None]
    if not found:
        return None
    hopeless = next((why for _, why in found if why.reason is HoldReason.TOO_SMALL), None)
    if hopeless is not None:
        return hopeless
    full = [each for each, why in found if why.reason is HoldReason.EXCEEDED]
    for each in covering:
        each.passed_over(charge, impatient=impatient, is_full=each in full)
    return found[0][1]


def _charge(accounts: Mapping[str, Account], charge: Charge) -> None:
    for name in charge.quotas:
        if name in accounts:
            accounts[name].add(charge)
