"""Where ours is meant to differ from kube-controller-manager's controller: what was wrong there, and is not copied.

The only place that may excuse a difference; the table of docs/reference/claims-parity.md is generated from it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from parity import explaining
from parity.explaining import Case
from parity.making import MANY
from parity.trace import Trace

Holds: TypeAlias = Callable[[Trace], bool]


@dataclass(frozen=True, slots=True)
class Difference:
    """`ours` and `theirs` say what each side does.

    `written` has, by the sentences of scenarios written by hand, what must be so of upstream's trace and of ours; the
    rest of those traces is not compared.  `explains` tells whether a place of a random scenario is this difference;
    None where random scenarios do not show it.
    """

    name: str
    ours: str
    theirs: str
    written: Mapping[str, tuple[Holds, Holds]] = field(default_factory=dict)
    explains: Callable[[Case], bool] | None = None


def _claims(trace: Trace) -> int:
    """How many claims there ever were."""
    return len(trace.history)


def _complete(trace: Trace) -> bool:
    return not trace.in_vain


def _stuck(trace: Trace) -> bool:
    return bool(trace.in_vain)


def _silent_about_some(trace: Trace) -> bool:
    return len(trace.warnings) < len(MANY)


def _complaining_about_all(trace: Trace) -> bool:
    return _complete(trace) and len(trace.warnings) == len(MANY)


def _nothing(trace: Trace) -> bool:
    return not trace.history and not trace.writes


def _makes_claims(trace: Trace) -> bool:
    return _claims(trace) >= 1


def _is_named(claim: str) -> Holds:
    """Whether that is the claim of the Pod web."""
    return lambda trace: trace.objects["Pod web"]["status"]["resourceClaimStatuses"][0]["resourceClaimName"] == claim


def _is_refused(trace: Trace) -> bool:
    return trace.refused == {"resourceclaims shared": ["write status: 422"]} and not trace.warnings


def _is_not_refused(trace: Trace) -> bool:
    return not trace.refused and _complete(trace)


def _is_told(trace: Trace) -> bool:
    """By a warning; and the entry is there in the end."""
    return _is_not_refused(trace) and list(trace.warnings) == ["Pod web"]


def _for_ever(trace: Trace) -> bool:
    return trace.count > 50


def _once(trace: Trace) -> bool:
    """The finished Pod's entry is removed, by one write."""
    return trace.count == 1 and _complete(trace)


def _both_recorded(trace: Trace) -> bool:
    """Two claims and their names, then one of each again."""
    status = trace.objects["PodGroup group"]["status"]
    names = {each["name"]: each["resourceClaimName"] for each in status["resourceClaimStatuses"]}
    return names == {"a": "<group/a#2>", "b": "<group/b>"} and trace.count <= 6


DIFFERENCES: Final = (
    Difference(
        name="names-begin-with-a-letter",
        ours="A generated name never begins with a hyphen and never has a dot before one.",
        theirs="Cuts the Pod's name to nothing, or right after a dot. The API server refuses that name for ever, and"
        " the Pod waits for ever.",
        written={
            "a Pod of one character and a claim of 55: the name would begin with a hyphen": (_stuck, _complete),
            "a Pod's name that is cut right after a dot": (_stuck, _complete),
        },
    ),
    Difference(
        name="finished-pods-get-no-claims",
        ours="A Pod that has finished gets no claim, no reservation and no warning; what it has is freed.",
        theirs="Makes or records another claim for the finished Pod, reserves it again, and deletes it again: once,"
        " several times, or (a Pod with two templates) without end.",
        written={"a template comes when its Pod has finished": (_makes_claims, _nothing)},
        explains=explaining.finished_pods_get_no_claims,
    ),
    Difference(
        name="finished-pods-are-not-reserved-for",
        ours="Where a finished Pod lingers beside a running one that shares its claim, its entry is removed once.",
        theirs="Removes it and adds it again for ever"
        " ([kubernetes/kubernetes#141274](https://github.com/kubernetes/kubernetes/issues/141274)).",
        written={"a finished Pod lingers beside a running one that shares its claim": (_for_ever, _once)},
        explains=explaining.finished_pods_are_not_reserved_for,
    ),
    Difference(
        name="groups-keep-their-names",
        ours="A PodGroup's status keeps the names of its other claims when one of them is made again.",
        theirs="Applies the new name alone, so that the others are dropped; then it records those alone, and so on for"
        " ever.",
        written={
            "one of two claims of a PodGroup is deleted: the other one's name stays recorded": (
                _for_ever,
                _both_recorded,
            )
        },
        explains=explaining.groups_keep_their_names,
    ),
    Difference(
        name="deleted-claims-are-made-again-at-once",
        ours="A generated claim that is deleted right after it was made is made again at once.",
        theirs="Does not notice; the Pod waits until it or its template changes.",
        written={
            "a generated claim that is deleted at once is made again": (_stuck, _complete),
            "a generated claim is deleted when its template is gone, which then comes back": (
                _silent_about_some,
                _complaining_about_all,
            ),
        },
        explains=explaining.deleted_claims_are_made_again,
    ),
    Difference(
        name="members-are-told",
        ours="A Pod whose PodGroup's claim was made again is told the new one's name.",
        theirs="Leaves the name of the claim that is gone in the Pod's status.",
        written={"the claim of a PodGroup is made again for a Pod that knows the old one": (_stuck, _complete)},
    ),
    Difference(
        name="deleting-claims-are-not-recorded",
        ours="For a Pod whose claim is not recorded and is being deleted another one is made.",
        theirs="Records the one that is being deleted, and makes another one when it is gone.",
        written={
            "the claim was made, not recorded, and deleted while somebody holds it": (
                _is_named("going"),
                _is_named("<web/gpu>"),
            )
        },
        explains=explaining.deleting_claims_are_not_recorded,
    ),
    Difference(
        name="deleting-claims-are-left-alone",
        ours="A claim that is being deleted is neither reserved for anybody else nor deleted again.",
        theirs="Tries to reserve it, is refused by the API server, and tries again for as long as it is there; deletes"
        " it once more when its Pod is done.",
        written={"a deleting claim gets no new consumer": (_is_refused, _is_not_refused)},
        explains=explaining.deleting_claims_are_left_alone,
    ),
    Difference(
        name="full-claims-are-said",
        ours="A bound Pod whose claim has 256 consumers already gets the Warning `ReservationBlocked`.",
        theirs="Tries to reserve it, is refused by the API server, and tries again, without a word.",
        written={"a claim that is full has no room for a bound Pod, until there is some": (_is_refused, _is_told)},
    ),
    Difference(
        name="own-claims-are-recorded-at-once",
        ours="A Pod or PodGroup whose status was made to name somebody else's claim is told its own, or gets one.",
        theirs="Leaves it alone until something else makes it look: a restart, the end of the other claim, or chance.",
        explains=explaining.own_claims_are_recorded_at_once,
    ),
    Difference(
        name="unnamed-claims-are-freed",
        ours="A claim that a Pod controls and does not name is freed and deleted as soon as the Pod is done.",
        theirs="Looks only at claims that the Pod names: this one keeps its devices until it changes itself.",
        explains=explaining.unnamed_claims_are_freed,
    ),
)

EXCUSED: Final = frozenset(sentence for each in DIFFERENCES for sentence in each.written)
"""Scenarios written by hand of which only that is compared which the difference says."""
