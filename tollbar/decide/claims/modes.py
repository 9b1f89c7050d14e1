"""The condition that says whether the mode `claims` fits the cluster, and what would fit better.

It is an annotation of the controllers' Lease, because a Lease has no status, and is written with the next renewal of
the Lease.  The next leader reads it to learn whether the last one generated claims.
"""

from dataclasses import dataclass
from typing import Final, Literal

import orjson

from tollbar import wellknown
from tollbar.api.reasons import ModeReason
from tollbar.decide.chain import Chain, first_answer
from tollbar.model import conditions, timestamps
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object, annotations_of, spec

Mode = Literal["Complement", "Replace", "Disabled"]
RECENTLY: Final = 60.0
"""Seconds since the last renewal of the Lease for which it counts that its holder generated claims.  Another generator
that begins in between is noticed by the claims that it makes."""


@dataclass(frozen=True, slots=True)
class ModeFacts:
    """`server` is its version as it says it; `pod_groups` the apiVersion in which it serves PodGroups, empty when it
    does not; `may_bind` whether reservations may be written, None when that is not known; `generator` is the field
    manager that made the newest generated claim, empty when there is none.

    `working`: with Replace, whether it is we who generate; `refused` then says why not, as reason and message.
    `too_old` counts reservations that the server is too old for, `oscillating` claims that are written to without end,
    `waiting` Pods that nobody makes a claim for.
    """

    mode: Mode
    server: str = ""
    pod_groups: str = ""
    may_bind: bool | None = None
    generator: str = ""
    working: bool = False
    refused: tuple[str, str] | None = None
    too_old: int = 0
    oscillating: int = 0
    waiting: int = 0


def decide(facts: ModeFacts) -> Condition:
    """What the condition says."""
    by = f"{facts.generator} made the newest one" if facts.generator else "nobody has made one yet"
    complementing = f"ResourceClaims of Pods are kube-controller-manager's: {by}; {_served(facts)}"
    return first_answer(CHAIN, facts) or Condition("True", ModeReason.COMPLEMENTING, complementing)


def _served(facts: ModeFacts) -> str:
    groups = f"PodGroups {facts.pod_groups}" if facts.pod_groups else "no PodGroups"
    return f"Kubernetes {facts.server or 'of unknown version'}, {groups}"


def _disabled(facts: ModeFacts) -> Condition | None:
    return Condition("True", ModeReason.DISABLED, "claims are left alone") if facts.mode == "Disabled" else None


def _refused(facts: ModeFacts) -> Condition | None:
    return Condition("False", *facts.refused) if facts.refused is not None else None


def _starting(facts: ModeFacts) -> Condition | None:
    if facts.mode != "Replace" or facts.working:
        return None
    return Condition("Unknown", ModeReason.STARTING, "finding out whether somebody else generates ResourceClaims")


def _without_rights(facts: ModeFacts) -> Condition | None:
    if facts.may_bind is not False:
        return None
    why = "no right to update and patch resourceclaims/binding: no claim can be reserved"
    return Condition("False", ModeReason.PERMISSION_DENIED, why)


def _generating(facts: ModeFacts) -> Condition | None:
    if facts.mode != "Replace":
        return None
    return Condition("True", ModeReason.GENERATING, f"nobody else generates ResourceClaims; {_served(facts)}")


def _too_old(facts: ModeFacts) -> Condition | None:
    if not facts.too_old:
        return None
    why = (
        f"{facts.too_old} reservations are not made: before Kubernetes 1.36 kube-controller-manager no longer looks"
        " after a claim that is reserved for a workload (kubernetes/kubernetes#136406): upgrade, or use claims: Replace"
    )
    return Condition("False", ModeReason.UPSTREAM_TOO_OLD, why)


def _oscillating(facts: ModeFacts) -> Condition | None:
    if not facts.oscillating:
        return None
    why = (
        f"{facts.oscillating} ResourceClaims are written to without end because finished Pods linger"
        " (kubernetes/kubernetes#141274): delete those Pods, or use claims: Replace"
    )
    return Condition("False", ModeReason.UPSTREAM_OSCILLATION, why)


def _nobody_generates(facts: ModeFacts) -> Condition | None:
    if not facts.waiting:
        return None
    why = (
        f"{facts.waiting} Pods have waited a minute for a ResourceClaim that nobody makes, or whose creation"
        " is refused, as an event of the Pod would say: give kube-controller-manager its resourceclaim-controller back,"
        " or use claims: Replace"
    )
    return Condition("False", ModeReason.NOBODY_GENERATES, why)


CHAIN: Final[Chain[ModeFacts, Condition]] = (  # order is the specification
    _disabled,  # claims: Disabled -> fits
    _refused,  # Replace does not begin, or has stopped -> does not fit, and why
    _starting,  # Replace has not begun -> not known
    _without_rights,  # reservations may not be written -> does not fit
    _generating,  # Replace works -> fits
    _too_old,  # the server is too old for the reservations that are asked for -> does not fit
    _oscillating,  # the server writes to claims without end -> does not fit
    _nobody_generates,  # Pods wait for claims that nobody makes -> does not fit
)  # else -> fits: the server generates claims


def record(old: str, found: Condition, now: float) -> str:
    """The text of the annotation that was `old`; `now` in epoch seconds.  The transition time moves only with the
    status."""
    before = read(old)
    if before is not None and all(before.get(name) == value for name, value in found._asdict().items()):
        return old
    (new,) = conditions.with_condition(
        [before] if before is not None else [],
        type_=wellknown.CONDITION_CLAIMS_MODE,
        **found._asdict(),
        generation=0,
        now=now,
    )
    return orjson.dumps({name: value for name, value in new.items() if name != "observedGeneration"}).decode()


def read(text: str) -> Object | None:
    """The condition in an annotation; None when there is none, or nobody can read it."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    readable = isinstance(found, dict) and found.get("type") == wellknown.CONDITION_CLAIMS_MODE
    return found if readable else None


def was_generating(lease: Object, now: float) -> bool:
    """Whether the holder of this Lease generated claims until a moment ago: then nobody else did.

    `lease` as it was before somebody else took it; `now` in epoch seconds.  The condition counts only together with
    mode Replace: older versions write no condition, and leave that of the holder before them.
    """
    written = annotations_of(lease)
    condition = read(written.get(wellknown.ANNOTATION_CLAIMS_CONDITION, "")) or {}
    said = (written.get(wellknown.ANNOTATION_CLAIMS), condition.get("reason"), condition.get("status"))
    renewed = spec(lease).get("renewTime")
    if not renewed or said != ("Replace", ModeReason.GENERATING, "True"):
        return False
    return abs(now - timestamps.parse(str(renewed))) <= RECENTLY
