"""All Nodes, and all Pods that have one or have been given one by the scheduler, event by event.

Source: pkg/scheduler/backend/cache/cache.go and node_tree.go.  Assumed Pods do not expire.
"""

from collections import OrderedDict
from collections.abc import Mapping
from itertools import chain, zip_longest

from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo, name_of, zone_of
from tollbar.scheduler.cache.podinfo import PodInfo


class CacheError(Exception):
    """An operation that does not go with what the cache knows; nothing was changed."""


class Cache:
    """A Pod is assumed, once the scheduler has chosen its Node, and then added, when the API says that it is bound.

    Pods are known by uid.  A Pod counts on its Node whether or not that Node is known: Pods and Nodes arrive in any
    order.  A NodeInfo that a snapshot has taken is not changed any more but replaced by a copy; a Pod in it is replaced
    as long as it counts the same, so that the API's confirmation of a binding is no change of the Node.
    """

    def __init__(self) -> None:
        self._nodes: OrderedDict[str, NodeInfo] = OrderedDict()
        """By name, the one that changed last at the end; with those that only Pods name."""
        self._pods: dict[str, PodInfo] = {}
        self._assumed: set[str] = set()
        self._tree = NodeTree()
        self._taken = 0
        """The last generation of a NodeInfo that a snapshot may have."""

    def assume(self, pod: PodInfo) -> None:
        """Count a Pod on the Node that was chosen for it, `node_name`, before it is bound."""
        if pod.uid in self._pods:
            raise CacheError(f"pod {pod.uid}({pod.key}) is in the cache, so can't be assumed")
        self._add(pod)
        self._assumed.add(pod.uid)

    def forget(self, pod: PodInfo) -> None:
        """Take back an assumed Pod; nothing to do for one that is not known any more."""
        known = self._pods.get(pod.uid)
        if known is None:
            return
        if known.node_name != pod.node_name:
            raise CacheError(
                f"pod {pod.uid}({pod.key}) was assumed on {pod.node_name} but assigned to {known.node_name}"
            )
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not assumed, so it cannot be removed or forgotten")
        self._remove(known)

    def add_pod(self, pod: PodInfo) -> str | None:
        """The API says that this Pod is bound.

        The answer is for the log: the Node that the Pod was assumed on, if that was another one.
        """
        known = self._pods.get(pod.uid)
        if known is None:
            self._add(pod)
            return None
        if pod.uid not in self._assumed:
            raise CacheError(f"pod {pod.uid}({pod.key}) was already in added state")
        self._replace(known, pod)
        return known.node_name if known.node_name != pod.node_name else None

    def update_pod(self, pod: PodInfo) -> None:
        """A Pod that has been added has changed."""
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not added to scheduler cache, so cannot be updated")
        if pod.uid in self._assumed:
            raise CacheError(f"assumed pod {pod.uid}({pod.key}) should not be updated")
        if known.node_name != pod.node_name:
            raise CacheError(f"pod {pod.uid}({pod.key}) updated on a different node than previously added to")
        self._replace(known, pod)

    def remove_pod(self, pod: PodInfo) -> None:
        """The Pod is gone.  Its last known state may lack a Node."""
        known = self._pods.get(pod.uid)
        if known is None:
            raise CacheError(f"pod {pod.uid}({pod.key}) is not found in scheduler cache, so cannot be removed from it")
        if pod.node_name not in ("", known.node_name):
            raise CacheError(f"pod {pod.uid}({pod.key}) was added to a different node than it was assumed")
        self._remove(known)

    def pod(self, uid: str) -> PodInfo | None:
        """The Pod as it counts, assumed or added."""
        return self._pods.get(uid)

    def is_assumed(self, uid: str) -> bool:
        return uid in self._assumed

    def set_node(self, node: Object) -> None:
        """Add or update a Node."""
        self._tree.put(name_of(node), zone_of(node))
        self._writable(name_of(node)).set_node(node)

    def remove_node(self, name: str) -> None:
        """The Node is gone.  Pods that are on it still count when it comes back before they have gone."""
        if name not in self._tree:
            raise CacheError(f"node {name} is not found")
        self._tree.remove(name)
        self._writable(name).remove_node()
        self._drop_if_empty(name)

    def node(self, name: str) -> NodeInfo | None:
        """The Node as it is, not as the last snapshot has it; also one that only Pods name."""
        return self._nodes.get(name)

    def sizes(self) -> Mapping[str, int]:
        """The values of the metric scheduler_cache_size, by its label `type`."""
        return {"assumed_pods": len(self._assumed), "pods": len(self._pods), "nodes": len(self._nodes)}

    @property
    def order_version(self) -> int:
        """Another number whenever `node_names` may have changed."""
        return self._tree.version

    def node_names(self) -> list[str]:
        """The Nodes that exist, in the order in which they are tried."""
        return self._tree.names()

    def take_changes(self, generation: int) -> list[NodeInfo]:
        """The Nodes that have changed since this generation, for a snapshot to keep; the first one changed first."""
        found = []
        for info in reversed(self._nodes.values()):
            if info.generation <= generation:
                break
            found.append(info)
        if found:
            self._taken = max(self._taken, found[0].generation)
        return found[::-1]

    def _add(self, pod: PodInfo) -> None:
        if not pod.uid:
            raise CacheError("cannot get cache key for pod with empty UID")
        self._writable(pod.node_name).add_pod(pod)
        self._pods[pod.uid] = pod

    def _remove(self, pod: PodInfo) -> None:
        self._writable(pod.node_name).remove_pod(pod.uid)
        self._drop_if_empty(pod.node_name)
        del self._pods[pod.uid]
        self._assumed.discard(pod.uid)

    def _replace(self, known: PodInfo, pod: PodInfo) -> None:
        """Have the Pod as the API says it is in the place of what was known of it; it is not assumed any more."""
        if pod.counts_as(known):
            self._nodes[pod.node_name].pods[pod.uid] = self._pods[pod.uid] = pod
            self._assumed.discard(pod.uid)
        else:
            self._remove(known)
            self._add(pod)

    def _writable(self, name: str) -> NodeInfo:
        """The NodeInfo to change."""
        info = self._nodes.pop(name, None)
        if info is None:
            info = NodeInfo(name)
        elif info.generation <= self._taken:
            info = info.copy()
        self._nodes[name] = info
        return info

    def _drop_if_empty(self, name: str) -> None:
        info = self._nodes[name]
        if info.node is None and not info.pods:
            del self._nodes[name]


class NodeTree:
    """The names of Nodes by zone, in the order in which they came; a zone without Nodes is forgotten."""

    def __init__(self) -> None:
        self.version = 0
        self._zones: dict[str, dict[str, None]] = {}
        self._zone_of: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._zone_of

    def put(self, name: str, zone: str) -> None:
        """Add a Node, or move it to the end of another zone."""
        if self._zone_of.get(name) != zone:
            if name in self._zone_of:
                self.remove(name)
            self._zones.setdefault(zone, {})[name] = None
            self._zone_of[name] = zone
            self.version += 1

    def remove(self, name: str) -> None:
        zone = self._zone_of.pop(name)
        del self._zones[zone][name]
        if not self._zones[zone]:
            del self._zones[zone]
        self.version += 1

    def names(self) -> list[str]:
        """The first of every zone, then the second of every zone that has one, and so on."""
        return [name for name in chain.from_iterable(zip_longest(*self._zones.values())) if name is not None]
