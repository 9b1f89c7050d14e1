"""What a scheduling cycle sees: the Nodes as they were when it began."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tollbar.model.changelog import ChangeLog
from tollbar.model.objects import Key, Object
from tollbar.scheduler.cache.cache import Cache
from tollbar.scheduler.cache.groups import Groups
from tollbar.scheduler.cache.nodeinfo import NodeInfo, name_of
from tollbar.scheduler.cache.podinfo import PodInfo
from tollbar.scheduler.cache.table import Bools, Table


@dataclass(slots=True)
class ImageState:
    """An image by one of its names: its size in bytes, as first reported, and how many Nodes have it.

    `rows` are the rows of these Nodes in the table, as the bits of a number.
    """

    size: int
    nodes: int = 0
    rows: int = 0


class NodesAt(Sequence[NodeInfo]):
    """The Nodes at these places of a snapshot, looked up when they are read: most plugins read none of them.

    After an update of the snapshot they are as it has them then.
    """

    def __init__(self, snapshot: "Snapshot", places: NDArray[np.intp]) -> None:
        self.places = places
        self._snapshot = snapshot

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return NodesAt(self._snapshot, self.places[index])
        return self._snapshot.nodes[self.places[index]]

    def __iter__(self) -> Iterator[NodeInfo]:
        return map(self._snapshot.nodes.__getitem__, self.places.tolist())


class Snapshot:
    """`nodes` has the Nodes in the order in which they are tried.

    It changes in `update` and `catch_up` alone, and only as far as the Nodes have changed; without a change that takes
    no time.  Where many have changed, `catch_up` does most of the work in steps.

    `table` and `groups` have the same Nodes and Pods as columns and as counts, `images` has the images by name, and
    `claims` how many volumes of their Pods name a PersistentVolumeClaim.  `changed` tells which Nodes have changed, by
    their place, `changed_nodes` of which the API object has.
    """

    def __init__(self) -> None:
        self.nodes: list[NodeInfo] = []
        self.table = Table()
        self.groups = Groups()
        self.images: dict[str, ImageState] = {}
        self.claims: dict[Key, int] = {}
        self.changed: ChangeLog[int] = ChangeLog()
        self.changed_nodes: ChangeLog[int] = ChangeLog()
        self._by_name: dict[str, NodeInfo] = {}
        self._places: dict[str, int] = {}
        """Where a Node is in `nodes`."""
        self._generation = 0
        self._order_version = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self.nodes)

    def get(self, name: str) -> NodeInfo | None:
        return self._by_name.get(name)

    def place(self, name: str) -> int | None:
        """Where the Node of this name is in `nodes`."""
        return self._places.get(name)

    def has_image(self, name: str) -> Bools:
        """Which Nodes list an image by this name, by the rows of the table."""
        state, length = self.images.get(name), self.table.capacity
        rows = state.rows if state is not None else 0
        bits = np.frombuffer(rows.to_bytes(-(-length // 8), "little"), np.uint8)
        return np.unpackbits(bits, count=length, bitorder="little").astype(np.bool_)

    def update(self, cache: Cache) -> None:
        """Take over what has changed since the last time; always of the same cache."""
        for _ in self.catch_up(cache):
            pass
        if cache.order_version != self._order_version:
            self._order_version = cache.order_version
            self._arrange(cache.node_names())

    def catch_up(self, cache: Cache) -> Iterator[None]:
        """Take over one Node that has changed after the other, with a pause after each, in which the cache may change.

        An `update` has to follow before anybody reads the snapshot.
        """
        for info in cache.take_changes(self._generation):
            self._generation = info.generation
            if info.node is not None:
                self._take(info)
            yield

    @classmethod
    def of(cls, nodes: Iterable[Object], pods: Iterable[PodInfo] = ()) -> "Snapshot":
        """A snapshot of these Nodes in this order, with the Pods that have one of them; for tests and simulations."""
        infos: dict[str, NodeInfo] = {}
        for node in nodes:
            info = infos[name_of(node)] = NodeInfo(name_of(node))
            info.set_node(node)
        for pod in pods:
            if pod.node_name in infos:
                infos[pod.node_name].add_pod(pod)
        found = cls()
        for info in infos.values():
            found._take(info)
        found._arrange(list(infos))
        return found

    def _take(self, info: NodeInfo) -> None:
        before = self._by_name.get(info.name)
        self._by_name[info.name] = info
        row = self.table.put(info)
        if self.table.capacity != self.groups.capacity:
            self.groups.grow(self.table.capacity)
        self._replace(row, before, info)
        if (place := self._places.get(info.name)) is not None:
            self.nodes[place] = info
            self.changed.note(place)
            if before is None or before.node is not info.node:
                self.changed_nodes.note(place)

    def _arrange(self, names: list[str]) -> None:
        if len(names) < len(self._by_name):
            for name in self._by_name.keys() - set(names):
                self._replace(self.table.remove(name), self._by_name.pop(name), None)
        self.changed.note_all()
        self.changed_nodes.note_all()
        self.nodes = [self._by_name[name] for name in names]
        self._places = dict(zip(names, range(len(names)), strict=True))
        self.table.arrange(names)

    def _replace(self, row: int, before: NodeInfo | None, after: NodeInfo | None) -> None:
        """Keep everything that is counted over all Nodes."""
        old, new = before or _NOWHERE, after or _NOWHERE
        follows = new.copy_of and new.copy_of == old.generation
        added, removed = (new.added, new.removed) if follows else (new.pods.values(), old.pods.values())
        for pod in added:  # before others go: one may have come and gone
            self._count_pod(row, pod, 1)
        for pod in removed:
            self._count_pod(row, pod, -1)
        if old.node is not new.node:
            self._count_images(row, old, new)

    def _count_pod(self, row: int, pod: PodInfo, sign: int) -> None:
        self.groups.count(row, pod, sign)
        for key in pod.shape.claims:
            if uses := self.claims.get(key, 0) + sign:
                self.claims[key] = uses
            else:
                del self.claims[key]

    def _count_images(self, row: int, old: NodeInfo, new: NodeInfo) -> None:
        before, after = old.images, new.images
        for name, size in after.items():
            if name not in before:
                state = self.images.setdefault(name, ImageState(size))
                state.nodes += 1
                state.rows |= 1 << row
        for name in before:
            if name not in after:
                state = self.images[name]
                state.nodes -= 1
                state.rows ^= 1 << row
                if not state.nodes:
                    del self.images[name]


_NOWHERE = NodeInfo("")
