"""The ResourceClaims of a Pod: what one scheduling cycle knows of them, and what is to be written of them then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tollbar.dra.allocator import Allocator
from tollbar.dra.claims import Claims
from tollbar.dra.solutions import NodeSolutions
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of, metadata
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.framework.status import Status
from tollbar.scheduler.plugins.dynamic_resources import extended_resources
from tollbar.scheduler.plugins.dynamic_resources.extended_resources import Extended

NAME: Final = "DynamicResources"
"""The name of the plugin, under which the CycleState has the PodClaims, and from Reserve on the ClaimsToBind."""


class NotReady(Exception):
    """A claim of the Pod does not exist, or may not be used."""


def claims_of(pod: Object, known: Claims) -> list[Object]:
    """The claims that `spec.resourceClaims` names, each once, without those that the Pod turned out not to need.

    Raises NotReady.
    """
    namespace, name = key_of(pod)
    found: list[Object] = []
    for reference, claim_name in claims.resolved(pod):
        match claim_name:
            case claims.Unresolved.NOT_NEEDED:
                continue
            case claims.Unresolved.NOT_CREATED:
                raise NotReady(f'pod "{namespace}/{name}": ResourceClaim not created yet')
            case claims.Unresolved.UNSUPPORTED:
                which = f'pod "{namespace}/{name}", spec.resourceClaim "{reference.get("name")}"'
                raise NotReady(f"{which}: none of the supported fields are set")
        key = Key(namespace, claim_name)
        claim = known.get(key)
        if claim is None:
            raise NotReady(not_found(key))
        if metadata(claim).get("deletionTimestamp"):
            raise NotReady(f'resourceclaim "{claim_name}" is being deleted')
        if not reference.get("resourceClaimName") and not claims.is_for(claim, pod):
            raise NotReady(f"ResourceClaim {key} was not created for Pod {namespace}/{name} (Pod is not owner)")
        if not any(claim is each for each in found):
            found.append(claim)
    return found


def not_found(key: Key) -> str:
    """As kube-scheduler's cache of claims words it."""
    return f'could not find ResourceClaim "{key}"'


def is_reserved(claim: Object, pod: PodInfo) -> bool:
    """Whether an entry is the Pod's own."""
    return any(each.get("uid") == pod.uid for each in claims.reserved_for(claim))


def entry_for(claim: Object, pod: Object, group: Object | None) -> Object:
    """The entry of `reservedFor` for a claim of this Pod: that of its PodGroup if the PodGroup shares the claim."""
    name = key_of(claim).name
    for reference, resolved in claims.resolved(pod) if group is not None else ():
        if resolved == name and group is not None and claims.is_shared_with(group, reference):
            return claims.pod_group_entry(group)
    return claims.pod_entry(pod)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be allocated, on all Nodes where devices have to provide the same extended resources.

    `wanted` has claims by their places among those of the Pod; `solutions` has what is known of claims like these.
    """

    wanted: Mapping[int, Object]
    extended: Extended | None
    solutions: NodeSolutions


class OnNode(NamedTuple):
    """What the claims of the plan would get on a Node."""

    plan: Plan
    allocations: Sequence[Object]

    @property
    def by_place(self) -> dict[int, Object]:
        return dict(zip(self.plan.wanted, self.allocations, strict=True))


@dataclass(slots=True, eq=False)
class PodClaims:
    """The search for devices, from PreFilter to Reserve.

    `claims` has those of `spec.resourceClaims` in their order, then the one for extended resources, which is at
    `extended_place` if there is one.  The trials of preemption share it, because to remove a Pod from a Node releases
    none of its claims.  Source: stateData in pkg/scheduler/framework/plugins/dynamicresources.
    """

    claims: list[Object] = field(default_factory=list)
    extended_place: int | None = None
    classes: Mapping[str, Object | None] = field(default_factory=dict)
    """The DeviceClass of each extended resource that the Pod requests, None for one that only device plugins have."""
    device_classes: Mapping[str, Object] = field(default_factory=dict)
    """Those that may be allocated by, by name, as they were when PreFilter began the first search."""
    plans: dict[tuple[str, ...], Plan] = field(default_factory=dict)
    """By the extended resources that devices have to provide."""
    allocator: Allocator | None = None
    """None if everything is allocated."""
    deadline: float | None = None
    """When the searches on all Nodes have to end, in seconds of the Handle's clock; None before PreFilter has begun the
    first one."""
    revision: tuple[int | None, int] = (0, 0)
    """The revisions of the claims and of the inventory that the allocator was made for.  That of the claims is None for
    an allocator with a copy of them, which does not change."""
    unavailable: set[int] = field(default_factory=set)
    """Places of claims that are allocated, but not for some Node that was tried."""
    on_nodes: dict[str, OnNode] = field(default_factory=dict)
    is_known_to_fit: bool = False
    """Whether there is a Node on which the claims fit without a search."""
    rejections: dict[str, Status] = field(default_factory=dict)
    """Why Nodes are out of the question for the claims that have no allocation."""

    @property
    def named(self) -> list[Object]:
        """Those of `spec.resourceClaims` alone."""
        return self.claims if self.extended_place is None else self.claims[: self.extended_place]

    def on_node(self, node: NodeInfo | None) -> OnNode | None:
        """What the claims get on a Node that fits: as Filter has found it, else as the solutions know it.

        Filter is not called for Nodes that are known to fit.  Reserve finds out whether the devices are still free.
        """
        if node is None:
            return None
        found = self.on_nodes.get(node.name)
        if found is None:
            names = extended_resources.from_devices(self.classes, node) if self.extended_place is not None else ()
            plan = self.plans.get(names) if names is not None else None
            if plan is not None and (kept := plan.solutions.last(node.name)):
                found = self.on_nodes[node.name] = OnNode(plan, kept)
        return found

    @property
    def left_over(self) -> Object | None:
        """The claim for extended resources that an earlier attempt has left.  No Node will do until it is gone."""
        claim = self.claims[self.extended_place] if self.extended_place is not None else None
        return claim if claim is not None and not extended_resources.is_virtual(claim) else None

    def to_allocate(self) -> list[int]:
        return [place for place, claim in enumerate(self.claims) if claims.allocation(claim) is None]


NO_CLAIMS: Final = PodClaims()
"""Of a Pod without claims, or whose claims cannot be used."""


@dataclass(slots=True, eq=False)
class ClaimsToBind:
    """The claims of a Pod that has a Node, from Reserve on: `claims` and `extended_place` as those of PodClaims.

    Each claim is replaced by the newer one that was read or written.
    """

    claims: list[Object]
    extended_place: int | None
    extended: Extended | None = None
    """The claim to create for extended resources; None if there is one, or the Node needs none for them."""
    allocations: dict[int, Object] = field(default_factory=dict)
    """What is to be written, by the places of the claims."""
    pending: dict[int, str] = field(default_factory=dict)
    """The uids of the claims whose allocation is pending because of this Pod, by their places."""
    unanswered: set[int] = field(default_factory=set)
    """Places of claims of which nobody knows whether their allocation was written."""
