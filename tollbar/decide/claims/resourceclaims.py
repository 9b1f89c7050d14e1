"""What the ResourceClaim controller does about one ResourceClaim: free it when nobody uses it, delete it when its Pod
is done.

Behaves as kube-controller-manager's controller of the same name; where it differs on purpose, docs/reference/claims.md
says so.

Invariants: entries that are not of Pods or PodGroups stay; the API server is asked for a consumer that the caches do
not know before its entry is removed; deciding again after the plan's effects gives nothing.  A change gives a worker
something to do if the claim's plan `is_needed`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from tollbar.decide.claims import deallocation
from tollbar.model import claims, pods
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.claims import Deallocation
from tollbar.model.objects import Key, Object, controller_of, key_of, metadata, uid_of
from tollbar.model.resources import POD_GROUPS, PODS, Resource

_OF_A_CONSUMER: Final = frozenset(
    {"kind", "metadata.deletionTimestamp", "metadata.uid", "spec.nodeName", "status.phase"}
)
"""What is read here of a Pod or PodGroup that the caches do not know."""


class Lookup(Protocol):
    """What this process knows: its caches, which hold what it created at once."""

    def claim(self, key: Key) -> Object | None: ...
    def claims_owned_by(self, uid: str) -> Sequence[Object]: ...
    def template(self, key: Key) -> Object | None: ...
    def pod(self, key: Key) -> Object | None: ...
    def pod_group(self, key: Key) -> Object | None: ...
    def serves_pod_groups(self) -> bool:
        """Whether the API server serves PodGroups in a version that is read; otherwise there are none."""
        ...

    def is_gone(self, uid: str) -> bool:
        """Whether this object is known to be deleted; False says nothing."""
        ...


@dataclass(frozen=True, slots=True)
class ClaimFacts:
    """A claim of the cache; `pod_groups` are PodGroups in the version that is served."""

    claim: Object
    lookup: Lookup
    pod_groups: Resource = POD_GROUPS
    answers: Answers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """Remove entries, and delete the claim if it was made for a Pod that is done."""

    deallocation: Deallocation | None = None
    delete: bool = False

    @property
    def is_needed(self) -> bool:
        return bool(self.deallocation or self.delete)


def decide(facts: ClaimFacts) -> ClaimPlan | Ask:
    """The plan for the claim; an `Ask` for consumers that have an entry and are not in the caches."""
    claim = facts.claim
    states = [(entry, _is_entry_gone(facts, entry)) for entry in claims.reserved_for(claim)]
    if questions := tuple(gone for _, gone in states if isinstance(gone, Get)):
        return Ask(questions)
    gone = {entry["uid"] for entry, is_gone in states if is_gone}
    return ClaimPlan(
        deallocation=deallocation.remove(claim, gone) or deallocation.finish(claim),
        delete=len(gone) == len(states) and _is_abandoned(claim, facts.lookup),
    )


def _is_entry_gone(facts: ClaimFacts, entry: Object) -> bool | Get:
    """Whether the consumer of an entry is gone or done, or what to ask for to know.  Foreign entries stay."""
    uid, key = str(entry.get("uid")), Key(key_of(facts.claim).namespace, str(entry.get("name")))
    if claims.is_pod_entry(entry):
        consumer, question = facts.lookup.pod(key), Get(PODS, key, _OF_A_CONSUMER)
    elif claims.is_pod_group_entry(entry):
        consumer, question = facts.lookup.pod_group(key), Get(facts.pod_groups, key, _OF_A_CONSUMER)
    else:
        return False
    if facts.lookup.is_gone(uid):
        return True
    if consumer is not None and uid_of(consumer) == uid:
        return is_done(consumer)
    match facts.answers.get(question):
        case None:
            return question  # a scheduler may know a Pod before we do, also one that replaces ours
        case Absence() as absence:
            return absence is Absence.OBJECT
        case found:
            return uid_of(found) != uid or is_done(found)


def is_done(consumer: Object) -> bool:
    """Whether a Pod does not need its claims any more; a PodGroup needs them until it is gone."""
    return consumer["kind"] == "Pod" and pods.is_done(consumer)


def _is_abandoned(claim: Object, lookup: Lookup) -> bool:
    """Whether the claim was made for a Pod that is done: Pods of Jobs linger, the garbage collector would come late."""
    owner = controller_of(claim)
    if owner is None or owner.get("kind") != "Pod" or owner.get("apiVersion") != "v1":
        return False
    if metadata(claim).get("deletionTimestamp") or lookup.is_gone(uid_of(claim)):
        return False
    pod = lookup.pod(Key(key_of(claim).namespace, str(owner.get("name"))))
    if pod is None:
        return False  # gone, and the garbage collector deletes the claim; or not in the cache yet
    return pods.is_done(pod) if uid_of(pod) == owner.get("uid") else lookup.is_gone(str(owner.get("uid")))


def references_to_clean(consumer: Object) -> Iterator[Key]:
    """Claims to look at when a Pod or PodGroup is gone or done: those that it names, by status or by name."""
    namespace = key_of(consumer).namespace
    for name in sorted(claims.names_of(consumer)):
        yield Key(namespace, name)
