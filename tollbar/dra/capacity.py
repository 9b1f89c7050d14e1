"""What a request takes of a device's capacities (KEP-5075, KEP-5942), as upstream rounds and checks it.

Source: consumable_capacity.go in k8s.io/dynamic-resource-allocation/structured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tollbar.dra.slices import Capacity, Range
from tollbar.model.quantity import NANO, Amount

_INT64_MAX: Final = 2**63 - 1
_MILLI: Final = NANO // 1000


@dataclass(slots=True, eq=False)
class Consumption:
    """What a request takes of a device.

    `amounts` are by the name of the capacity and as results have them; `parts` have for each of them the name, what is
    taken and what the whole device has, in nano units.
    """

    amounts: dict[str, str]
    parts: tuple[tuple[str, int, int], ...]


NOTHING: Final = Consumption({}, ())
"""What is taken of a device without capacities."""


class CapacityError(ValueError):
    """A request that no device can answer: the claim is at fault, and no other device is tried."""


def consumption(
    requested: Mapping[str, Amount], offered: Mapping[str, Capacity], *, fractional: bool
) -> Consumption | None:
    """What the request takes of each capacity of an unused device; None if the device cannot give it.

    Without a request for a capacity that is the policy's default, else all of it.  Raises CapacityError for an amount
    that rounding takes out of 64 bits, and for a negative one.
    """
    if any(name not in offered for name in requested):
        return None
    taken = {name: _taken(name, requested.get(name), each, fractional=fractional) for name, each in offered.items()}
    if any(_violates(taken[name].nanos, name in requested, each, fractional) for name, each in offered.items()):
        return None
    if not taken:
        return NOTHING
    return Consumption(
        {name: str(amount) for name, amount in taken.items()},
        tuple((name, taken[name].nanos, each.value.nanos) for name, each in offered.items()),
    )


def _taken(name: str, requested: Amount | None, offered: Capacity, *, fractional: bool) -> Amount:
    try:
        taken = _rounded(requested, offered, fractional)
    except CapacityError as error:
        unrepresentable = "capacity request cannot be represented in the device's range arithmetic"
        raise CapacityError(f'capacity "{name}": {unrepresentable}: {error}') from None
    if taken.nanos < 0:
        raise CapacityError(f'capacity "{name}": capacity value is negative')
    return taken


def _rounded(requested: Amount | None, offered: Capacity, fractional: bool) -> Amount:
    if requested is None:
        return offered.default or offered.value
    if offered.range is not None and offered.range.least is not None:
        return _rounded_to_step(requested, offered.range.least, offered.range, fractional)
    return next((value for value in offered.values if requested.nanos <= value.nanos), requested)


def _rounded_to_step(requested: Amount, least: Amount, limits: Range, fractional: bool) -> Amount:
    if requested.nanos < least.nanos:
        return least
    if limits.step is None:
        return requested
    unit, width = (_MILLI, "the milli-value range") if _uses_milli(limits, fractional) else (NANO, "MaxInt64")
    if unit == _MILLI and not _is_milli(requested):
        raise CapacityError(f"request {requested} is not a representable milli value")
    if requested.nanos > _INT64_MAX * NANO:
        raise CapacityError(f"request {requested} exceeds MaxInt64")
    first, step = _units(least, unit), _units(limits.step, unit)
    steps = -(-(_units(requested, unit) - first) // step)
    if first + step * steps > _INT64_MAX:
        raise CapacityError(f"rounding request {requested} up to the next step passes {width}")
    return Amount((first + step * steps) * unit, limits.step.form)


def _violates(taken: int, is_requested: bool, offered: Capacity, fractional: bool) -> bool:
    """Whether the policy forbids the amount, or the whole device has less."""
    if taken > offered.value.nanos:
        return True
    if not is_requested and offered.default is not None:
        return False
    if offered.range is not None:
        return _is_outside(Amount(taken), offered.range, fractional)
    return bool(offered.values) and all(taken != each.nanos for each in offered.values)


def _is_outside(taken: Amount, limits: Range, fractional: bool) -> bool:
    if limits.most is not None and taken.nanos > limits.most.nanos:
        return True
    if limits.step is None:
        return False
    unit = _MILLI if _uses_milli(limits, fractional) else NANO
    if unit == _MILLI and not _is_milli(taken):
        return True
    first = _units(limits.least, unit) if limits.least is not None else 0
    return (_units(taken, unit) - first) % _units(limits.step, unit) != 0


def _uses_milli(limits: Range, fractional: bool) -> bool:
    """Whether the arithmetic is in thousandths: with the feature on, wherever every limit is a number of them."""
    return fractional and all(each is None or _is_milli(each) for each in limits)


def _is_milli(given: Amount) -> bool:
    return given.nanos % _MILLI == 0 and abs(given.nanos) <= _INT64_MAX * _MILLI


def _units(given: Amount, unit: int) -> int:
    return -(-given.nanos // unit)
