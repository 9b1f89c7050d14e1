"""Which devices a scheduler may allocate.

Nothing in the API keeps two schedulers from giving one device to two claims.  So a scheduler allocates only devices
that its configuration says are its own: argument `exclusive` of DynamicResources.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from tollbar.dra.inventory import Pool
from tollbar.model import selectors

NOTHING: Final = (
    "no devices are exclusive to this scheduler, so it allocates none: set exclusive in DynamicResourcesArgs"
)
OTHER_NODE: Final = "devices of the node(s) are not exclusive to this scheduler"


class Ownership(NamedTuple):
    """Everything (`all`), the devices of these drivers, or those that only Nodes with these labels can use."""

    everything: bool = False
    drivers: frozenset[str] = frozenset()
    node_labels: Mapping[str, str] | None = None

    @classmethod
    def of(cls, exclusive: Any) -> Self:
        """From the argument: `all`, `{drivers: [...]}`, `{nodeSelector: {...}}`, or None for no devices at all.

        ValueError for anything else.
        """
        match exclusive:
            case None:
                return cls()
            case "all":
                return cls(everything=True)
            case {"drivers": [*drivers]} if len(exclusive) == 1 and all(isinstance(each, str) for each in drivers):
                return cls(drivers=frozenset(drivers))
            case {"nodeSelector": dict() as labels} if len(exclusive) == 1 and labels:
                return cls(node_labels=labels)
        raise ValueError("exclusive: must be all, {drivers: [...]} or {nodeSelector: {...}}")

    @property
    def is_empty(self) -> bool:
        return not (self.everything or self.drivers or self.node_labels)

    def refusal(self, labels: Mapping[str, str]) -> str:
        """Why no device may be allocated for a Node with these labels; empty if some may."""
        if self.is_empty:
            return NOTHING
        if self.node_labels is not None and not selectors.matches({"matchLabels": self.node_labels}, labels):
            return OTHER_NODE
        return ""

    def has(self, pool: Pool) -> bool:
        """Whether the devices of this pool may be allocated, on a Node for which some may.

        Of exclusive Nodes these are the local devices.  Others may be used from Nodes of another scheduler as well.
        """
        if self.node_labels is not None:
            return pool.is_local
        return self.everything or pool.id.driver in self.drivers
