"""How a Pod wants to spread over topology domains: its constraints, or those that a profile gives to Pods without any.

Source: pkg/scheduler/framework/plugins/podtopologyspread/common.go and plugins/helper/spread.go; KEP-895, KEP-1258
(default constraints), KEP-3022 (minDomains), KEP-3094 (inclusion policies), KEP-3243 (matchLabelKeys).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tollbar.model import nodeaffinity, tolerations
from tollbar.model.objects import Key, Object, controller_of, picked, spec
from tollbar.scheduler.cache.groups import Group
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.selector import PodSelector, Selector
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.cache.table import Bools, Table
from tollbar.scheduler.framework.handle import Listers
from tollbar.scheduler.plugins import node_masks

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HOSTNAME: Final = "kubernetes.io/hostname"
SYSTEM_DEFAULTS: Final[tuple[Object, ...]] = (
    {"topologyKey": HOSTNAME, "whenUnsatisfiable": SOFT, "maxSkew": 3},
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": SOFT, "maxSkew": 5},
)
_NOTHING: Final = Selector(None)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A topologySpreadConstraint with the API's defaults filled in and matchLabelKeys merged into the selector."""

    topology_key: str
    max_skew: int
    min_domains: int
    honors_affinity: bool
    """Nodes that the Pod's nodeSelector and required node affinity do not allow are left out (the default)."""
    honors_taints: bool
    """Nodes with taints that the Pod does not tolerate are left out."""
    selector: Selector

    def includes(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Whether the inclusion policies let the Node count, for this Pod that is to be scheduled."""
        if self.honors_affinity and not nodeaffinity.allows({"spec": pod.spec}, node.node or {}):
            return False
        tolerated = pod.spec.get("tolerations") or ()
        return not self.honors_taints or tolerations.untolerated(node.taints, tolerated) is None

    def group(self, pod: PodInfo, nodes: Snapshot) -> Group:
        """The Pods of the Pod's namespace that the selector selects, without terminating ones.

        An empty selector counts none, although it selects every Pod: so does kube-scheduler.
        """
        selector = _NOTHING if self.selector.is_empty else self.selector
        return nodes.groups.group(PodSelector(frozenset({pod.key.namespace}), selector), terminating=False)


class Eligible:
    """The Nodes that count for a constraint, by row: those of `placed` that its inclusion policies let count.

    The masks hold for one cycle; constraints with the same policies share them.
    """

    def __init__(self, pod: PodInfo, table: Table, placed: Bools) -> None:
        self._pod = pod
        self._table = table
        self._placed = placed
        self._masks: dict[tuple[bool, bool], Bools] = {}

    def of(self, constraint: Constraint) -> Bools:
        policies = (constraint.honors_affinity, constraint.honors_taints)
        mask = self._masks.get(policies)
        if mask is None:
            mask = self._placed
            if constraint.honors_affinity:
                mask = mask & node_masks.allowed(self._pod, self._table)
            if constraint.honors_taints:
                mask = mask & node_masks.tolerated(self._pod, self._table)
            self._masks[policies] = mask
        return mask


def has_keys(labels: Mapping[str, str], constraints: Iterable[Constraint]) -> bool:
    """Whether a Node with these labels is in a domain of every constraint."""
    return all(each.topology_key in labels for each in constraints)


def with_keys(table: Table, constraints: Iterable[Constraint]) -> Bools:
    """The same for all Nodes, by row.

    It ends with the first label that no Node has: a Pod may name any number of them, and each costs a look at every
    Node.
    """
    mask: Bools = np.ones(table.capacity, np.bool_)
    for each in constraints:
        mask &= table.label(each.topology_key).ids >= 0
        if not mask.any():
            break
    return mask


def of_pod(pod: PodInfo, action: str) -> tuple[Constraint, ...]:
    """The Pod's own constraints with this whenUnsatisfiable."""
    key = ("topologySpreadConstraints", action)
    found: tuple[Constraint, ...] | None = pod.shape.memo.get(key)
    if found is None:
        found = pod.shape.memo[key] = tuple(
            _compiled(each, Selector.of(_merged(each, pod.labels)))
            for each in pod.spec.get("topologySpreadConstraints") or ()
            if each["whenUnsatisfiable"] == action
        )
    return found


def of_defaults(defaults: Sequence[Object], pod: PodInfo, listers: Listers) -> tuple[Constraint, ...]:
    """These constraints; none for a Pod that no workload or Service selects."""
    wanted = default_selector(pod, listers) if defaults else {}
    if not any(wanted.values()):
        return ()
    selector = Selector.of(wanted)
    return tuple(_compiled(each, selector) for each in defaults)


def default_selector(pod: PodInfo, listers: Listers) -> Object:
    """What the Services that select the Pod and the workload that controls it select, all of it together.

    It has no requirements if there is neither.
    """
    namespace = pod.key.namespace
    labels: dict[str, str] = {}
    for label in pod.labels.items():
        for service in listers.services.by_index("selector", (namespace, *label)):
            wanted = spec(service)["selector"]
            if wanted.items() <= pod.labels.items():
                labels |= wanted
    owner = controller_of(pod.object) or {}
    key = Key(namespace, owner.get("name") or "")
    requirements: list[Object] = []
    match owner.get("apiVersion"), owner.get("kind"):
        case "v1", "ReplicationController":
            labels |= spec(listers.replication_controllers.get(key) or {}).get("selector") or {}
        case "apps/v1", "ReplicaSet":
            requirements = _requirements(spec(listers.replica_sets.get(key) or {}).get("selector") or {})
        case "apps/v1", "StatefulSet":
            requirements = _requirements(spec(listers.stateful_sets.get(key) or {}).get("selector") or {})
    return {"matchLabels": labels, "matchExpressions": requirements}


def _compiled(constraint: Object, selector: Selector) -> Constraint:
    return Constraint(
        topology_key=constraint["topologyKey"],
        max_skew=constraint["maxSkew"],
        min_domains=constraint.get("minDomains", 1),
        honors_affinity=constraint.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=constraint.get("nodeTaintsPolicy", "Ignore") == "Honor",
        selector=selector,
    )


def _merged(constraint: Object, labels: Mapping[str, str]) -> Object | None:
    """The labelSelector, and the Pod's own values of those of its labels that matchLabelKeys names."""
    selector: Object | None = constraint.get("labelSelector")
    own = picked(labels, constraint.get("matchLabelKeys") or ())
    if selector is None or not own:
        return selector
    expressions = selector.get("matchExpressions") or ()
    return {**selector, "matchExpressions": [*expressions, *_requirements({"matchLabels": own})]}


def _requirements(selector: Object) -> list[Object]:
    """The selector as matchExpressions alone."""
    by_label = (selector.get("matchLabels") or {}).items()
    return [
        *({"key": key, "operator": "In", "values": [value]} for key, value in by_label),
        *(selector.get("matchExpressions") or ()),
    ]
