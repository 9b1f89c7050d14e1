"""What `tollbar explain` shows for a Pod that the gate class `ordinal` holds: the Pods that its turn depends on."""

from collections.abc import Iterator

from tollbar import wellknown
from tollbar.decide.gates.ordinals import Place, Turn
from tollbar.gates.explanation import Section
from tollbar.model import conditions, pods
from tollbar.model.objects import Key


def section(turn: Turn) -> Section:
    return Section("Its turn", ("POD", "WHAT IT IS", "STATE"), tuple(_rows(turn.place, turn)))


def _rows(place: Place, turn: Turn) -> Iterator[tuple[str, ...]]:
    """The Pods that decide the turn, if there are any."""
    if place.counterpart is not None:
        yield str(place.counterpart), "its ordinal's Pod of the other StatefulSet", _state(place.counterpart, turn)
    if place.predecessor is not None:
        yield str(place.predecessor), "its predecessor", _state(place.predecessor, turn)


def _state(key: Key, turn: Turn) -> str:
    found = turn.pod(key)
    if found is None:
        return "gone"
    if pods.is_deleting(found):
        return "ending"
    if turn.held(found):
        return f"held by {wellknown.ORDINAL_GATE}"
    return "Ready" if conditions.is_true(found, "Ready") else "not Ready"
