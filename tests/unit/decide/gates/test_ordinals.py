"""Whose turn it is: every reason to wait, and the Pods that take no part."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from objects.builders import Pod, pod

from tollbar.decide.gates import ordinals
from tollbar.decide.gates.answers import Answer, Hold
from tollbar.decide.gates.ordinals import Place, Turn
from tollbar.model.objects import Key, Object, key_of

GATE = "tollbar.dev/ordinal"
OLD, NEW = Key("old", "db"), Key("new", "db")


def member(set_: Key, ordinal: int | str, peer: str | None) -> Pod:
    built = pod(f"{set_.name}-{ordinal}", set_.namespace).owned_by("StatefulSet", set_.name, api_version="apps/v1")
    built = built.labelled({GATE: ""})
    return built.annotated({"tollbar.dev/ordinal-peer": peer}) if peer is not None else built


def ready(built: Pod) -> Pod:
    return built.but("status.conditions", [{"type": "Ready", "status": "True"}])


def new(ordinal: int, peer: str | None = "old/db") -> Pod:
    return member(NEW, ordinal, peer).gated(GATE)


def old(ordinal: int) -> Pod:
    return member(OLD, ordinal, "new/db")


def stateful_set(key: Key, peer: str = "", start: int | None = None) -> Object:
    body = {} if start is None else {"ordinals": {"start": start}}
    annotations = {"tollbar.dev/ordinal-peer": peer} if peer else {}
    meta = {"name": key.name, "namespace": key.namespace, "annotations": annotations}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": body}


NAMES_NOBODY = "PeerUnknown: the annotation tollbar.dev/ordinal-peer: NAMESPACE/NAME of another StatefulSet"
SETS = (stateful_set(OLD, "new/db"), stateful_set(NEW, "old/db"))


def answered(about: Object, *pods: Object, sets: tuple[Object, ...] = SETS, granted: tuple[Key, ...] = ()) -> Answer:
    found = {key_of(each): each for each in (about, *pods)}
    known = {key_of(each): each for each in sets}

    def held(other: Object) -> bool:
        return bool(other["spec"].get("schedulingGates")) and key_of(other) not in granted

    return ordinals.decide(ordinals.place_of(about), lambda place: Turn(place, known.get, found.get, held))


def decided(*given: Any, **more: Any) -> Callable[[], Answer]:
    """What is decided, in the test and not when the table is read."""
    return partial(answered, *given, **more)


CASES: dict[str, tuple[Callable[[], Answer], str]] = {
    "the first, and its counterpart is gone": (decided(new(0)), "Release"),
    "its counterpart runs": (decided(new(0), old(0)), "OrdinalTaken: Pod old/db-0 to be gone"),
    "its counterpart is ending": (decided(new(0), old(0).deleting()), "OrdinalTaken: Pod old/db-0 to be gone"),
    "its counterpart has ended": (decided(new(0), old(0).phase("Failed")), "OrdinalTaken: Pod old/db-0 to be gone"),
    "its counterpart is held, too": (decided(new(0), old(0).gated(GATE)), "Release"),
    "its counterpart is held, and was let go": (
        decided(new(0), old(0).gated(GATE), granted=(Key("old", "db-0"),)),
        "OrdinalTaken: Pod old/db-0 to be gone",
    ),
    "its counterpart has left its set": (
        decided(new(0), pod("db-0", "old"), sets=SETS[1:]),
        "OrdinalTaken: Pod old/db-0 to be gone",
    ),
    "another ordinal's Pod runs there": (decided(new(0), old(1)), "Release"),
    "its predecessor is Ready": (decided(new(1), ready(member(NEW, 0, "old/db"))), "Release"),
    "its predecessor is not Ready": (
        decided(new(1), member(NEW, 0, "old/db")),
        "PredecessorNotReady: Pod new/db-0 to be Ready",
    ),
    "its predecessor is held": (decided(new(1), new(0)), "PredecessorNotReady: Pod new/db-0 to be Ready"),
    "its predecessor is not there": (decided(new(1)), "PredecessorNotReady: Pod new/db-0 to be Ready"),
    "its predecessor is ending": (
        decided(new(1), ready(member(NEW, 0, "old/db")).deleting()),
        "PredecessorNotReady: Pod new/db-0 to be Ready",
    ),
    "its ordinals begin with it": (
        decided(new(3), sets=(SETS[0], stateful_set(NEW, "old/db", start=3))),
        "Release",
    ),
    "the other set is gone": (decided(new(0), sets=SETS[1:]), "Release"),
    "the other set names nobody": (
        decided(new(0), sets=(stateful_set(OLD), SETS[1])),
        "PeerDisagrees: the annotation tollbar.dev/ordinal-peer: new/db on StatefulSet old/db",
    ),
    "the other set names another one, and nothing is told of its Pods": (
        decided(new(0), old(0), sets=(stateful_set(OLD, "new/other"), SETS[1])),
        "PeerDisagrees: the annotation tollbar.dev/ordinal-peer: new/db on StatefulSet old/db",
    ),
    "its own set is not known": (decided(new(0), sets=SETS[:1]), "SetMissing: StatefulSet new/db"),
    "it names nobody": (
        decided(new(0, None)),
        NAMES_NOBODY,
    ),
    "it names one of its namespace": (decided(new(0, "db2"), sets=SETS[1:]), "Release"),
    "it names itself": (
        decided(new(0, "new/db")),
        NAMES_NOBODY,
    ),
    "it names what is no name": (
        decided(new(0, "old/../db")),
        NAMES_NOBODY,
    ),
    "it names one of what is no namespace": (decided(new(0, "Old/db")), NAMES_NOBODY),
    "it names none of a namespace": (decided(new(0, "old/DB")), NAMES_NOBODY),
    "of a kind of the same group": (
        decided(pod("db-0", "new").labelled({GATE: ""}).owned_by("ReplicaSet", "db", api_version="apps/v1")),
        "NotMine",
    ),
    "without the label": (decided(new(0).but("metadata.labels", {})), "NotMine"),
    "of no StatefulSet": (decided(pod("db-0", "new").labelled({GATE: ""}).gated(GATE)), "NotMine"),
    "of a kind of the same name": (
        decided(pod("db-0", "new").labelled({GATE: ""}).owned_by("StatefulSet", "db", api_version="kruise.io/v1")),
        "NotMine",
    ),
    "with a number that no StatefulSet writes": (decided(member(NEW, "00", "old/db")), "NotMine"),
    "with a number that is no ordinal, before anybody has looked at its name": (
        decided(member(NEW, "9" * 5000, "old/db")),
        "NotMine",
    ),
    "without an ordinal": (
        decided(pod("db", "new").labelled({GATE: ""}).owned_by("StatefulSet", "db", api_version="apps/v1")),
        "NotMine",
    ),
}


@pytest.mark.parametrize(("answer", "want"), CASES.values(), ids=CASES)
def test_decisions(answer: Callable[[], Answer], want: str) -> None:
    match answer():
        case Hold(reason, subject):
            assert f"{reason}: {subject}" == want
        case other:
            assert type(other).__name__ == want


def test_what_may_change_the_answer() -> None:
    place = ordinals.place_of(new(1))
    assert place == Place(NEW, 1, OLD)
    assert set(ordinals.waits_for(place)) == {
        ("StatefulSet", NEW),
        ("StatefulSet", OLD),
        ("Pod", Key("old", "db-1")),
        ("Pod", Key("new", "db-0")),
    }
