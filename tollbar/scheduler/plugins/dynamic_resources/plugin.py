"""DynamicResources: allocates the ResourceClaims of a Pod on its Node, and reserves them for it.

Source: pkg/scheduler/framework/plugins/dynamicresources.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

import numpy as np

from tollbar.dra.manager import DraManager
from tollbar.model import claims, nodeaffinity, pods
from tollbar.model.objects import Key, Object, key_of, uid_of
from tollbar.model.steps import Steps
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.framework.cyclestate import CycleState
from tollbar.scheduler.framework.diagnosis import NodeStatuses
from tollbar.scheduler.framework.events import (
    Action,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
    queue_if,
)
from tollbar.scheduler.framework.handle import NOTHING, Handle
from tollbar.scheduler.framework.interface import Arguments, Known, Mask, Nominate, PreFlight, Scores
from tollbar.scheduler.framework.status import SKIP, Status, failed, unresolvable, unschedulable
from tollbar.scheduler.plugins import node_masks
from tollbar.scheduler.plugins.dynamic_resources import binding_conditions, extended_resources
from tollbar.scheduler.plugins.dynamic_resources.binding import ClaimBinding
from tollbar.scheduler.plugins.dynamic_resources.binding_conditions import BindingFailed
from tollbar.scheduler.plugins.dynamic_resources.ownership import Ownership
from tollbar.scheduler.plugins.dynamic_resources.pod_claims import (
    NAME,
    NO_CLAIMS,
    ClaimsToBind,
    NotReady,
    PodClaims,
    claims_of,
)
from tollbar.scheduler.plugins.dynamic_resources.search import DeviceSearch
from tollbar.scheduler.plugins.dynamic_resources.writes import ClaimError
from tollbar.scheduler.plugins.normalize import normalize

UNAVAILABLE: Final = "resourceclaim not available on the node"
DEALLOCATED: Final = "deallocation of ResourceClaim completed"
DELETED: Final = "deletion of ResourceClaim completed"
BACKED_SINCE: Final = "a device class has come to stand for an extended resource in the meantime"
_ALTERNATIVES_MAX: Final = 8
"""The most alternatives of a prioritized list (FirstAvailableDeviceRequestMaxSize)."""


class DynamicResources:
    """Does nothing where the cluster has no API for claims."""

    name = NAME

    def __init__(self, args: Arguments, handle: Handle) -> None:
        """ValueError for an argument `exclusive` that is none."""
        self._handle = handle
        self._manager = cast("DraManager", handle.dra)
        self._ownership = Ownership.of(args.get("exclusive"))
        filter_timeout = cast("float", args.get("filterTimeout", 10.0))
        self._search = DeviceSearch(handle, self._manager, self._ownership, filter_timeout)
        self._binding = ClaimBinding(handle, self._manager, cast("float", args.get("bindingTimeout", 600.0)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        if self._handle.dra is None:
            return []
        changed = Action.ADD | Action.UPDATE
        node_changed = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE
        node = ClusterEvent(EventResource.NODE, node_changed)
        claim = ClusterEvent(EventResource.RESOURCE_CLAIM, changed | Action.DELETE)
        own_claims = ClusterEvent(EventResource.TARGET_POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
        pod_group = ClusterEvent(EventResource.POD_GROUP, Action.ADD)
        return [
            ClusterEventWithHint(node),
            ClusterEventWithHint(claim, self._after_claim_change, self._pods_of_claim),
            ClusterEventWithHint(own_claims, self._after_own_claims_change),
            ClusterEventWithHint(pod_group, self._after_pod_group_add),
            ClusterEventWithHint(ClusterEvent(EventResource.DEVICE_CLASS, changed)),
            ClusterEventWithHint(ClusterEvent(EventResource.RESOURCE_SLICE, changed)),
        ]

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        if self._handle.dra is not None:
            try:
                self._claims_of(pod)
            except NotReady as problem:
                return unresolvable(str(problem))
        return None

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Status | None:
        state.write(self.name, NO_CLAIMS)
        if self._handle.dra is None:
            return SKIP
        try:
            named = self._claims_of(pod)
        except NotReady as problem:
            return unresolvable(str(problem))
        classes = self._classes_of(pod)
        extended = self._extended_claim(pod, classes)
        if not named and extended is None:
            return SKIP
        self._binding.resume()
        for claim in named:
            if claims.allocation(claim) is None and (status := self._problem(claim)) is not None:
                return status
        pod_claims = PodClaims(named, classes=classes)
        if extended is not None:
            pod_claims.extended_place = len(named)
            pod_claims.claims.append(extended)
        state.write(self.name, pod_claims)
        if pod_claims.to_allocate():
            self._search.begin(pod_claims)
        return None

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status | Steps[Status | None] | None:
        pod_claims = self._pod_claims(state)
        if pod_claims is None:
            return None
        plan = self._search.plan(pod_claims, pod, node)
        if isinstance(plan, Status):
            return plan
        if not plan.wanted and not pod_claims.named:
            return None
        answer = self._search.try_node(node, pod_claims, plan) if pod_claims.allocator is not None else None
        if answer is None:
            return self._reject_unavailable(pod_claims, node)
        return answer if isinstance(answer, Status) else self._searched(pod_claims, node, answer)

    def filter_known(self, state: CycleState, pod: PodInfo, nodes: Snapshot) -> Known | None:
        pod_claims = self._pod_claims(state)
        if pod_claims is None or pod_claims.left_over is not None:
            return None
        available = _available_nodes(pod_claims, nodes)
        if available is None:
            return None
        if pod_claims.allocator is None:
            return Known(available, ~available)
        known = self._search.known(pod_claims, pod, nodes)
        if known is not None and not available.all():
            known = Known(known.fits & available, known.rejected | ~available)
        pod_claims.is_known_to_fit = known is not None and bool(known.fits.any())
        return known

    def _searched(self, pod_claims: PodClaims, node: NodeInfo, steps: Steps[Status | None]) -> Steps[Status | None]:
        status = yield from steps
        return status or self._reject_unavailable(pod_claims, node)

    def post_filter(
        self, state: CycleState, pod: PodInfo, statuses: NodeStatuses
    ) -> tuple[Nominate | None, Status | None]:
        """Give up a claim that no tried Node can use, so that it can be allocated elsewhere."""
        pod_claims = state.read(self.name, PodClaims)
        if pod_claims is None:
            return None, failed("not found")  # a PreFilter before this one has stopped the cycle
        for place in self._handle.rng.sample(sorted(pod_claims.unavailable), len(pod_claims.unavailable)):
            claim = pod_claims.claims[place]
            if {each.get("uid") for each in claims.reserved_for(claim)} <= {pod.uid}:
                self._binding.give_up(claim, pod)
                return None, unschedulable(DEALLOCATED)
        if (left_over := pod_claims.left_over) is not None:
            self._binding.delete(left_over, pod)
            return None, unschedulable(DELETED)
        return None, unschedulable()

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status | None:
        pod_claims = self._pod_claims(state)
        has_lists = pod_claims is not None and any(
            request.get("firstAvailable") for claim in pod_claims.claims for request in claims.requests_of(claim)
        )
        return None if has_lists else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """The more, the earlier the alternatives are in their lists that the claims get."""
        pod_claims = self._pod_claims(state)
        on_node = pod_claims.on_node(node) if pod_claims is not None else None
        if pod_claims is None or on_node is None:
            return 0
        allocations = on_node.by_place
        return sum(
            _score(claim, claims.allocation(claim) or allocations.get(place) or {})
            for place, claim in enumerate(pod_claims.claims)
        )

    def normalize_score(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo], scores: Scores
    ) -> Status | None:
        normalize(scores)
        return None

    def reserve(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        pod_claims = self._pod_claims(state)
        known = pod_claims.classes if pod_claims is not None else {}
        for name, device_class in self._classes_of(pod).items():
            if device_class is not None and known.get(name) is None:
                # NodeResourcesFit may have left to devices what nobody has looked for.
                return unresolvable(f"{BACKED_SINCE}: {name}")
        if pod_claims is None:
            return None
        to_allocate = pod_claims.to_allocate()
        on_node = pod_claims.on_node(self._handle.snapshot.get(node_name)) if to_allocate else None
        to_bind = ClaimsToBind(pod_claims.claims, pod_claims.extended_place)
        state.write(self.name, to_bind)  # and with it forget the search: many Pods are being bound at one time
        if on_node is not None:
            problem = self._binding.reserve(to_bind, on_node)
            return failed(problem) if problem else None
        # What devices could have provided may be the Node's own.
        is_without = not to_allocate or to_allocate == [pod_claims.extended_place]
        return None if is_without else failed("claim allocation not found for node")

    def unreserve(self, state: CycleState, pod: PodInfo, node_name: str) -> None:
        to_bind = self._to_bind(state)
        if to_bind is not None:
            self._binding.unreserve(to_bind, pod)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node_name: str) -> PreFlight | Status | None:
        return SKIP if self._to_bind(state) is None else PreFlight(allow_parallel=True)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node_name: str) -> Status | None:
        to_bind = self._to_bind(state)
        if to_bind is None:
            return None
        try:
            await self._binding.bind(to_bind, pod, node_name)
        except (BindingFailed, ClaimError) as error:
            return failed(str(error), error)
        return None

    def _claims_of(self, pod: PodInfo) -> list[Object]:
        """The claims that the Pod names.  Raises NotReady, also while its PodGroup is missing: it may share them.

        Where PodGroups are not served in a version that is read (Kubernetes 1.36 has another), no Pod waits for one.
        """
        obj = pod.object
        if not pods.claim_references(obj):
            return []
        found, name = claims_of(obj, self._manager.claims), pods.scheduling_group(obj)
        groups = self._handle.listers.pod_groups
        if found and name and groups.served and groups.get(Key(pod.key.namespace, name)) is None:
            raise NotReady(f'waiting for pod group "{name}"')
        return found

    def _classes_of(self, pod: PodInfo) -> dict[str, Object | None]:
        """The DeviceClass that backs each extended resource of the Pod at this moment, None for one without."""
        if self._handle.dra is None:
            return {}
        return {name: self._manager.classes.for_extended_resource(name) for name in extended_resources.names(pod)}

    def _pod_claims(self, state: CycleState) -> PodClaims | None:
        """What PreFilter has found of the Pod's claims; None for a Pod without any, and once Reserve was called."""
        pod_claims = state.read(self.name, PodClaims)
        return pod_claims if pod_claims is not None and pod_claims.claims else None

    def _to_bind(self, state: CycleState) -> ClaimsToBind | None:
        """The claims of a Pod that has a Node, as Reserve has left them; None for a Pod without any.

        Without an allocation to write where Reserve was not called: that of another plugin has failed first, or the
        profile does not enable it.
        """
        pod_claims = self._pod_claims(state)
        if pod_claims is None:
            return state.read(self.name, ClaimsToBind)
        return ClaimsToBind(pod_claims.claims, pod_claims.extended_place)

    def _extended_claim(self, pod: PodInfo, classes: Mapping[str, Object | None]) -> Object | None:
        """The claim for extended resources: that of an earlier attempt, or one that is yet to be created."""
        if all(each is None for each in classes.values()):
            return None
        existing = extended_resources.existing(pod.object, self._manager.claims.owned_by(pod.uid))
        return existing or extended_resources.virtual(pod.object)

    def _problem(self, claim: Object) -> Status | None:
        """Why a claim cannot be allocated on any Node."""
        key = key_of(claim)
        if self._manager.claims.pending_allocation(uid_of(claim)) is not None:
            return unresolvable(f"resource claim {key} is in the process of being allocated")
        for request in claims.requests_of(claim):
            name, exactly, alternatives = request["name"], request.get("exactly"), request.get("firstAvailable") or ()
            if exactly is None and not alternatives:
                return unresolvable(f"resource claim {key}, request {name}: unknown request type")
            asked = [(name, exactly)] if exactly is not None else [(f"{name}/{o['name']}", o) for o in alternatives]
            for asked_name, body in asked:
                class_name = str(body.get("deviceClassName") or "")
                if not class_name:
                    return failed(f"request {asked_name}: unsupported request type")
                if class_name not in self._manager.classes:
                    return unresolvable(f"request {asked_name}: device class {class_name} does not exist")
        return unresolvable(self._ownership.refusal({})) if self._ownership.is_empty else None

    def _reject_unavailable(self, pod_claims: PodClaims, node: NodeInfo) -> Status | None:
        unavailable = [place for place, claim in enumerate(pod_claims.claims) if not self._is_available(claim, node)]
        pod_claims.unavailable.update(unavailable)
        return unresolvable(UNAVAILABLE) if unavailable else None

    def _is_available(self, claim: Object, node: NodeInfo) -> bool:
        """Whether the Pod may use a claim on this Node that is allocated; true of any other one."""
        allocation = claims.allocation(claim)
        if allocation is None:
            return True
        selector = allocation.get("nodeSelector")
        if selector is not None and not nodeaffinity.selects(selector, node.node or {}):
            return False
        try:
            return binding_conditions.are_true(claim) or not self._binding.has_timed_out(claim)
        except BindingFailed:
            return False

    # Queueing hints.

    def _pods_of_claim(self, old: Object | None, new: Object | None) -> Iterable[Key] | None:
        """The Pods that use the claim; all Pods where it has given up devices."""
        known = self._handle.listers.pods
        if known is NOTHING or _gives_up_devices(old, new):
            return None
        return known.keys_by_index("claim", key_of(new or old or {}))

    def _after_claim_change(self, pod: PodInfo, old: Object | None, new: Object | None) -> QueueingHint:
        """A claim gave up its devices, or the status of one that the Pod uses changed.

        A deletion aside, neither helps while another claim of the Pod cannot be used.
        """
        if new is None:
            return queue_if(_gives_up_devices(old, new))
        try:
            used = any(uid_of(each) == uid_of(new) for each in claims_of(pod.object, self._manager.claims))
        except NotReady:
            return QueueingHint.SKIP
        changed = old is None or (old.get("status") or {}) != (new.get("status") or {})
        return queue_if(_gives_up_devices(old, new) or (used and changed))

    def _after_pod_group_add(self, pod: PodInfo, _old: Object | None, new: Object | None) -> QueueingHint:
        """The Pod's own PodGroup is there."""
        group = key_of(new or {})
        return queue_if(group == (pod.key.namespace, pods.scheduling_group(pod.object)))

    def _after_own_claims_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo) -> QueueingHint:
        """The Pod's status names its generated claims: all claims of the Pod have to be usable."""
        try:
            claims_of(new.object, self._manager.claims)
        except NotReady:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE


def _available_nodes(pod_claims: PodClaims, nodes: Snapshot) -> Mask | None:
    """Where the claims that are allocated may be used; None if one waits for binding conditions, which time changes."""
    table = nodes.table
    mask: Mask = np.ones(len(nodes), np.bool_)
    for claim in pod_claims.claims:
        if binding_conditions.are_asked_for(claim):
            return None
        selector = (claims.allocation(claim) or {}).get("nodeSelector")
        if selector is not None:
            mask &= node_masks.selected(selector, table)[table.order]
    return mask


def _gives_up_devices(old: Object | None, new: Object | None) -> bool:
    return claims.allocation(old or {}) is not None and claims.allocation(new or {}) is None


def _score(claim: Object, allocation: Object) -> int:
    chosen = {each["request"] for each in claims.results(allocation)}
    return sum(
        _ALTERNATIVES_MAX - place
        for request in claims.requests_of(claim)
        for place, alternative in enumerate(request.get("firstAvailable") or ())
        if f"{request['name']}/{alternative['name']}" in chosen
    )
