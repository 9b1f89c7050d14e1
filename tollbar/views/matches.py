"""Which rules matched which pending Pods at the last decision, for the rules' `status.pendingMatches`.

Lost on restart and rebuilt as the Pods in the cache are decided about again: until then, counts are not `complete`.  A
Pod that leaves the cache (bound or deleted) is removed here as well.
"""

from collections import Counter
from collections.abc import Iterable

from tollbar.model.objects import Key, key_of
from tollbar.runtime.source import Channel, Delta
from tollbar.runtime.store import Store


class Matches:
    """`changes` sends the key of every rule whose count changed."""

    def __init__(self, pods: Store) -> None:
        self.changes: Channel[Key] = Channel("matches")
        self._pods = pods
        self._rules_of: dict[Key, tuple[str, ...]] = {}
        self._complete = False
        self._counts: Counter[str] = Counter()
        pods.subscribe(self._on_delta)

    @property
    def complete(self) -> bool:
        """Whether every Pod of the first list has been decided about since this process started."""
        self._complete = self._complete or len(self._rules_of) == len(self._pods)
        return self._complete

    def count(self, rule: str) -> int:
        return self._counts[rule]

    def record(self, pod: Key, rules: Iterable[str]) -> None:
        """Record which rules matched this Pod, if it is still in the cache."""
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
            self.changes.send(Key("", rule))

    def _on_delta(self, delta: Delta) -> None:
        if delta.new is None and delta.old is not None and (pod := key_of(delta.old)) in self._rules_of:
            self._update(pod, ())
            del self._rules_of[pod]
