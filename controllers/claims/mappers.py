"""Maps changes to the Pods, PodGroups and claims for which there is something to do.

A mapper runs the same decision as the worker and adds a key only when the plan is to do something, so that most events
add nothing to the queue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tollbar.decide.claims import consumers, resourceclaims
from tollbar.decide.claims.consumers import ConsumerFacts
from tollbar.decide.claims.resourceclaims import ClaimFacts, is_done, references_to_clean
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.runtime.source import Delta
from tollbar.views.lookup import ClaimLookup


class ClaimKey(NamedTuple):
    """One object to work on; `kind` is Pod, PodGroup or ResourceClaim."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class WorkOf:
    """Maps changes to the keys for which there is work."""

    lookup: ClaimLookup

    def pod(self, delta: Delta) -> Iterator[ClaimKey]:
        """The Pod itself, or its claims when it is done or deleted."""
        if delta.new is None or is_done(delta.new):
            yield from self._claims_of(delta.new or delta.old or {})
        else:
            yield from self._consumer(delta.new)

    def claim(self, delta: Delta) -> Iterator[ClaimKey]:
        """The claim itself, and all Pods and PodGroups that refer to it: a deleted one may have to be created again."""
        if delta.new is not None:
            yield from self._claim(delta.new)
        for key in {key_of(claim) for claim in delta.objects}:
            yield from self._consumers("claim", key)

    def template(self, delta: Delta) -> Iterator[ClaimKey]:
        """The Pods and PodGroups that refer to it."""
        if delta.new is not None:
            yield from self._consumers("template", key_of(delta.new))

    def pod_group(self, delta: Delta) -> Iterator[ClaimKey]:
        """The PodGroup itself, or its claims when it is deleted; and its Pods, which share its claims."""
        group = delta.new or delta.old or {}
        yield from self._claims_of(group) if delta.new is None else self._consumer(group)
        for pod in self.lookup.consumers.by_index("group", key_of(group)):
            yield from self._consumer(pod)

    def _consumers(self, index: str, key: Key) -> Iterator[ClaimKey]:
        for store in (self.lookup.consumers, self.lookup.pod_groups):
            for consumer in store.by_index(index, key):
                yield from self._consumer(consumer)

    def _consumer(self, consumer: Object) -> Iterator[ClaimKey]:
        if consumers.decide(ConsumerFacts(consumer, self.lookup)).is_needed:
            yield ClaimKey(consumer["kind"], *key_of(consumer))

    def _claim(self, claim: Object) -> Iterator[ClaimKey]:
        if resourceclaims.decide(ClaimFacts(claim, self.lookup)).is_needed:
            yield ClaimKey("ResourceClaim", *key_of(claim))

    def _claims_of(self, consumer: Object) -> Iterator[ClaimKey]:
        """Those that it names, and those that were made for it and never recorded."""
        named = (self.lookup.claim(key) for key in references_to_clean(consumer))
        for claim in (*named, *self.lookup.claims_owned_by(uid_of(consumer))):
            if claim is not None:
                yield from self._claim(claim)
