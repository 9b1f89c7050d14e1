"""size(), and the list functions of Kubernetes' lists library."""

from functools import reduce
from itertools import pairwise
from typing import Any, Final

from tollbar.cel import operators
from tollbar.cel.functions import library, overload
from tollbar.cel.limits import Budget, Fault
from tollbar.cel.values import equal, kind, no_overload, ordered

_ADD: Final = library(operators.OVERLOADS).exact["_+_", False]
_SUMMABLE: Final = frozenset({"int", "uint", "double", "duration"})


def size(_: Budget, value: Any) -> int:
    return len(value)


def index_of(budget: Budget, items: list[Any], wanted: Any) -> int:
    budget.spend(len(items))
    return next((index for index, item in enumerate(items) if equal(item, wanted, budget)), -1)


def last_index_of(budget: Budget, items: list[Any], wanted: Any) -> int:
    budget.spend(len(items))
    return next((index for index in reversed(range(len(items))) if equal(items[index], wanted, budget)), -1)


def total(budget: Budget, items: list[Any]) -> Any:
    """The sum; 0 for an empty list, whose element type is not known."""
    budget.spend(len(items))

    def add(a: Any, b: Any) -> Any:
        if kind(a) not in _SUMMABLE or kind(a) != kind(b):
            raise no_overload("sum", a, b)
        return _ADD[type(a), type(b)](budget, a, b)

    if len(items) == 1:
        add(items[0], items[0])
    return reduce(add, items) if items else 0


def least(budget: Budget, items: list[Any]) -> Any:
    return _extreme(budget, items, "_<_")


def greatest(budget: Budget, items: list[Any]) -> Any:
    return _extreme(budget, items, "_>_")


def _extreme(budget: Budget, items: list[Any], better: str) -> Any:
    budget.spend(len(items))
    if not items:
        raise Fault("min() and max() need a non-empty list")
    return reduce(lambda best, item: item if ordered(better, item, best, budget) else best, items)


def is_sorted(budget: Budget, items: list[Any]) -> bool:
    budget.spend(len(items))
    return not any(ordered("_>_", a, b, budget) for a, b in pairwise(items))


OVERLOADS: Final = (
    *(overload(f"size({kind}) -> int", size) for kind in ("string", "bytes", "list", "map")),
    *(overload(f"{kind}.size() -> int", size) for kind in ("string", "bytes", "list", "map")),
    overload("list.indexOf(any) -> int", index_of),
    overload("list.lastIndexOf(any) -> int", last_index_of),
    overload("list.sum() -> dyn", total),
    overload("list.min() -> dyn", least),
    overload("list.max() -> dyn", greatest),
    overload("list.isSorted() -> bool", is_sorted),
)
