"""Device prototypes: what a driver could publish in a ResourceSlice (resource.k8s.io/v1), and nothing else."""

from collections.abc import Iterator
from typing import Final

from tollbar.api import texts
from tollbar.api.reasons import RuleReason
from tollbar.api.types import DeviceAttribute, DevicePrototype
from tollbar.model import names, quantity, semver
from tollbar.model.fields import FieldError, entry, invalid, too_long

_DOMAIN_MAX: Final = 63
_IDENTIFIER_MAX: Final = 32


def problems(prototype: DevicePrototype, path: str) -> Iterator[FieldError]:
    """What the API server would refuse in such a device, with reason InvalidPrototype."""
    for problem in names.dns_subdomain(prototype.driver.lower()):
        yield _invalid(f"{path}.driver", prototype.driver, problem)
    for name, attribute in prototype.attributes.items():
        yield from _name_problems(name, f"{path}.attributes")
        yield from _attribute_problems(attribute, entry(f"{path}.attributes", name))
    for name, capacity in prototype.capacity.items():
        yield from _name_problems(name, f"{path}.capacity")
        try:
            quantity.parse(capacity.value)
        except ValueError:
            yield _invalid(
                f"{entry(f'{path}.capacity', name)}.value", capacity.value, "must be a quantity, such as 80Gi"
            )


def _name_problems(name: str, path: str) -> Iterator[FieldError]:
    domain, slash, identifier = name.rpartition("/")
    if names.c_identifier(identifier) or (slash and names.dns_subdomain(domain.lower())):
        yield _invalid(path, name, texts.NOT_ATTRIBUTE)
    if len(domain) > _DOMAIN_MAX:
        yield too_long(path, _DOMAIN_MAX, RuleReason.INVALID_PROTOTYPE)
    if len(identifier) > _IDENTIFIER_MAX:
        yield too_long(path, _IDENTIFIER_MAX, RuleReason.INVALID_PROTOTYPE)


def _attribute_problems(attribute: DeviceAttribute, path: str) -> Iterator[FieldError]:
    value = attribute.as_object()
    if len(value) != 1:
        yield _invalid(path, value, texts.ONE_VALUE)
    if attribute.version_value is not None:
        try:
            semver.parse(attribute.version_value)
        except ValueError:
            yield _invalid(f"{path}.version", attribute.version_value, texts.NOT_SEMVER)


def _invalid(field: str, value: object, detail: str) -> FieldError:
    return invalid(field, value, detail, RuleReason.INVALID_PROTOTYPE)
