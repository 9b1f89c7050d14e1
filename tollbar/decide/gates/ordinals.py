"""Which Pod is released when two StatefulSets share their ordinals: at most one Pod of an ordinal in both, in order.

A Pod carries the label `tollbar.dev/ordinal` and names the other StatefulSet in the annotation
`tollbar.dev/ordinal-peer`, as NAMESPACE/NAME; that one, if it exists, has to name the Pod's own in its annotation.

Source of names and ordinals: getParentNameAndOrdinal in k8s.io/kubernetes/pkg/controller/statefulset.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from tollbar import wellknown
from tollbar.api.reasons import OrdinalReason
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.model import conditions, names, pods
from tollbar.model.objects import Key, Object, annotations_of, controller_of, key_of, labels_of, spec

_NAME: Final = re.compile("(.+)-(0|[1-9][0-9]{0,9})")
"""The name of a StatefulSet and an ordinal as its controller writes it: digits without zeros in front.

Its ordinals are int32; ten digits may be more, and then no StatefulSet has such a Pod."""


@dataclass(frozen=True, slots=True)
class Place:
    """A Pod's place: its StatefulSet, its ordinal there, and the StatefulSet that it shares the ordinal with.

    `peer` is None while the Pod names none.
    """

    set: Key
    ordinal: int
    peer: Key | None

    def pod(self, set_: Key, ordinal: int) -> Key:
        return Key(set_.namespace, f"{set_.name}-{ordinal}")

    @property
    def counterpart(self) -> Key | None:
        """The Pod of the same ordinal in the other StatefulSet."""
        return self.pod(self.peer, self.ordinal) if self.peer is not None else None

    @property
    def predecessor(self) -> Key | None:
        """The Pod of the ordinal before, in its own StatefulSet, if there is such an ordinal at all."""
        return self.pod(self.set, self.ordinal - 1) if self.ordinal else None


def place_of(pod: Object) -> Place | None:
    """None for a Pod that takes no part: without the label, or not a StatefulSet's."""
    if wellknown.LABEL_ORDINAL not in labels_of(pod):
        return None
    owner, key = controller_of(pod) or {}, key_of(pod)
    found = _NAME.fullmatch(key.name)
    if owner.get("kind") != "StatefulSet" or not str(owner.get("apiVersion")).startswith("apps/") or found is None:
        return None
    own = Key(key.namespace, found[1])
    peer = peer_of(pod)
    return Place(own, int(found[2]), peer if peer != own else None)


def peer_of(obj: Object) -> Key | None:
    """The StatefulSet that this Pod or StatefulSet names, in its own namespace unless it names another one.

    None without the annotation, or when it is no such name.
    """
    text = annotations_of(obj).get(wellknown.ANNOTATION_ORDINAL_PEER, "")
    namespace, slash, name = text.partition("/")
    if not slash:
        namespace, name = key_of(obj).namespace, text
    if names.dns_label(namespace) or names.dns_subdomain(name):
        return None
    return Key(namespace, name)


@dataclass(frozen=True, slots=True)
class Turn:
    """A Pod with the gate, and what is known of others.

    `set` and `pod` look up a StatefulSet and a Pod by key; `held` says whether a Pod has the gate and was not let go.
    """

    place: Place
    set: Callable[[Key], Object | None]
    pod: Callable[[Key], Object | None]
    held: Callable[[Object], bool]


def decide(place: Place | None, turn: Callable[[Place], Turn]) -> Answer:
    """The answer for a Pod with this place."""
    if place is None:
        return NotMine()
    return first_answer(CHAIN, turn(place)) or Release()


def waits_for(place: Place) -> Iterator[tuple[str, Key]]:
    """The kinds and keys of all objects whose change may change the answer."""
    yield "StatefulSet", place.set
    if place.peer is not None and place.counterpart is not None:
        yield "StatefulSet", place.peer
        yield "Pod", place.counterpart
    if place.predecessor is not None:
        yield "Pod", place.predecessor


def _no_peer(turn: Turn) -> Hold | None:
    if turn.place.peer is not None:
        return None
    annotation = f"the annotation {wellknown.ANNOTATION_ORDINAL_PEER}: NAMESPACE/NAME of another StatefulSet"
    return Hold(OrdinalReason.PEER_UNKNOWN, annotation)


def _no_set(turn: Turn) -> Hold | None:
    own = turn.place.set
    return Hold(OrdinalReason.SET_MISSING, f"StatefulSet {own}") if turn.set(own) is None else None


def _not_agreed(turn: Turn) -> Hold | None:
    """The other StatefulSet exists and does not name this one: the answer then says nothing about its Pods."""
    peer = turn.place.peer
    other = turn.set(peer) if peer is not None else None
    if other is None or peer_of(other) == turn.place.set:
        return None
    annotation = f"{wellknown.ANNOTATION_ORDINAL_PEER}: {turn.place.set}"
    return Hold(OrdinalReason.PEER_DISAGREES, f"the annotation {annotation} on StatefulSet {peer}")


def _taken(turn: Turn) -> Hold | None:
    """A Pod that is ending counts until it is gone: its Node may not have heard of it yet."""
    key = turn.place.counterpart
    other = turn.pod(key) if key is not None else None
    if other is None or turn.held(other):
        return None
    return Hold(OrdinalReason.TAKEN, f"Pod {key} to be gone")


def _out_of_order(turn: Turn) -> Hold | None:
    key, own = turn.place.predecessor, turn.set(turn.place.set)
    first = int((spec(own or {}).get("ordinals") or {}).get("start") or 0)
    if key is None or turn.place.ordinal <= first:
        return None
    before = turn.pod(key)
    if before is not None and conditions.is_true(before, "Ready") and not pods.is_deleting(before):
        return None
    return Hold(OrdinalReason.PREDECESSOR_NOT_READY, f"Pod {key} to be Ready")


CHAIN: Final[Chain[Turn, Hold]] = (  # order is the specification
    _no_peer,  # the Pod does not say whom it shares its ordinal with
    _no_set,  # its own StatefulSet is not known, nor where its ordinals begin
    _not_agreed,  # the other StatefulSet does not say so -> nothing about its Pods is told
    _taken,  # the other one's Pod of this ordinal exists, and was let go or never held
    _out_of_order,  # its predecessor here is not Ready
)  # else -> it is its turn
