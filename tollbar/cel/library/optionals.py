"""Optional values: the functions of cel-go's optional library, and the selection of optional fields and elements.

or() and orValue() must not evaluate their argument when there is a value, so engines implement them; the overloads here
are for the type check.
"""

from typing import Any, Final

from tollbar.cel.core.limits import CALL_STEPS, CostTracker, Fault
from tollbar.cel.core.values import ABSENT, Optional, find, kind
from tollbar.cel.library.functions import overload

_STEPS: Final = 38
"""For making an optional."""
_NEVER_ZERO: Final = frozenset({"type", "optional_type", "quantity", "semver", "url", "ip", "cidr", "format"})


def get_value(optional: Optional) -> Any:
    """The value; Fault if it is absent."""
    if not optional.present:
        raise Fault("optional.none() dereference")
    return optional.value


def maybe(container: Any, key: Any) -> Optional:
    """container.?key and container[?key]; also container.key and container[key] if the container is an optional.

    Fault if a list is indexed with a value that cannot be an index.
    """
    if type(container) is Optional:
        return maybe(container.value, key) if container.present else ABSENT
    if type(container) is dict and type(key) is str:
        return Optional(container[key]) if key in container else ABSENT
    return find(container, key)


def unwrap(cost: CostTracker, items: list[Any]) -> list[Any]:
    """The values of the optionals that are present."""
    cost.new_list(len(items))
    cost.charge(len(items) * CALL_STEPS)
    if any(type(item) is not Optional for item in items):
        raise Fault("value is not optional")
    return [item.value for item in items if item.present]


def is_zero(value: Any) -> bool:
    """Whether optional.ofNonZeroValue() is absent for the value: null, false, 0, and empty values."""
    kind_ = kind(value)
    if kind_ == "timestamp":
        return bool(value.nanos == _YEAR_ONE)
    if kind_ == "duration":
        return bool(value.nanos == 0)
    return kind_ not in _NEVER_ZERO and not value


_YEAR_ONE: Final = -62_135_596_800 * 10**9
"""0001-01-01T00:00:00Z, the zero value of Go's time."""

OVERLOADS: Final = (
    overload(".optional.of(A) -> optional_type<A>", lambda _, value: Optional(value), _STEPS),
    overload(
        ".optional.ofNonZeroValue(A) -> optional_type<A>",
        lambda _, value: ABSENT if is_zero(value) else Optional(value),
        2 * _STEPS,
    ),
    overload(".optional.none() -> optional_type<A>", lambda _: ABSENT),
    overload(".optional.unwrap(list<optional_type<A>>) -> list<A>", unwrap, 2 * _STEPS),
    overload("list<optional_type<A>>.unwrapOpt() -> list<A>", unwrap, 2 * _STEPS),
    overload("optional_type<A>.hasValue() -> bool", lambda _, optional: optional.present),
    overload("optional_type<A>.value() -> A", lambda _, optional: get_value(optional)),
    overload("optional_type<A>.or(optional_type<A>) -> optional_type<A>", lambda _, a, b: a if a.present else b),
    overload("optional_type<A>.orValue(A) -> A", lambda _, a, b: a.value if a.present else b),
    overload("list<A>.first() -> optional_type<A>", lambda _, items: Optional(items[0]) if items else ABSENT, _STEPS),
    overload("list<A>.last() -> optional_type<A>", lambda _, items: Optional(items[-1]) if items else ABSENT, _STEPS),
)
