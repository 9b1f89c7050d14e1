"""Whether Tollbar manages a Pod, and how long its gate may hold it: shared by decisions at admission and later."""

from dataclasses import dataclass
from typing import Final, Literal

from tollbar import wellknown
from tollbar.decide.pods.reasons import PodReason
from tollbar.model import pods
from tollbar.model.objects import Object

AdmissionMode = Literal["Auto", "Gate", "Never"]


@dataclass(frozen=True, slots=True)
class GatePolicy:
    """The SchedulingGate object of our gate: `max_hold` in seconds (None: no deadline), and whether to release then.

    `usable` is false when its condition Ready says NotAnOwner: the controllers are not among the gate's owners, so that
    no Pod could be released, and admission must not gate.
    """

    max_hold: float | None = wellknown.DEFAULT_MAX_HOLD_SECONDS
    release_on_expiry: bool = True
    usable: bool = True


SHIPPED_GATE_POLICY: Final = GatePolicy()
"""In force while no SchedulingGate object names our gate: it bounds how long a Pod is held."""
UNLIMITED: Final = GatePolicy(max_hold=None, release_on_expiry=False)
"""Of a gate of others whose SchedulingGate is not valid: nobody has said how long it may hold a Pod."""


def exclusion_reason(pod: Object, *, managed: bool) -> PodReason | None:
    """Why Tollbar leaves this Pod alone, None when it does not; `managed` is whether its namespace is one of ours.

    The same at admission and later: bound, mirror and DaemonSet Pods (their tolerations are their owner's), Pods or
    namespaces that opt out, namespaces that are not managed.
    """
    if pods.is_bound(pod):
        return PodReason.BOUND
    if pods.is_mirror(pod):
        return PodReason.MIRROR_POD
    if pods.is_daemon(pod):
        return PodReason.DAEMON_SET_POD
    if pods.is_skipped(pod):
        return PodReason.SKIP_LABEL
    return None if managed else PodReason.NAMESPACE_NOT_MANAGED
