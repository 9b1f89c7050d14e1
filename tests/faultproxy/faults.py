"""What goes wrong, and when: faults, and rules that choose the requests they befall.  Pure; the proxy acts on them."""

import random
from collections import Counter
from collections.abc import Callable, Collection, Container
from dataclasses import dataclass
from typing import Final, TypeAlias

from faultproxy.request import Request


@dataclass(frozen=True, slots=True)
class Refuse:
    """A Status in place of the answer; with `after`, in place of the answer to what the server has done."""

    status: int
    reason: str = ""
    message: str = "refused by the fault proxy"
    retry_after: int | None = None
    after: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """RST in place of the answer; with `after`, once the server has done the work: the answer is lost."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """The head of the answer, half of its body, and the end of the connection."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The request reaches the server so many seconds later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer until the client goes, or the faults end; with `after`, the server has done the work."""

    after: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """A stale read: what the first read of the same object or collection was answered (since the rule is in force)."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A watch ends after so many events: well (EOF between events), within the next one, or by RST."""

    events: int
    within: bool = False
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Expire:
    """A watch answers with the in-stream 410 after so many events and ends."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class Delay:
    """Everything on a watch arrives so many seconds later, in order."""

    seconds: float


Fault: TypeAlias = Refuse | Reset | Truncate | Slow | Hang | Replay | Cut | Expire | Delay


class _Every:
    def __contains__(self, _number: object) -> bool:
        return True


EVERY: Final[Container[int]] = _Every()
_CERTAIN: Final = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A fault for the requests of these verbs and resources (none: all) that `where` agrees to.

    `nth` says which of them, counted from 1; `probability` how many of those, at random, but once for certain when two
    could be expected; `subresource` "*" is any.
    """

    name: str
    fault: Fault
    verbs: Collection[str] = ()
    resources: Collection[str] = ()
    subresource: str = "*"
    where: Callable[[Request], bool] = lambda _request: True
    nth: Container[int] = EVERY
    probability: float = 1.0

    def concerns(self, request: Request) -> bool:
        return (
            (not self.verbs or request.verb in self.verbs)
            and (not self.resources or request.resource in self.resources)
            and self.subresource in ("*", request.subresource)
            and self.where(request)
        )


class Script:
    """The rules in force.  Every rule counts what concerns it; the first one whose turn it is strikes."""

    def __init__(self, seed: int) -> None:
        self.rules: tuple[Rule, ...] = ()
        self.hits: Counter[str] = Counter()
        """How often each rule struck, by name."""
        self._seen: Counter[Rule] = Counter()
        self._struck: set[Rule] = set()
        self._random = random.Random(seed)

    def choose(self, request: Request) -> Rule | None:
        """The rule whose fault this request meets; whoever acts on it reports with `strike`."""
        chosen = None
        for rule in self.rules:
            if not rule.concerns(request):
                continue
            self._seen[rule] += 1
            chance = self._random.random() < rule.probability
            overdue = rule not in self._struck and self._seen[rule] * rule.probability >= _CERTAIN
            if self._seen[rule] in rule.nth and (chance or overdue):
                chosen = chosen or rule
        return chosen

    def strike(self, rule: Rule) -> None:
        self.hits[rule.name] += 1
        self._struck.add(rule)

    def remembers(self, request: Request) -> bool:
        """Whether the answer may be replayed later."""
        return any(isinstance(rule.fault, Replay) and rule.concerns(request) for rule in self.rules)


def too_many(retry_after: int = 1) -> Refuse:
    """429 as API Priority and Fairness says it."""
    return Refuse(429, "TooManyRequests", "too many requests, please try again later", retry_after)
