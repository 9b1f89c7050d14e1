"""size(), Kubernetes' lists library, cel-go's lists extension (version 3), and sets.

A list of `dyn` may hold many kinds: min, max and isSorted then treat comparable elements of different kinds as neither
smaller nor larger than each other, as Kubernetes does.
"""

from functools import partial
from itertools import chain, pairwise
from typing import Any, Final

from tollbar.cel.core.limits import CALL_STEPS, OBJECT_STEPS, CostTracker, Fault
from tollbar.cel.core.values import (
    NUMERIC,
    ORDERED,
    Duration,
    Uint,
    among,
    compare,
    contains,
    kind,
    no_overload,
    position,
    same,
)
from tollbar.cel.library import basics, times
from tollbar.cel.library.functions import library, overload

_ADD: Final = library((*basics.OVERLOADS, *times.OVERLOADS)).exact["_+_", False]
_ZEROS: Final[dict[str, Any]] = {"int": 0, "uint": Uint(0), "double": 0.0, "duration": Duration(0)}
_COMPARABLE: Final = tuple(sorted(NUMERIC | ORDERED))
_SUM_STEPS: Final = 22
"""For an element that sum() adds."""
_UINT_STEPS: Final = 10
"""More for an unsigned integer, which Python has no kind for."""
_EXTREME_STEPS: Final = 75
"""For an element that min(), max() or isSorted() compares."""
_KEY_STEPS: Final = 14
"""For a key that sort() looks at."""
_FLATTEN_STEPS: Final = 17
_HASH_STEPS: Final = 7
"""For an element that is put into a Python set, or looked up there."""
_HASHED: Final = frozenset({str, bytes, bool, int})
"""Types whose values are equal to each other exactly when they are equal in Python."""


def size(_: CostTracker, value: Any) -> int:
    return len(value)


def index_of(cost: CostTracker, items: list[Any], wanted: Any) -> int:
    found = position(wanted, items, range(len(items)), cost)
    return -1 if found is None else found


def last_index_of(cost: CostTracker, items: list[Any], wanted: Any) -> int:
    found = position(wanted, items, range(len(items) - 1, -1, -1), cost)
    return -1 if found is None else found


def includes(cost: CostTracker, value: Any, wanted: Any) -> bool:
    """Whether a list has the element; any other value includes itself, so that an attribute may be either."""
    return contains(wanted, value, cost) if type(value) is list else same(value, wanted, cost)


def total(cost: CostTracker, items: list[Any], zero: Any = _ZEROS["int"]) -> Any:
    """The sum; `zero` for an empty list, which is the int if the type of its elements is not known."""
    if not items:
        return zero
    first = kind(items[0])
    more = _UINT_STEPS if first == "uint" else 0 if first in NUMERIC else OBJECT_STEPS
    cost.charge(len(items) * (_SUM_STEPS + more))
    if first not in _ZEROS:
        raise no_overload("sum", items)
    found = _ZEROS[first]
    for item in items:
        if kind(item) != first:
            raise no_overload("+", found, item)
        found = _ADD[type(found), type(item)](cost, found, item)
    return found


def _extreme(name: str, worse: int, cost: CostTracker, items: list[Any]) -> Any:
    """min() or max(); `worse` is what compare() says of an element and a better one."""
    if not items:
        raise Fault(f"{name} called on empty list")
    best = items[0]
    for item in items:
        if _compared(best, item, cost, name) == worse:
            best = item
    return best


def is_sorted(cost: CostTracker, items: list[Any]) -> bool:
    return all(_compared(a, b, cost, "isSorted") != 1 for a, b in pairwise(chain(items[:1], items)))


def _compared(a: Any, b: Any, cost: CostTracker, name: str) -> int | None:
    """As compare(); None if the two cannot be ordered; Fault if the second is of a kind without order."""
    cost.charge(_EXTREME_STEPS)
    kind_a, kind_b = kind(a), kind(b)
    if kind_b not in _COMPARABLE:
        raise no_overload(name, b)
    numbers = kind_a in NUMERIC and kind_b in NUMERIC
    return compare(a, b, cost) if (a == a and b == b if numbers else kind_a == kind_b) else None


def sort(cost: CostTracker, items: list[Any]) -> list[Any]:
    return sort_by(cost, items, items)


