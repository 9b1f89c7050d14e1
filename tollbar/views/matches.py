"""Which rules were true for which pending Pods, as last decided: the rules' `status.pendingMatches`.

The gates controller records, the rules controller counts.  Lost on restart and rebuilt by the first pass over the
cache; a Pod that leaves the cache (bound or deleted) leaves this table by itself.
"""

from collections import Counter
from collections.abc import Callable, Iterable

from tollbar.model.objects import Key, key_of
from tollbar.runtime.store import Delta, Store


class Matches:
    def __init__(self, pods: Store) -> None:
        self._pods = pods
        self._rules_of: dict[Key, tuple[str, ...]] = {}
        self._counts: Counter[str] = Counter()
        self._handlers: list[Callable[[str], None]] = []
        pods.subscribe(self._on_delta)

    def subscribe(self, handler: Callable[[str], None]) -> None:
        """`handler` is called with the name of every rule whose count changed."""
        self._handlers.append(handler)

    def count(self, rule: str) -> int:
        return self._counts[rule]

    def record(self, pod: Key, rules: Iterable[str]) -> None:
        """These rules are true for the Pod now.  Nothing is, once it has left the cache: an answer may come late."""
        new, old = tuple(rules) if pod in self._pods else (), self._rules_of.get(pod, ())
        if new == old:
            return
        if new:
            self._rules_of[pod] = new
        else:
            del self._rules_of[pod]
        self._counts.update(new)
        self._counts.subtract(old)
        for rule in set(new) ^ set(old):
            for handler in self._handlers:
                handler(rule)

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None:
            self.record(key_of(delta.old), ())
