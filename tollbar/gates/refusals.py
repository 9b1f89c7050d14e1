"""Releases of Pods that other admission has refused, which the next decision about the Pod takes into account.

At most one entry of some hundred characters for each held Pod; it is dropped with the Pod or with the gate.  Lost on
restart, which costs one more refused patch for each such Pod.
"""

from tollbar.decide.gates.release import Refusal
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.pods import gate_names
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


class Refusals:
    """The last refusal of each Pod with this gate."""

    def __init__(self, pods: Store, gate: str) -> None:
        """`pods` is the store of Pods without a Node."""
        self._pods = pods
        self._gate = gate
        self._of: dict[Key, tuple[str, Refusal]] = {}
        pods.subscribe(self._on_delta)

    def __len__(self) -> int:
        return len(self._of)

    def of(self, pod: Object) -> Refusal | None:
        """The refusal for this Pod, not for another one of the same name."""
        uid, refusal = self._of.get(key_of(pod), ("", None))
        return refusal if uid == uid_of(pod) else None

    def remember(self, pod: Object, refusal: Refusal) -> None:
        if key_of(pod) in self._pods:  # it may have gone while the API server answered
            self._of[key_of(pod)] = uid_of(pod), refusal

    def _on_delta(self, delta: Delta) -> None:
        about = delta.new or delta.old
        if self._of and about is not None and (delta.new is None or self._gate not in gate_names(delta.new)):
            self._of.pop(key_of(about), None)
