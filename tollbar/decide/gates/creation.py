"""What is done to a Pod at its creation, for any gate: nothing, the change of a release, or adding the gate.

Invariants: idempotent under reinvocation, as far as the gate's answer does not depend on what it changes; never a
`test` operation, and only patches that apply and leave the Pod valid, because the API server answers the user with an
error otherwise even under `failurePolicy: Ignore`.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Generic, Literal, TypeVar

from tollbar.decide.chain import Chain
from tollbar.decide.gates.answers import Answer, Hold, NotMine, Release
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.pods.scope import exclusion_reason
from tollbar.model import pods
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.model.plan import Reason

NOBODY_RELEASES: Final = "not held, because no controller could release it"
Decision = Literal["ignored", "tolerated", "changed", "gated"]


@dataclass(frozen=True)
class CreationPlan:
    """`patch` is what the webhook answers, and `because` why; `warnings` are for whoever creates the Pod.

    `decision` is what is counted: whether the Pod is left alone, changed (`tolerated` by the toleration gate) or gated.
    """

    decision: Decision = "ignored"
    patch: Patch = ()
    warnings: tuple[str, ...] = ()
    because: tuple[Reason, ...] = ()


A = TypeVar("A", bound=CreationPlan)


class CreationCase(ABC, Generic[A]):
    """One Pod that is being created, and one gate.

    `managed`: Tollbar manages the namespace; `ready`: every cache has synced; `gating`: a controller runs, and may
    release gated Pods.
    """

    gate: str

    def __init__(self, pod: Object, *, managed: bool, ready: bool, gating: bool) -> None:
        self.pod = pod
        self.managed = managed
        self.ready = ready
        self.gating = gating

    @cached_property
    @abstractmethod
    def answer(self) -> Answer:
        """The answer of the gate for the Pod, as far as it is known before the Pod exists."""

    @abstractmethod
    def ignored(self, reason: PodReason) -> A:
        """The Pod is created as it is."""

    @abstractmethod
    def gated(self, *because: Reason) -> A:
        """The Pod gets the gate, if it has not got it."""

    @abstractmethod
    def changed(self, release: Release, unmet: str) -> A:
        """The Pod gets the change; `unmet` is what it would be held for if a controller could release it."""


def excluded(case: CreationCase[A]) -> A | None:
    """Tollbar leaves the Pod alone, whatever its gates say."""
    reason = exclusion_reason(case.pod, managed=case.managed)
    return case.ignored(reason) if reason is not None else None


def not_ready(case: CreationCase[A]) -> A | None:
    """Without complete caches no answer of the gate can be trusted."""
    return None if case.ready else case.ignored(PodReason.CACHES_NOT_SYNCED)


def already_gated(case: CreationCase[A]) -> A | None:
    """The gate is there, from an earlier pass or from the author: the controller decides."""
    is_gated = case.gate in pods.gate_names(case.pod)
    return case.gated(Reason(PodReason.ALREADY_GATED)) if is_gated else None


def answered(case: CreationCase[A]) -> A:
    """What the gate says; a Pod that nobody could release is not held, but changed as far as that is known."""
    match case.answer:
        case Hold(reason, subject, otherwise):
            if not case.gating:
                return case.changed(otherwise, subject)
            return case.gated(*(otherwise.because or (Reason(PodReason.WAITING_FOR, reason, subject),)))
        case NotMine():
            return case.ignored(PodReason.NOT_MINE)
        case Release() as release:
            return case.changed(release, "")


CHAIN: Final[Chain[CreationCase[Any], Any]] = (  # order is the specification
    excluded,  # bound, mirror, DaemonSet, opted out, namespace not managed -> nothing
    not_ready,  # caches not synced yet -> nothing
    already_gated,  # the gate is on the Pod -> leave it
    answered,  # Hold, and somebody can release -> gate; Release -> the change, no gate
)
