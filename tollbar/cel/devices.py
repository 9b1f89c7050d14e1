"""Devices of resource.k8s.io/v1 as input of device selectors.

As in Kubernetes, attributes and capacities are by domain, then by name.
"""

from collections.abc import Mapping
from typing import Any, Final

from tollbar.cel.core.interface import Inputs
from tollbar.cel.core.values import Domains
from tollbar.cel.library.quantities import read_quantity, read_semver

_TYPES: Final = {"string": str, "int": int, "bool": bool, "version": str}
_LISTS: Final = {"ints": "int", "bools": "bool", "strings": "string", "versions": "version"}
"""Fields of an attribute with a list of values, and the field with one value (feature gate DRAListTypeAttributes)."""


def prepare(
    driver: str,
    attributes: Mapping[str, Any],
    capacity: Mapping[str, Any],
    *,
    allow_multiple_allocations: bool = False,
) -> Inputs:
    """The variable `device` for programs of DEVICE_ENV.

    `attributes` are DeviceAttributes by qualified name ({"string": ...}, {"int": ...}, {"bool": ...}, {"version": ...}
    or one of the lists {"strings": [...]}, {"ints": ...}, {"bools": ...}, {"versions": ...}), `capacity`
    DeviceCapacities ({"value": "80Gi"}).  A name without a domain belongs to the driver's domain.  ValueError for
    any other value, which the API server does not admit.
    """
    device = {
        "driver": driver,
        "allowMultipleAllocations": allow_multiple_allocations,
        "attributes": _by_domain(driver, {name: _attribute(value) for name, value in attributes.items()}),
        "capacity": _by_domain(driver, {name: read_quantity(str(has.get("value"))) for name, has in capacity.items()}),
    }
    return Inputs({"device": device})


def _by_domain(driver: str, values: Mapping[str, Any]) -> Domains:
    domains = Domains()
    for qualified, value in values.items():
        domain, slash, name = qualified.partition("/")
        if not slash:
            domain, name = driver, qualified
        domains.setdefault(domain, {})[name] = value
    return domains


def _attribute(attribute: Mapping[str, Any]) -> Any:
    for field, value in attribute.items():
        if type(value) is _TYPES.get(field):
            return read_semver(value) if field == "version" else value
        if field in _LISTS and type(value) is list:
            return [_attribute({_LISTS[field]: item}) for item in value]
    raise ValueError("unsupported attribute value")
