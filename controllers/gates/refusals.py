"""Which releases other admission has refused: what the next decision about those Pods takes into account.

The gates controller remembers and asks.  One entry at most for a held Pod of the cache, of some hundred characters; it
goes with the Pod or with our gate.  Lost on restart, which costs one more refused patch for each such Pod.
"""

from tollbar.decide.pods.gates import Refusal
from tollbar.model import pods
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.store import Delta, Store


class Refusals:
    def __init__(self, held: Store) -> None:
        """`held` is the cache of the Pods that this is about."""
        self._pods = held
        self._of: dict[Key, tuple[str, Refusal]] = {}
        held.subscribe(self._on_delta)

    def __len__(self) -> int:
        return len(self._of)

    def of(self, pod: Object) -> Refusal | None:
        """What was refused to this Pod, not to another one of its name."""
        uid, refusal = self._of.get(key_of(pod), ("", None))
        return refusal if uid == uid_of(pod) else None

    def remember(self, pod: Object, refusal: Refusal) -> None:
        if key_of(pod) in self._pods:  # it may have gone while the API server answered
            self._of[key_of(pod)] = uid_of(pod), refusal

    def _on_delta(self, delta: Delta) -> None:
        about = delta.new or delta.old
        if self._of and about is not None and (delta.new is None or not pods.is_gated(delta.new)):
            self._of.pop(key_of(about), None)
