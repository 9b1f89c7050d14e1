"""Which rules were true for which pending Pods, as last decided: the rules' `status.pendingMatches`.

The gates controller records, the rules controller counts.  Lost on restart and rebuilt by the first pass over the
cache: until every Pod there has been decided once, a count says nothing (`complete`).  A Pod that leaves the cache
(bound or deleted) leaves this table by itself.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from tollbar.model.objects import Key, key_of
from tollbar.runtime.store import Delta, Store


class Matches:
    def __init__(self, pods: Store) -> None:
        self._pods = pods
        self._rules_of: dict[Key, tuple[str, ...]] = {}
        self._complete = False
        self._counts: Counter[str] = Counter()
        self._handlers: list[Callable[[str], None]] = []
        pods.subscribe(self._on_delta)

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the name of every rule whose count changed."""
        self._handlers.append(handler)

    @property
    def complete(self) -> bool:
        """Whether every Pod that the cache began with has been decided since this process started."""
        self._complete = self._complete or len(self._rules_of) == len(self._pods)
        return self._complete

    def count(self, rule: str) -> int:
        return self._counts[rule]

    def record(self, pod: Key, rules: Iterable[str]) -> None:
        """What a decision about a Pod of the cache said."""
        if pod in self._pods:
            self._update(pod, tuple(rules))

    def _update(self, pod: Key, new: tuple[str, ...]) -> None:
        old = self._rules_of.get(pod, ())
        self._rules_of[pod] = new
        if old == new:
            return
        self._counts.update(new)
        self._counts.subtract(old)
        for rule in set(new) ^ set(old):
            for handler in self._handlers:
                handler(rule)

    def _forget(self, pod: Key) -> None:
        if pod in self._rules_of:
            self._update(pod, ())
            del self._rules_of[pod]

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None:
            self._forget(key_of(delta.old))
