"""The Nodes of a snapshot as numpy columns, for plugins that look at all Nodes at once.

Every Node has a row, which it keeps as long as it exists.  All columns are indexed by row; in rows that no Node has,
labels are absent and amounts mean nothing.  `order` has the rows of the Nodes in the order of the snapshot, so that a
filter reads

    def filter_nodes(self, state, pod, nodes):
        table = nodes.table
        fits = pod.requests.resources.milli_cpu <= table.allocatable("cpu") - table.requested("cpu")
        return fits[table.order]

Columns of labels and of extended resources exist for those names alone that were asked for lately.  A column stays as
it is until the snapshot is updated; do not keep one for longer than a scheduling cycle.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from tollbar.model.objects import Object
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.resources import Resources

K = TypeVar("K", bound=Hashable)

Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
"""Where nothing else is said, by row of a table."""

MAX_COLUMNS: Final = 128
"""How many columns of labels and extended resources are kept."""
FIRST_ROWS: Final = 16
"""With how many rows a table begins; it doubles when it is full."""
LIMIT: Final = 1 << 62
"""The greatest amount in a column.  Amounts that are so large mean nothing; compare differences, not sums, with one."""
_NO_ID: Final = -2
_REQUESTED: Final = "requested"
"""The kind of the columns that Pods change, and not the Node alone."""
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage", "pods")


@dataclass(frozen=True, slots=True)
class TaintSet:
    """All taints of a Node, in its order; equal if they have the same (key, value, effect)."""

    identity: tuple[tuple[str, str, str], ...]
    taints: tuple[Object, ...] = field(compare=False)

    @classmethod
    def of(cls, taints: tuple[Object, ...]) -> "TaintSet":
        return cls(tuple((each["key"], each.get("value") or "", each["effect"]) for each in taints), taints)


class Ids(Generic[K]):
    """Small numbers for the values that rows have; a number whose value no row has any more is used again.

    `values` has the value of each number, None for a number that is free.
    """

    def __init__(self) -> None:
        self.values: list[K | None] = []
        self._ids: dict[K, int] = {}
        self._uses: list[int] = []
        self._free: list[int] = []

    def find(self, value: K) -> int | None:
        return self._ids.get(value)

    def take(self, value: K) -> int:
        """The number of this value, for one more row."""
        found = self._ids.get(value)
        if found is None:
            found = self._free.pop() if self._free else len(self.values)
            if found == len(self.values):
                self.values.append(None)
                self._uses.append(0)
            self._ids[value], self.values[found] = found, value
        self._uses[found] += 1
        return found

    def give_back(self, number: int) -> None:
        """One row less has this value."""
        self._uses[number] -= 1
        if not self._uses[number]:
            value = self.values[number]
            if value is not None:
                del self._ids[value]
            self.values[number] = None
            self._free.append(number)


class IdColumn(Generic[K]):
    """Which of several values each Node has: `ids` is their number by row, -1 for a Node that has none.

    Numbers are below `size`; what `values` says of a number holds until the snapshot is updated.  `version` is another
    one whenever a Node has got another number.
    """

    def __init__(self, capacity: int) -> None:
        self.ids: NDArray[np.intp] = np.full(capacity, -1, np.intp)
        self.version = 0
        self._values: Ids[K] = Ids()
        self._ordered: tuple[int, NDArray[np.intp], NDArray[np.intp]] | None = None

    @property
    def size(self) -> int:
        return len(self._values.values)

    @property
    def values(self) -> Sequence[K | None]:
        """By number; None for a number that no Node has."""
        return self._values.values

    def ordered(self, order: NDArray[np.intp]) -> NDArray[np.intp]:
        """The numbers in the order of these rows, which is `Table.order`; kept until it or a number is another one."""
        kept = self._ordered
        if kept is None or kept[0] != self.version or kept[1] is not order:
            kept = self._ordered = self.version, order, self.ids[order]
        return kept[2]

    def find(self, value: K) -> int | None:
        """The number of this value; None if no Node has it."""
        return self._values.find(value)

    def has(self, value: K) -> Bools:
        """The rows that have this value."""
        number = self.find(value)
        found: Bools = self.ids == (_NO_ID if number is None else number)
        return found

    def has_any(self, values: Iterable[K]) -> Bools:
        """The rows that have one of these values."""
        chosen = np.zeros(self.size + 1, np.bool_)
        for value in values:
            number = self.find(value)
            if number is not None:
                chosen[number] = True
        return chosen[self.ids]

    def where(self, holds: Callable[[K], bool], *, absent: bool = False) -> Bools:
        """The rows for whose value it holds, asked once for each value; `absent` is the answer for those without."""
        verdicts = [value is not None and holds(value) for value in self.values]
        return np.array([*verdicts, absent], np.bool_)[self.ids]

    def put(self, row: int, value: K | None) -> None:
        before = int(self.ids[row])
        if value == (self._values.values[before] if before >= 0 else None):
            return
        if before >= 0:
            self._values.give_back(before)
        self.ids[row] = -1 if value is None else self._values.take(value)
        self.version += 1

    def grow(self, capacity: int) -> None:
        self.ids = _grown(self.ids, capacity, -1)


class _Asked(Protocol):
    """A column that is kept because it was asked for."""

    def take(self, row: int, info: NodeInfo | None) -> None: ...

    def grow(self, capacity: int) -> None: ...


class _Label(IdColumn[str]):
    def __init__(self, capacity: int, key: str) -> None:
        super().__init__(capacity)
        self._key = key

    def take(self, row: int, info: NodeInfo | None) -> None:
        self.put(row, info.labels.get(self._key) if info is not None else None)


class _Scalar:
    def __init__(self, capacity: int, amount: Callable[[NodeInfo], int]) -> None:
        self.amounts: Ints = np.zeros(capacity, np.int64)
        self._amount = amount

    def take(self, row: int, info: NodeInfo | None) -> None:
        self.amounts[row] = _bounded(self._amount(info)) if info is not None else 0

    def grow(self, capacity: int) -> None:
        self.amounts = _grown(self.amounts, capacity, 0)


class Table:
    """`order` has the rows of the Nodes in the order of the snapshot; `rows` has them by name.

    `unschedulable` is spec.unschedulable.  `taints` has the taints of each Node as a whole, as a number for each
    different set of them; a Node without taints has the empty set, never -1:

        fits = table.taints.where(lambda each: untolerated(each.taints, tolerations) is None)
    """

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        self.order: NDArray[np.intp] = np.zeros(0, np.intp)
        self.infos: list[NodeInfo | None] = []
        """By row."""
        self.unschedulable: Bools = np.zeros(0, np.bool_)
        self.taints: IdColumn[TaintSet] = IdColumn(0)
        self._free: list[int] = []
        self._allocatable: Ints = np.zeros((4, 0), np.int64)
        self._requested: Ints = np.zeros((4, 0), np.int64)
        self._non_zero: Ints = np.zeros((2, 0), np.int64)
        self._asked: OrderedDict[tuple[str, str], _Asked] = OrderedDict()

    @property
    def capacity(self) -> int:
        """The length of every column."""
        return len(self.infos)

    def allocatable(self, resource: str) -> Ints:
        """What each Node has of a resource, by its name in the API; cpu in millicores, memory and storage in bytes.

        That of `pods` is the number of Pods that it may run.
        """
        if resource in _NATIVE:
            return _part(self._allocatable, _NATIVE.index(resource))
        return self._scalar("allocatable", resource, lambda info: info.allocatable.scalars.get(resource, 0))

    def requested(self, resource: str) -> Ints:
        """What the Pods of each Node request of a resource, in the same units; that of `pods` is their number."""
        if resource in _NATIVE:
            return _part(self._requested, _NATIVE.index(resource))
        return self._scalar(_REQUESTED, resource, lambda info: info.requested.scalars.get(resource, 0))

    def non_zero_requested(self, resource: str) -> Ints:
        """The same of `cpu` and `memory`, where a container that requests none counts with the defaults."""
        return _part(self._non_zero, _NATIVE.index(resource))

    def label(self, key: str) -> IdColumn[str]:
        """The value that each Node has of this label, as a number: also the number of its topology domain."""
        found = self._column(("label", key), lambda: _Label(self.capacity, key))
        assert isinstance(found, _Label)  # noqa: S101  # the key of the column says so
        return found

    def put(self, info: NodeInfo) -> int:
        """Take over the state of a Node, and return its row."""
        row = self.rows.get(info.name)
        if row is None:
            row = self.rows[info.name] = self._free_row()
        before, self.infos[row] = self.infos[row], info
        has_changed = before is None or before.node is not info.node
        if has_changed:
            self._allocatable[:, row] = _native(info.allocatable, info.allocatable.pods)
            self.unschedulable[row] = info.is_unschedulable
            self.taints.put(row, TaintSet.of(info.taints))
        self._requested[:, row] = _native(info.requested, len(info.pods))
        self._non_zero[:, row] = (_bounded(info.non_zero_milli_cpu), _bounded(info.non_zero_memory))
        for (kind, _), column in self._asked.items():
            if has_changed or kind == _REQUESTED:
                column.take(row, info)
        return row

    def remove(self, name: str) -> int:
        """Free the row of a Node that is gone, and return it."""
        row = self.rows.pop(name)
        self.infos[row] = None
        self.taints.put(row, None)
        self._free.append(row)
        for column in self._asked.values():
            column.take(row, None)
        return row

    def arrange(self, names: Sequence[str]) -> None:
        """Put the Nodes in this order."""
        self.order = np.fromiter(map(self.rows.__getitem__, names), np.intp, len(names))

    def _free_row(self) -> int:
        if not self._free:
            before = self.capacity
            capacity = max(FIRST_ROWS, before * 2)
            self.infos.extend([None] * (capacity - before))
            self._free.extend(range(capacity - 1, before - 1, -1))
            self._grow(capacity)
        return self._free.pop()

    def _grow(self, capacity: int) -> None:
        self.unschedulable = _grown(self.unschedulable, capacity, False)
        self.taints.grow(capacity)
        self._allocatable = _grown(self._allocatable, capacity, 0)
        self._requested = _grown(self._requested, capacity, 0)
        self._non_zero = _grown(self._non_zero, capacity, 0)
        for column in self._asked.values():
            column.grow(capacity)

    def _scalar(self, kind: str, resource: str, amount: Callable[[NodeInfo], int]) -> Ints:
        found = self._column((kind, resource), lambda: _Scalar(self.capacity, amount))
        assert isinstance(found, _Scalar)  # noqa: S101  # the key of the column says so
        return found.amounts

    def _column(self, key: tuple[str, str], make: Callable[[], _Asked]) -> _Asked:
        column = self._asked.get(key)
        if column is not None:
            self._asked.move_to_end(key)
            return column
        column = self._asked[key] = make()
        for row in self.rows.values():
            column.take(row, self.infos[row])
        if len(self._asked) > MAX_COLUMNS:
            self._asked.popitem(last=False)
        return column


def _native(amounts: Resources, pods: int) -> tuple[int, int, int, int]:
    return _bounded(amounts.milli_cpu), _bounded(amounts.memory), _bounded(amounts.ephemeral_storage), pods


def _bounded(amount: int) -> int:
    """The amount, or a bound for one that would let the difference of two columns overflow."""
    return max(-LIMIT, min(LIMIT, amount))


def _part(columns: Ints, place: int) -> Ints:
    part: Ints = columns[place]
    return part


A = TypeVar("A", bound=np.generic)


def _grown(column: NDArray[A], capacity: int, fill: int) -> NDArray[A]:
    """The column with more rows; the last axis is that of rows."""
    grown = np.full((*column.shape[:-1], capacity), fill, column.dtype)
    grown[..., : column.shape[-1]] = column
    return grown
