"""Amounts of resources as the scheduler counts them: whole numbers, rounded up as Quantity.MilliValue and Value do.

Source: Resource in pkg/scheduler/framework/types.go, and PodRequests in k8s.io/component-helpers/resource.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from tollbar.model import podresources, quantity
from tollbar.model.objects import Object

DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""What a container that requests no cpu or memory counts as, where empty Pods must not look free."""
MISSING: Final = {"cpu": Decimal(DEFAULT_MILLI_CPU) / 1000, "memory": Decimal(DEFAULT_MEMORY)}
"""The same, as amounts of `tollbar.model.podresources`."""
_INT64_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class Resources:
    """cpu in millicores, memory and ephemeral storage in bytes, `pods` a count, all other resources by name."""

    milli_cpu: int = 0
    memory: int = 0
    ephemeral_storage: int = 0
    pods: int = 0
    scalars: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Resources":
        return Resources(self.milli_cpu, self.memory, self.ephemeral_storage, self.pods, dict(self.scalars))

    def add(self, other: "Resources", sign: int = 1) -> None:
        """Add what a Pod requests, or take it away with sign -1; `pods` stays as it is."""
        self.milli_cpu += sign * other.milli_cpu
        self.memory += sign * other.memory
        self.ephemeral_storage += sign * other.ephemeral_storage
        for name, value in other.scalars.items():
            if amount := self.scalars.get(name, 0) + sign * value:
                self.scalars[name] = amount
            else:
                self.scalars.pop(name, None)

    def get(self, name: str) -> int:
        """The amount of a resource by its name in the API; 0 if there is none."""
        match name:
            case "cpu":
                return self.milli_cpu
            case "memory":
                return self.memory
            case "ephemeral-storage":
                return self.ephemeral_storage
            case "pods":
                return self.pods
        return self.scalars.get(name, 0)


def from_quantities(given: Mapping[str, Any]) -> Resources:
    """Resources from quantities by name (texts or numbers), as in `status.allocatable` of a Node.

    What is no quantity counts as absent: the API server refuses it.
    """
    found = Resources()
    for name, text in given.items():
        try:
            nanos = quantity.nanos(str(text))
        except ValueError:
            continue
        match name:
            case "cpu":
                found.milli_cpu = _value(nanos, quantity.NANO // 1000)
            case "memory":
                found.memory = _value(nanos)
            case "ephemeral-storage":
                found.ephemeral_storage = _value(nanos)
            case "pods":
                found.pods = _value(nanos)
            case _ if _is_scalar(name):
                found.scalars[name] = _value(nanos)
    return found


def _is_scalar(name: str) -> bool:
    """Whether the scheduler counts a resource of this name (IsScalarResourceName); others have no amounts on Nodes."""
    return (
        name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
        or ("/" in name and not name.startswith("requests."))
    )


@dataclass(frozen=True, slots=True)
class PodRequests:
    """What a Pod requests; `non_zero_*` counts containers without a request with the defaults above."""

    resources: Resources
    non_zero_milli_cpu: int
    non_zero_memory: int


def pod_requests(pod: Object) -> PodRequests:
    """What a Pod counts as.  Where it requests cpu or memory as a whole, its containers need not.

    Source: PodInfo.CalculateResource.
    """
    total = podresources.requests(pod, status=True)
    resources = from_quantities(total)
    whole = podresources.has_pod_level(pod)
    missing = {name: amount for name, amount in MISSING.items() if not whole or name not in total}
    non_zero = from_quantities(podresources.requests(pod, missing=missing, status=True)) if missing else resources
    return PodRequests(resources, non_zero.milli_cpu, non_zero.memory)


def _value(nanos: int, unit: int = quantity.NANO) -> int:
    """The amount in units, rounded up, as far as 64 bits go."""
    return max(-_INT64_MAX, min(_INT64_MAX, -(-nanos // unit)))