def sort_by(cost: CostTracker, items: list[Any], keys: list[Any]) -> list[Any]:
    """The items in the order of their keys, for the macro sortBy().  Stable."""
    cost.new_list(len(items))
    if not items:
        return []
    kinds = {kind(key) for key in keys}
    if kind(keys[0]) not in _COMPARABLE:
        raise Fault("list elements must be comparable")
    if len(kinds) > 1:
        raise Fault("list elements must have the same type")
    if len(keys) > 1 and any(key != key for key in keys):
        raise Fault("NaN values cannot be ordered")
    rounds = len(keys).bit_length()
    cost.charge(len(keys) * (_KEY_STEPS + rounds // 2))
    if kinds <= {"string", "bytes"}:
        cost.read(rounds * sum(map(len, keys)))
    elif kinds <= {"timestamp", "duration"}:
        keys = [key.nanos for key in keys]
    return [items[index] for index in sorted(range(len(keys)), key=keys.__getitem__)]


def cut(cost: CostTracker, items: list[Any], start: int, end: int) -> list[Any]:
    """slice()"""
    if start < 0 or end < 0:
        raise Fault("cannot slice: negative indexes not supported")
    if start > end:
        raise Fault("cannot slice: start index must be less than or equal to end index")
    if end > len(items):
        raise Fault("cannot slice: end index is beyond the list")
    cost.new_list(end - start)
    return items[start:end]


def flatten(cost: CostTracker, items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise Fault("level must be non-negative")
    found: list[Any] = []
    open_ = [(iter(items), depth)]
    while open_:
        rest, below = open_[-1]
        for item in rest:
            cost.charge(_FLATTEN_STEPS)
            if type(item) is list and below:
                open_.append((iter(item), below - 1))
                break
            cost.new_list(1)
            found.append(item)
        else:
            open_.pop()
    return found


def distinct(cost: CostTracker, items: list[Any]) -> list[Any]:
    """The first of each set of equal elements."""
    cost.new_list(len(items))
    if _hashable(cost, items):
        return list(dict.fromkeys(items))
    found: list[Any] = []
    for item in items:
        cost.charge(CALL_STEPS)
        if not among(item, found, cost):
            found.append(item)
    return found


def _hashable(cost: CostTracker, items: list[Any]) -> bool:
    """Whether the elements may be put into a Python set; their hashing is charged."""
    cost.charge(CALL_STEPS + len(items) * _HASH_STEPS)
    types = set(map(type, items))
    if len(types) > 1 or not types <= _HASHED:
        return False
    if types <= {str, bytes}:
        cost.read(sum(map(len, items)))
    return True


def reverse(cost: CostTracker, items: list[Any]) -> list[Any]:
    cost.new_list(len(items))
    return items[::-1]


def numbers_to(cost: CostTracker, count: int) -> list[Any]:
    """lists.range()"""
    if count < 0:
        raise Fault("lists.range: size must be non-negative")
    cost.new_list(count)
    cost.charge(count * 2)
    return list(range(count))


def set_contains(cost: CostTracker, items: list[Any], wanted: list[Any]) -> bool:
    if _hashable(cost, items):
        known, type_ = set(items), type(items[0]) if items else None
        if all(type(item) is type_ for item in wanted):
            return _hashable(cost, wanted) and known.issuperset(wanted)
    return all(contains(item, items, cost) for item in wanted)


def set_equivalent(cost: CostTracker, a: list[Any], b: list[Any]) -> bool:
    return set_contains(cost, a, b) and set_contains(cost, b, a)


def set_intersects(cost: CostTracker, a: list[Any], b: list[Any]) -> bool:
    if a and b and type(a[0]) is type(b[0]) and _hashable(cost, a) and _hashable(cost, b):
        return not set(a).isdisjoint(b)
    return any(contains(item, b, cost) for item in a)


OVERLOADS: Final = (
    *(overload(f"size({kind}) -> int", size) for kind in ("string", "bytes", "list<A>", "map<A>")),
    *(overload(f"{kind}.size() -> int", size) for kind in ("string", "bytes", "list<A>", "map<A>")),
    overload("list<A>.indexOf(A) -> int", index_of, 50),
    overload("list<A>.lastIndexOf(A) -> int", last_index_of, 50),
    overload("any.includes(any) -> bool", includes, 30),
    *(overload(f"list<{kind}>.sum() -> {kind}", partial(total, zero=zero), 60) for kind, zero in _ZEROS.items()),
    *(overload(f"list<{kind}>.min() -> {kind}", partial(_extreme, "min", 1)) for kind in _COMPARABLE),
    *(overload(f"list<{kind}>.max() -> {kind}", partial(_extreme, "max", -1)) for kind in _COMPARABLE),
    *(overload(f"list<{kind}>.isSorted() -> bool", is_sorted, 60) for kind in _COMPARABLE),
    *(overload(f"list<{kind}>.sort() -> list<{kind}>", sort, 225) for kind in _COMPARABLE),
    *(overload(f"list<A>.@sortByAssociatedKeys(list<{kind}>) -> list<A>", sort_by, 225) for kind in _COMPARABLE),
    overload("list<A>.slice(int, int) -> list<A>", cut),
    overload("list<list<A>>.flatten() -> list<A>", flatten, 55),
    overload("list<A>.flatten(int) -> list<dyn>", flatten, 55),
    overload("list<A>.distinct() -> list<A>", distinct, 80),
    overload("list<A>.reverse() -> list<A>", reverse),
    overload(".lists.range(int) -> list<int>", numbers_to, 20),
    overload(".sets.contains(list<A>, list<A>) -> bool", set_contains, 160),
    overload(".sets.equivalent(list<A>, list<A>) -> bool", set_equivalent, 225),
    overload(".sets.intersects(list<A>, list<A>) -> bool", set_intersects, 110),
)
