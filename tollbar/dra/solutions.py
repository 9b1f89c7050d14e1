"""Solutions: what allocations have come to on each Node, for claims that ask for the same.

While devices are only taken, a Node without a solution has none, and the first solution stays the first one for as long
as its devices are free; with shares of devices it does until something of the Node is taken.  So most of the claims of
a template need no search of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import orjson

from tollbar.dra.inventory import Inventory
from tollbar.dra.state import AllocatedState, holdings
from tollbar.model import claims
from tollbar.model.devices import DeviceId
from tollbar.model.objects import Object, spec

_KINDS_MAX: Final = 64
_SOLUTIONS_MAX: Final = 50_000
"""For all kinds together, each of which takes about 2 KB: 5,000 Nodes and ten templates of claims."""

Allocations: TypeAlias = tuple[Object, ...]
"""One `status.allocation` for each of the claims; empty if they do not fit on the Node."""


@dataclass(frozen=True, slots=True, eq=False)
class _Solution:
    allocations: Allocations
    devices: frozenset[DeviceId]
    """What has to be free for it; nothing if it has shares."""
    version: tuple[int, int, int]
    usage_version: tuple[int, int] | None
    """With shares it holds until a device is taken or released: what is left of a device decides about it, and each
    share has an id of its own."""
    labels: Mapping[str, str]


class NodeSolutions:
    """The solutions for one kind of claims, by Node."""

    def __init__(self, inventory: Inventory, state: AllocatedState) -> None:
        self._inventory = inventory
        self._state = state
        self._by_node: dict[str, _Solution] = {}

    @property
    def size(self) -> int:
        """Of how many Nodes there are solutions, also of some that are gone."""
        return len(self._by_node)

    def forget(self, is_gone: Callable[[str], bool]) -> None:
        """Forget the solutions of Nodes that are gone, by their names."""
        self._by_node = {name: kept for name, kept in self._by_node.items() if not is_gone(name)}

    def get(self, node_name: str, labels: Mapping[str, str]) -> Allocations | None:
        """The allocations on the Node of this name and these labels; None if they have to be searched."""
        kept = self._by_node.get(node_name)
        if kept is None or kept.version != self._inventory.version_of(node_name):
            return None
        if kept.labels is not labels and kept.labels != labels:
            return None
        if kept.usage_version is not None:
            return kept.allocations if kept.usage_version == self._inventory.usage_version_of(node_name) else None
        return kept.allocations if all(each not in self._state for each in kept.devices) else None

    def last(self, node_name: str) -> Allocations:
        """What a search on the Node of this name has come to, whatever may have changed since; empty without one."""
        kept = self._by_node.get(node_name)
        return () if kept is None else kept.allocations

    def put(self, node_name: str, labels: Mapping[str, str], found: Sequence[Object]) -> None:
        """Keep what a search has just found; nothing may have changed since it began."""
        shares = [each for allocation in found for each in claims.results(allocation) if "shareID" in each]
        if any(each.get("adminAccess") for each in shares):
            return  # nobody would notice that it is used, and a second use needs other ids
        held = () if shares else [each for allocation in found for each in holdings(allocation)]
        devices = frozenset(each.device for each in held)
        version = self._inventory.version_of(node_name)
        usage_version = self._inventory.usage_version_of(node_name) if shares else None
        self._by_node[node_name] = _Solution(tuple(found), devices, version, usage_version, labels)


class Solutions:
    """The solutions for the kinds of claims that were asked for last."""

    def __init__(self, inventory: Inventory, state: AllocatedState) -> None:
        """`inventory` has to hear of what is taken and released, as that of `DraManager` does."""
        self._inventory = inventory
        self._state = state
        self._kinds: dict[bytes, NodeSolutions] = {}

    def of(self, given: Sequence[Object], classes: Mapping[str, Object]) -> NodeSolutions:
        """The same for claims, in their order, that ask for the same of the same DeviceClasses."""
        asked = [spec(each).get("devices") for each in given]
        named = sorted({name for each in given for name in claims.device_classes(each)})
        key = orjson.dumps((asked, [spec(classes.get(name) or {}) for name in named]), option=orjson.OPT_SORT_KEYS)
        found = self._kinds.pop(key, None) or NodeSolutions(self._inventory, self._state)
        self._kinds[key] = found
        solutions = sum(each.size for each in self._kinds.values())
        while len(self._kinds) > 1 and (len(self._kinds) > _KINDS_MAX or solutions > _SOLUTIONS_MAX):
            solutions -= self._kinds.pop(next(iter(self._kinds))).size
        return found
