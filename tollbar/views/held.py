"""How many Pods each scheduling gate holds, and since when: kept up to date with every change, so that looking costs
little however many Pods are held.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Final

from tollbar.model import pods
from tollbar.model.objects import Object, metadata
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

_NOBODY: Final[Counter[str]] = Counter()


class HeldPods:
    """Of the Pods in one store, by gate and by the time of their creation, to the second as the API has it."""

    def __init__(self, store: Store) -> None:
        """`store` is the one of pending Pods, and empty yet."""
        self._since: defaultdict[str, Counter[str]] = defaultdict(Counter)
        store.subscribe(self._on_delta)

    def since(self, gate: str) -> Mapping[str, int]:
        """How many Pods with this gate were created at which time."""
        return self._since.get(gate, _NOBODY)

    def count(self, gate: str) -> int:
        return sum(self.since(gate).values())

    def _on_delta(self, delta: Delta) -> None:
        before, after = _gates(delta.old), _gates(delta.new)
        if before == after:
            return
        for gate, created in before - after:
            counts = self._since[gate]
            counts[created] -= 1
            if not counts[created]:
                del counts[created]
            if not counts:
                del self._since[gate]
        for gate, created in after - before:
            self._since[gate][created] += 1


def _gates(pod: Object | None) -> set[tuple[str, str]]:
    """The gates of a Pod, each with its creation."""
    if pod is None or not (names := pods.gate_names(pod)):
        return set()
    created = str(metadata(pod).get("creationTimestamp") or "")
    return {(name, created) for name in names}
