"""How the gates of Pods stand, for `tollbar status`: their policy, how many Pods they hold, and which for too long.

It is computed from the Pods, because the status of a SchedulingGate is old when no controller runs.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Final

from tollbar import wellknown
from tollbar.api import durations
from tollbar.decide.pods.scope import GatePolicy
from tollbar.gates import Gate
from tollbar.gates.evaluation import default_policies, policy_in_force
from tollbar.model import conditions, pods, timestamps
from tollbar.model.gates import gate_name
from tollbar.model.objects import Object, key_of, metadata, picked, spec

_GRACE: Final = 10.0
"""Seconds after `maxHold` for which a Pod is not called overdue: its release takes a moment, and clocks differ."""


@dataclass(frozen=True, slots=True)
class HeldPod:
    """`name` is `namespace/name`; `seconds` since the Pod's creation."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class GateStatus:
    """One gate.  `name` is that of its SchedulingGate, empty when none declares Tollbar's own gate.

    `refused` is why the controllers may not act on it, empty when they may; `owned` whether it has an owner of
    Tollbar's own gate, as the controllers are.  `held` and `overdue` are None when Pods may not be read; `overdue` has
    the oldest first.
    """

    name: str
    gate: str
    max_hold: float | None
    on_expiry: str
    refused: str
    held: int | None
    overdue: tuple[HeldPod, ...] | None
    owned: bool = False

    @property
    def limit(self) -> str:
        return "no maxHold" if self.max_hold is None else f"maxHold {durations.text(self.max_hold)}"

    def __str__(self) -> str:
        held = "unknown" if self.held is None else str(self.held)
        return f"{held} held, {self.limit}, {self.on_expiry}"

    def problems(self) -> Iterator[str]:
        """Each in one line."""
        if self.refused:
            yield f"SchedulingGate {self.name}: {self.refused}"
        for pod in self.overdue or ():
            yield f"Pod {pod.name} is held by {self.gate} for {pod.seconds:.0f} s, longer than its {self.limit}"


def read_of(pod: Object) -> Object:
    """What is read here of a Pod with gates, which may be as large as the API server stores it."""
    meta = metadata(pod)
    return {
        "metadata": picked(meta, ("name", "namespace", "creationTimestamp")),
        "spec": {"schedulingGates": spec(pod).get("schedulingGates") or []},
    }


def gates_of(
    declared: Sequence[Object], held: Sequence[Object] | None, now: float, classes: Iterable[Gate] = ()
) -> tuple[GateStatus, ...]:
    """The gates of these SchedulingGates, and Tollbar's own; `held` are the Pods with any gate, `now` epoch seconds.

    `classes` are those of the gates, as far as they are known, for SchedulingGates that are not valid.
    """
    defaults = default_policies(classes)
    gates = [(gate_name(gate), gate) for gate in declared]
    if wellknown.GATE not in dict(gates):
        gates.append((wellknown.GATE, {}))
    owners = frozenset[str]().union(*(_owners(gate) for name, gate in gates if name == wellknown.GATE))
    return tuple(_gate(gate, name, held, now, policy_in_force(name, gate, defaults), owners) for name, gate in gates)


def _owners(gate: Object) -> frozenset[str]:
    return frozenset(map(str, spec(gate).get("owners") or ()))


def _gate(
    declared: Object, name: str, held: Sequence[Object] | None, now: float, policy: GatePolicy, owners: Set[str]
) -> GateStatus:
    ages = sorted((_age(pod, now) for pod in held or () if name in pods.gate_names(pod)), key=lambda pod: -pod.seconds)
    limit = policy.max_hold
    late = [pod for pod in ages if limit is not None and pod.seconds >= limit + _GRACE]
    return GateStatus(
        name=key_of(declared).name if declared else "",
        gate=name,
        max_hold=limit,
        on_expiry="Release" if policy.release_on_expiry else "Report",
        refused=_refused(declared) if declared else "",
        held=None if held is None else len(ages),
        overdue=None if held is None else tuple(late),
        owned=not owners.isdisjoint(_owners(declared)),
    )


def _age(pod: Object, now: float) -> HeldPod:
    return HeldPod(str(key_of(pod)), now - timestamps.parse(str(metadata(pod)["creationTimestamp"])))


def _refused(gate: Object) -> str:
    said = conditions.of(gate, wellknown.CONDITION_READY)
    if said.get("status") == "True":
        return ""
    return ": ".join(str(each) for each in (said.get("reason"), said.get("message")) if each) or "not looked at yet"
