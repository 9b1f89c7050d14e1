"""What became of Pods in a simulation, as values for a table or for JSON."""

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from tollbar.cli.simulation.cluster import SimulatedCluster, SimulatedPod
from tollbar.decide.pods import tolerations
from tollbar.model import claims, conditions, pods
from tollbar.model import tolerations as texts
from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.scheduler.plugins.default_preemption import without_preemption

State: TypeAlias = Literal["pending", "held", "placed", "refused", "gone"]
"""Without a Node, held by a scheduling gate, with a Node, not created, preempted."""
_POD_SCHEDULED: Final = "PodScheduled"
_ONE_BY_ONE: Final = 20
"""Pods that a table shows one by one; of more, those with equal outcomes share a row."""


@dataclass(frozen=True, slots=True)
class Device:
    claim: str
    request: str
    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one Pod; `origin` is what made it, such as `Deployment ml/web`.

    `pending` says why it has no Node; empty if it has one.  Times are in seconds since the Pod was created.
    """

    pod: Key
    origin: str
    state: State
    decision: str
    because: tuple[str, ...]
    warnings: tuple[str, ...]
    added: tuple[tuple[str, str, str], ...]
    """(toleration, rule, via)."""
    released: float | None
    node: str
    bound: float | None
    gone: float | None
    claims: tuple[tuple[str, str], ...]
    """(reference, name)."""
    devices: tuple[Device, ...]
    pending: str

    def data(self) -> dict[str, Any]:
        """As JSON and YAML have it."""
        return {
            "namespace": self.pod.namespace,
            "name": self.pod.name,
            "origin": self.origin,
            "state": self.state,
            "admission": {
                "decision": self.decision,
                "because": list(self.because),
                "warnings": list(self.warnings),
            },
            "releasedAfterSeconds": self.released,
            "tolerationsAdded": [
                {"toleration": toleration, "rule": rule, "via": via} for toleration, rule, via in self.added
            ],
            "claims": [{"reference": reference, "name": name} for reference, name in self.claims],
            "devices": [
                {"claim": d.claim, "request": d.request, "driver": d.driver, "pool": d.pool, "device": d.device}
                for d in self.devices
            ],
            "node": self.node or None,
            "boundAfterSeconds": self.bound,
            "goneAfterSeconds": self.gone,
            "pending": self.pending or None,
        }


def result(cluster: SimulatedCluster, simulated: SimulatedPod, origin: str) -> Result:
    pod, plan = simulated.pod, simulated.admitted
    entries = tolerations.provenance_of(pod)
    named = [(str(ref.get("name")), name) for ref, name in claims.resolved(pod) if isinstance(name, str)]
    if extended := pods.extended_resource_claim(pod):
        named.append(("extended resources", extended))
    return Result(
        pod=key_of(pod),
        origin=origin,
        state=_state(simulated),
        decision=plan.decision if plan is not None else "refused" if simulated.refused else "not asked",
        because=tuple(map(str, plan.because)) if plan is not None else (),
        warnings=plan.warnings if plan is not None else (),
        added=tuple((texts.text(each), entry["rule"], entry["via"]) for entry in entries for each in entry["added"]),
        released=_after(simulated, simulated.released),
        node="" if simulated.gone is not None else spec(pod).get("nodeName") or "",
        bound=_after(simulated, simulated.bound),
        gone=_after(simulated, simulated.gone),
        claims=tuple(named),
        devices=tuple(_devices(cluster, key_of(pod).namespace, [name for _, name in named])),
        pending=_pending(cluster, simulated),
    )


def _after(simulated: SimulatedPod, moment: float | None) -> float | None:
    return None if moment is None else moment - simulated.created


def _state(simulated: SimulatedPod) -> State:
    if simulated.refused:
        return "refused"
    if simulated.gone is not None:
        return "gone"
    if pods.is_bound(simulated.pod):
        return "placed"
    return "held" if pods.gate_names(simulated.pod) else "pending"


def _devices(cluster: SimulatedCluster, namespace: str, names: Sequence[str]) -> Iterator[Device]:
    for name in names:
        claim = cluster.api.find(RESOURCE_CLAIMS.kind, Key(namespace, name)) or {}
        for each in claims.results(claims.allocation(claim)):
            yield Device(name, *(str(each.get(member)) for member in ("request", "driver", "pool", "device")))


def _pending(cluster: SimulatedCluster, simulated: SimulatedPod) -> str:
    """Why it has no Node, the nearest cause first."""
    pod = simulated.pod
    if simulated.refused:
        return f"refused: {simulated.refused}"
    if simulated.gone is not None:
        return "preempted by a Pod of higher priority"
    if pods.is_bound(pod):
        return ""
    missing = [str(each) for each in cluster.gatherer.package(pod).missing]
    if gates := pods.gate_names(pod):
        held = f"held by {', '.join(gates)}"
        return f"{held}: waits for {', '.join(missing)}" if missing and pods.is_gated(pod) else held
    if not cluster.schedules(pod):
        return f"no scheduler {spec(pod).get('schedulerName')}: it has no profile in the scheduler's configuration"
    condition = conditions.find((pod.get("status") or {}).get("conditions"), _POD_SCHEDULED) or {}
    if message := condition.get("message"):
        return str(message)
    return f"waits for {', '.join(missing)}" if missing else "not tried yet"


def rows(results: Sequence[Result], *, wide: bool) -> list[dict[str, str]]:
    """Rows of a table: a Pod each, or for many Pods those with equal outcomes together."""
    if wide or len(results) <= _ONE_BY_ONE:
        return [_row(each, str(each.pod), each.node, ", ".join(map(str, each.devices)), wide=wide) for each in results]
    alike = defaultdict[tuple[Hashable, ...], list[Result]](list)
    for each in results:
        alike[outcome(each)].append(each)
    return [_row(group[0], *together(group), wide=wide) for group in alike.values()]


def outcome(one: Result) -> tuple[Hashable, ...]:
    """What Pods have in common that share a row."""
    return one.origin, admission(one), rules(one), one.state, one.pending


def together(group: Sequence[Result]) -> tuple[str, str, str]:
    """Name, Node and devices of Pods that share a row."""
    nodes = {each.node for each in group if each.node}
    devices = sum(len(each.devices) for each in group)
    shown = f"{len(nodes)} nodes" if len(nodes) > 1 else "".join(nodes)
    name = str(group[0].pod) if len(group) == 1 else f"{group[0].origin} ({len(group)} Pods)"
    return name, shown, f"{devices} devices" if devices else ""


def _row(one: Result, name: str, node: str, devices: str, *, wide: bool) -> dict[str, str]:
    row = {"pod": name, "admission": admission(one), "rules": ", ".join(rules(one)) or "-", "node": node or "-"}
    if wide:
        row["tolerations"] = ", ".join(toleration for toleration, _, _ in one.added) or "-"
        row["claims"] = ", ".join(name for _, name in one.claims) or "-"
    pending = one.pending if wide else cause(one)
    return row | {"devices": devices or "-", "pending": pending or "-"}


def cause(one: Result) -> str:
    """Why it has no Node, without what came of preemption."""
    return without_preemption(one.pending)


def admission(one: Result) -> str:
    """What the webhook decides, and what became of the gate."""
    if one.decision != "gated":
        return one.decision
    return "gated" if one.released is None else f"gated, released after {one.released:.0f}s"


def rules(one: Result) -> tuple[str, ...]:
    """Those that gave it tolerations."""
    return tuple(dict.fromkeys(rule for _, rule, _ in one.added))


def lost(pod: Object) -> str:
    """One line about a Pod that had to go."""
    return f"preempted: Pod {key_of(pod)} on {spec(pod).get('nodeName')}"
