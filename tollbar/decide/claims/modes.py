"""Whether the mode in which claims are looked after fits the cluster, and what would fit better: one condition.

The controllers write it on their Lease, as an annotation, since a Lease has no status; `tollbar status` shows it.  It
costs no write: it goes with the next renewal.  The next leader reads it, too (`was_generating`).
"""

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import orjson

from tollbar import wellknown
from tollbar.model import conditions, timestamps
from tollbar.model.objects import Object, annotations_of, spec

Mode = Literal["Complement", "Replace", "Disabled"]
RECENTLY: Final = 60.0
"""Seconds since the last renewal of its Lease for which it counts that a leader was generating: whoever begins to
generate in between is noticed by the claims that it makes."""


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


class Fit(NamedTuple):
    """Status, reason and message of the condition."""

    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str


def fit(facts: ModeFacts) -> Fit:
    """The first that applies."""
    groups = f"PodGroups {facts.pod_groups}" if facts.pod_groups else "no PodGroups"
    served = f"Kubernetes {facts.server or 'of unknown version'}, {groups}"
    if facts.mode == "Disabled":
        return Fit("True", wellknown.DISABLED, "claims are left alone")
    if facts.refused is not None:
        return Fit("False", *facts.refused)
    if facts.mode == "Replace" and not facts.working:
        return Fit("Unknown", wellknown.STARTING, "finding out whether somebody else generates ResourceClaims")
    if facts.may_bind is False:
        return Fit("False", wellknown.PERMISSION_DENIED, _NO_BINDING)
    if facts.mode == "Replace":
        return Fit("True", wellknown.GENERATING, f"nobody else generates ResourceClaims; {served}")
    if facts.too_old:
        return Fit("False", wellknown.UPSTREAM_TOO_OLD, f"{facts.too_old} {_TOO_OLD}")
    if facts.oscillating:
        return Fit("False", wellknown.UPSTREAM_OSCILLATION, f"{facts.oscillating} {_OSCILLATES}")
    if facts.waiting:
        return Fit("False", wellknown.NOBODY_GENERATES, f"{facts.waiting} {_WAITS}")
    by = f"{facts.generator} made the newest one" if facts.generator else "nobody has made one yet"
    return Fit("True", wellknown.COMPLEMENTING, f"ResourceClaims of Pods are kube-controller-manager's: {by}; {served}")


_NO_BINDING: Final = "no right to update and patch resourceclaims/binding: no claim can be reserved"
_TOO_OLD: Final = (
    "reservations are not made: before Kubernetes 1.36 kube-controller-manager no longer looks after a claim that is"
    " reserved for a workload (kubernetes/kubernetes#136406); claims: Replace fits"
)
_OSCILLATES: Final = (
    "ResourceClaims are written to without end because finished Pods linger (kubernetes/kubernetes#141274):"
    " delete those Pods; claims: Replace fits"
)
_WAITS: Final = (
    "Pods have waited a minute for a ResourceClaim that nobody makes, or whose creation is refused, as an event of the"
    " Pod would say: give kube-controller-manager its resourceclaim-controller back, or use claims: Replace"
)


def record(old: str, found: Fit, now: float) -> str:
    """The annotation's text after `old`: the transition time moves only with the status.  `now` in epoch seconds."""
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

    `lease` as it was before somebody else took it; `now` in epoch seconds.  A holder in another mode, of a version that
    says no more than its mode, leaves the condition of whoever held the Lease before.
    """
    written = annotations_of(lease)
    condition = read(written.get(wellknown.ANNOTATION_CLAIMS_CONDITION, "")) or {}
    said = (written.get(wellknown.ANNOTATION_CLAIMS), condition.get("reason"), condition.get("status"))
    renewed = spec(lease).get("renewTime")
    if not renewed or said != ("Replace", wellknown.GENERATING, "True"):
        return False
    return abs(now - timestamps.parse(str(renewed))) <= RECENTLY
