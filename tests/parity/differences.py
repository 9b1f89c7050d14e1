"""Where ours is meant to differ from kube-controller-manager's controller: what was wrong there, and is not copied.

The only place that may excuse a difference; docs/reference/claims-parity.md has the same table for people.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from parity.making import MANY
from parity.trace import Trace


@dataclass(frozen=True, slots=True)
class Difference:
    """`upstream` and `ours` say what must be so of each side's trace; what neither mentions is not compared."""

    name: str
    sentence: str
    why: str
    upstream: Mapping[str, Callable[[Trace], bool]]
    """By scenario."""
    ours: Mapping[str, Callable[[Trace], bool]]


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
        sentence="A generated name never begins with a hyphen and never has a dot before one.",
        why="Upstream cuts the Pod's name to nothing, or right after a dot; the API server refuses the name for ever.",
        upstream={
            "a Pod of one character and a claim of 55: the name would begin with a hyphen": _stuck,
            "a Pod's name that is cut right after a dot": _stuck,
        },
        ours={
            "a Pod of one character and a claim of 55: the name would begin with a hyphen": _complete,
            "a Pod's name that is cut right after a dot": _complete,
        },
    ),
    Difference(
        name="finished-pods-get-no-claims",
        sentence="A Pod that has finished gets no claim and no reservation; what it has is freed.",
        why="Upstream makes another claim for the finished Pod and deletes it again (kubernetes/kubernetes#141274).",
        upstream={"a template comes when its Pod has finished": lambda trace: _claims(trace) >= 1},
        ours={"a template comes when its Pod has finished": lambda trace: not trace.history and not trace.writes},
    ),
    Difference(
        name="finished-pods-are-not-reserved-for",
        sentence="Where a finished Pod lingers beside a running one, its entry is removed once.",
        why="Upstream removes it and adds it again for ever (kubernetes/kubernetes#141274).",
        upstream={"a finished Pod lingers beside a running one that shares its claim": _for_ever},
        ours={"a finished Pod lingers beside a running one that shares its claim": _once},
    ),
    Difference(
        name="groups-keep-their-names",
        sentence="A PodGroup's status keeps the names of its other claims when one is made again.",
        why="Upstream applies the new name alone, so that the others go; then it records those, and so on for ever.",
        upstream={"one of two claims of a PodGroup is deleted: the other one's name stays recorded": _for_ever},
        ours={"one of two claims of a PodGroup is deleted: the other one's name stays recorded": _both_recorded},
    ),
    Difference(
        name="deleted-claims-are-made-again-at-once",
        sentence="A generated claim that is deleted right after it was made is made again at once.",
        why="Upstream's cache of its own writes hides the deletion; the Pod waits until it or its template changes.",
        upstream={
            "a generated claim that is deleted at once is made again": _stuck,
            "a generated claim is deleted when its template is gone, which then comes back": _silent_about_some,
        },
        ours={
            "a generated claim that is deleted at once is made again": _complete,
            "a generated claim is deleted when its template is gone, which then comes back": _complaining_about_all,
        },
    ),
    Difference(
        name="members-are-told",
        sentence="A Pod whose PodGroup's claim was made again is told the new one's name.",
        why="Upstream leaves the name of the claim that is gone in the Pod's status, and the Pod waits.",
        upstream={"the claim of a PodGroup is made again for a Pod that knows the old one": _stuck},
        ours={"the claim of a PodGroup is made again for a Pod that knows the old one": _complete},
    ),
)

EXCUSED: Final = frozenset(scenario for each in DIFFERENCES for scenario in each.upstream)
