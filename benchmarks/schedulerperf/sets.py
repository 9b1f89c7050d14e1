"""The workloads that are measured by default, by the number of Nodes, and what is aimed for.

Where upstream has no workload of a size, another one's parameters are replaced.  A second is the unit of upstream's
samples, so most workloads have more Pods to measure than upstream's of that size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Target:
    """Of Tollbar's figures divided by those of kube-scheduler with the same limits."""

    rate: float = 1.0
    cpu: float = 0.5
    server_cpu: float = 1.05


HELD_P99: Final = 10.0
"""Milliseconds for which the event loop should be held at most, in 99 of 100 readings."""
HELD_LONGEST: Final = 50.0
"""The same of all readings."""
_SPREAD: Final = Target(rate=1.5, cpu=0.35)
_CLAIMS: Final = Target(rate=1.2, cpu=0.4)
_MORE_CLAIMS: Final = Target(cpu=0.4)

SETS: Final[Mapping[str, Mapping[str, Target]]] = {
    "500": {
        "SchedulingBasic/500Nodes,measurePods=3000": Target(rate=1.3),
        "SchedulingWithMixedChurn/1000Nodes,initNodes=500,measurePods=3000": Target(),
        "SchedulingWhileGated/1Node_10000GatedPods,gatedPods=2000,deletingPods=2000,measurePods=3000": Target(),
        "SchedulingDaemonset/15000Nodes,initNodes=500,measurePods=3000": Target(),
        "Unschedulable/500Nodes/10Init/1kPods,measurePods=3000": Target(),
        "TopologySpreading/500Nodes,measurePods=3000": _SPREAD,
        "PreferredTopologySpreading/500Nodes,measurePods=3000": Target(cpu=0.35),
        "SchedulingNodeAffinity/500Nodes,measurePods=3000": Target(),
        "SchedulingPodAffinity/500Nodes,measurePods=3000": Target(),
        "SchedulingPodAntiAffinity/500Nodes": Target(),
        "PreemptionAsync/500Nodes,measurePods=1500": Target(),
        "SchedulingWithResourceClaimTemplate/2000pods_200nodes,nodesWithDRA=100,initClaims=0": _CLAIMS,
        "SchedulingWithResourceClaimTemplate/5000pods_500nodes": _MORE_CLAIMS,
        "SchedulingWithResourceClaimTemplate/empty_500nodes": _MORE_CLAIMS,
        "SchedulingWithResourceClaimTemplate/half_500nodes": _MORE_CLAIMS,
        "SchedulingWithResourceClaimTemplate/full_500nodes": _MORE_CLAIMS,
        "SchedulingWithResourceClaim/5000pods_500nodes": _MORE_CLAIMS,
        "Partitionable/empty_500nodes": _MORE_CLAIMS,
        "Partitionable/half_500nodes": _MORE_CLAIMS,
        "ConsumableCapacity/empty_500nodes": _MORE_CLAIMS,
        "ConsumableCapacity/half_500nodes": _MORE_CLAIMS,
        "ExtendedResource/Explicit_25classes_5000pods_500nodes": _MORE_CLAIMS,
    },
    "5000": {
        "SchedulingBasic/5000Nodes,measurePods=3000": Target(rate=1.2),
        "SchedulingWithMixedChurn/5000Nodes,measurePods=3000": Target(),
        "SchedulingWhileGated/1Node_10000GatedPods,deletingPods=10000,measurePods=10000": Target(),
        "TopologySpreading/5000Nodes,measurePods=3000": _SPREAD,
        "SchedulingWithResourceClaimTemplate/5000pods_500nodes,nodesWithDRA=5000": _MORE_CLAIMS,
    },
}


def target(name: str) -> Target | None:
    """What is aimed for, None for a workload of no set."""
    return next((each[name] for each in SETS.values() if name in each), None)
