"""The search for devices, Node by Node: Filter of DynamicResources for the claims that have no allocation."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from tollbar.dra.allocator import Allocator, Failed
from tollbar.dra.manager import DraManager
from tollbar.dra.selectors import Selectors
from tollbar.dra.solutions import NodeSolutions, Solutions
from tollbar.model.claims import device_classes
from tollbar.model.objects import Object, key_of
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.framework.interface import Known
from tollbar.scheduler.framework.status import Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins.dynamic_resources import extended_resources
from tollbar.scheduler.plugins.dynamic_resources.known_nodes import KnownNodes
from tollbar.scheduler.plugins.dynamic_resources.ownership import Ownership
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import OnNode, Plan, PodClaims

CANNOT_ALLOCATE: Final = "cannot allocate all claims"
CANNOT_ALLOCATE_OURS: Final = "cannot allocate all claims with devices that are exclusive to this scheduler"
_PIECE: Final = 0.002
"""Seconds for which a search holds the scheduler before others may run."""


class DeviceSearch:
    """`timeout` is in seconds for all Nodes of a cycle together, since no other Pod is tried meanwhile; 0 for none."""

    def __init__(self, handle: Handle, manager: DraManager, ownership: Ownership, timeout: float) -> None:
        self._handle = handle
        self._manager = manager
        self._ownership = ownership
        self._timeout = timeout
        self._selectors = Selectors()
        self._no_solution = unresolvable(CANNOT_ALLOCATE if ownership.everything else CANNOT_ALLOCATE_OURS)
        self._known: WeakKeyDictionary[NodeSolutions, KnownNodes] = WeakKeyDictionary()

    @cached_property
    def _solutions(self) -> Solutions:
        return Solutions(self._manager.inventory, self._manager.claims.state)

    def begin(self, pod_claims: PodClaims, *, copied: bool = False) -> Allocator:
        """Search with the claims and devices as they are at this moment, and the classes as they were the first time.

        What was found for other Nodes stays: Reserve looks whether the devices are still free.
        """
        manager = self._manager
        if pod_claims.deadline is None:
            pod_claims.deadline = self._handle.monotonic() + self._timeout if self._timeout else float("inf")
            pod_claims.device_classes = self._device_classes(pod_claims)
        pod_claims.revision = (None if copied else manager.claims.revision, manager.inventory.revision)
        pod_claims.allocator = Allocator(
            manager.inventory,
            manager.claims.state.copy() if copied else manager.claims.state,
            pod_claims.device_classes,
            selectors=self._selectors,
            clock=self._handle.monotonic,
            deadline=pod_claims.deadline,
            may_use=self._ownership.has,
        )
        return pod_claims.allocator

    def _device_classes(self, pod_claims: PodClaims) -> Mapping[str, Object]:
        """The classes that the claims name, and those that extended resources are allocated by."""
        classes = self._manager.classes
        backing = {key_of(each).name: each for each in pod_claims.classes.values() if each is not None}
        named = (name for claim in pod_claims.claims for name in device_classes(claim) if name in classes)
        return {name: classes[name] for name in named} | backing

    def plan(self, pod_claims: PodClaims, pod: PodInfo, node: NodeInfo) -> Plan | Status:
        """What is to be allocated on this Node, or why the Pod's extended resources rule it out."""
        if pod_claims.extended_place is None:
            return pod_claims.plans.get(()) or self._plan(pod_claims, pod, ())
        if pod_claims.left_over is not None:
            return unresolvable(extended_resources.STALE)
        names = extended_resources.from_devices(pod_claims.classes, node)
        if names is None:
            return unresolvable(extended_resources.CANNOT_FIT)
        return pod_claims.plans.get(names) or self._plan(pod_claims, pod, names)

    def _plan(self, pod_claims: PodClaims, pod: PodInfo, names: tuple[str, ...]) -> Plan:
        given, extended_place, extended = pod_claims.claims, pod_claims.extended_place, None
        wanted = {place: given[place] for place in pod_claims.to_allocate() if place != extended_place}
        if extended_place is not None and names:
            extended = extended_resources.claim_for(given[extended_place], pod.object, names, pod_claims.classes)
            wanted[extended_place] = extended.claim
        solutions, nodes = self._solutions.of(list(wanted.values()), pod_claims.device_classes), self._handle.snapshot
        if solutions.size > 2 * len(nodes):
            solutions.forget(lambda name: nodes.get(name) is None)
        plan = Plan(wanted, extended, solutions)
        pod_claims.plans[names] = plan
        return plan

    def known(self, pod_claims: PodClaims, pod: PodInfo, nodes: Snapshot) -> Known | None:
        """What solutions say of all Nodes about claims without an allocation.

        Of extended resources they do where devices provide all of them, and nothing of Nodes that have any themselves.
        None where labels of a Node decide whose its devices are: solutions do not look at them.
        """
        if self._ownership.node_labels is not None:
            return None
        names: tuple[str, ...] = ()
        if pod_claims.extended_place is not None:
            if None in pod_claims.classes.values():
                return None
            names = tuple(sorted(pod_claims.classes))
        solutions = (pod_claims.plans.get(names) or self._plan(pod_claims, pod, names)).solutions
        known = self._known.get(solutions)
        if known is None or known.nodes is not nodes:
            known = self._known[solutions] = KnownNodes(self._manager.inventory, nodes)
        said = known.update(solutions)
        for name in names:
            has_none = (nodes.table.allocatable(name) == 0)[nodes.table.order]
            said = Known(said.fits & has_none, said.rejected & has_none)
        return said._replace(why=self._no_solution)

    def try_node(self, node: NodeInfo, pod_claims: PodClaims, plan: Plan) -> Status | Steps[Status | None] | None:
        """What the claims of the plan get on this Node, kept for Reserve; the rejection if they do not fit there."""
        if node.name in pod_claims.on_nodes:
            return None
        if node.name in pod_claims.rejections:
            return pod_claims.rejections[node.name]
        if plan.wanted and (refusal := self._ownership.refusal(node.labels)):
            return unresolvable(refusal)
        kept = plan.solutions.get(node.name, node.labels)
        return self._search(node, pod_claims, plan) if kept is None else self._remember(node, pod_claims, plan, kept)

    def _search(self, node: NodeInfo, pod_claims: PodClaims, plan: Plan) -> Steps[Status | None]:
        result = yield from self._run(node, pod_claims, plan.wanted)
        match result:
            case Failed(timed_out=True):
                text = f"node {node.name}: timed out trying to allocate devices"
                are_enough = bool(pod_claims.on_nodes) or pod_claims.is_known_to_fit  # the Nodes that fit
                return unschedulable(text) if are_enough else failed(text)
            case Failed(message=message, node_only=True):
                return unresolvable(message)
            case Failed(message=message, error=error):
                return failed(message, error)
        allocations = tuple(result or ())
        if pod_claims.revision[0] is not None:  # else they are of a copy of the claims
            plan.solutions.put(node.name, node.labels, allocations)
        return self._remember(node, pod_claims, plan, allocations)

    def _remember(
        self, node: NodeInfo, pod_claims: PodClaims, plan: Plan, allocations: Sequence[Object]
    ) -> Status | None:
        if (known := self._known.get(plan.solutions)) is not None:
            known.was_asked(node.name)
        if len(allocations) == len(plan.wanted):
            pod_claims.on_nodes[node.name] = OnNode(plan, allocations)
            return None
        return pod_claims.rejections.setdefault(node.name, self._no_solution)

    def _run(
        self, node: NodeInfo, pod_claims: PodClaims, wanted: Mapping[int, Object]
    ) -> Steps[list[Object] | Failed | None]:
        """Search piece by piece.  Where others run in between and claims change, go on with a copy of them."""
        allocator = pod_claims.allocator
        while True:
            if allocator is None or self._is_outdated(pod_claims):
                allocator = self.begin(pod_claims)
            allocation = allocator.begin(node.node or {}, list(wanted.values()))
            while not allocation.run(_PIECE):
                yield
                if self._is_outdated(pod_claims):
                    allocator = self.begin(pod_claims, copied=True)
                    break
            else:
                return allocation.result

    def _is_outdated(self, pod_claims: PodClaims) -> bool:
        """Whether claims or devices have changed that the allocator reads."""
        of_claims, of_inventory = pod_claims.revision
        manager = self._manager
        return of_claims not in (None, manager.claims.revision) or of_inventory != manager.inventory.revision
