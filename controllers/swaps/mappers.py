"""Which Pods to look at: those that run with tolerations of Tollbar's, when what they run with is settled."""

from collections.abc import Iterator
from dataclasses import dataclass

from tollbar.decide.pods.swaps import is_concerned
from tollbar.model.claims import is_reserved_for, names_of
from tollbar.model.objects import Key, key_of
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


@dataclass(frozen=True, slots=True)
class PodsOf:
    """`consumers` are the Pods that use claims."""

    consumers: Store

    def pod(self, delta: Delta) -> Iterator[Key]:
        """The Pod that has got its Node, or names of claims; one that is gone, to forget it."""
        if delta.new is None:
            yield from map(key_of, delta.objects)
        elif is_concerned(delta.new) and (
            delta.old is None or not is_concerned(delta.old) or names_of(delta.old) != names_of(delta.new)
        ):
            yield key_of(delta.new)

    def claim(self, delta: Delta) -> Iterator[Key]:
        """The Pods for which the claim is reserved now, and was not."""
        new = delta.new
        if new is None:
            return
        for pod in self.consumers.by_index("claim", key_of(new)):
            if (
                is_concerned(pod)
                and is_reserved_for(new, pod)
                and (delta.old is None or not is_reserved_for(delta.old, pod))
            ):
                yield key_of(pod)
