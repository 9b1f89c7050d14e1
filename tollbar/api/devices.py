"""Device prototypes: what a driver could publish in a ResourceSlice (resource.k8s.io/v1), and nothing else."""

from collections.abc import Iterator
from typing import Annotated, Final, TypeAlias

from pydantic import ConfigDict, Field

from tollbar.api import texts
from tollbar.api.base import ApiType, Int64, Quantity
from tollbar.api.reasons import RuleReason
from tollbar.api.schema import named_format, rule, validated
from tollbar.model import names, quantity, semver
from tollbar.model.fields import FieldError, entry, invalid, too_long

_DOMAIN_MAX: Final = 63
_IDENTIFIER_MAX: Final = 32
_ATTRIBUTE_NAME: Final = r"^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}$"
_NAMES: Final = validated(rule(f"self.all(name, name.matches('{_ATTRIBUTE_NAME}'))", texts.NOT_ATTRIBUTE))
Version: TypeAlias = Annotated[
    str, Field(max_length=64, json_schema_extra=validated(rule("isSemver(self)", texts.NOT_SEMVER)))
]


class DeviceAttribute(ApiType):
    """The value of a device's attribute, of one of these types (resource.k8s.io/v1 DeviceAttribute)."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "[has(self.string), has(self.int), has(self.bool), has(self.version)].exists_one(given, given)",
                texts.ONE_VALUE,
            )
        )
    )

    string_value: Annotated[str, Field(max_length=64)] | None = Field(default=None, alias="string")
    """A string."""
    int_value: Int64 | None = Field(default=None, alias="int")
    """A number."""
    bool_value: bool | None = Field(default=None, alias="bool")
    """A boolean."""
    version_value: Version | None = Field(default=None, alias="version")
    """A semantic version (semver.org, 2.0.0)."""


class DeviceCapacity(ApiType):
    """How much of something a device has."""

    value: Quantity
    """A quantity, such as 80Gi."""


class DevicePrototype(ApiType):
    """A device as a driver would publish it in a ResourceSlice."""

    driver: Annotated[
        str,
        Field(
            min_length=1,
            max_length=63,
            # The API server, too, validates the driver's name in lower case.
            json_schema_extra=validated(named_format("dns1123Subdomain", of="self.lowerAscii()")),
        ),
    ]
    """The DRA driver that publishes such devices."""
    attributes: dict[str, DeviceAttribute] = Field(default={}, max_length=32, json_schema_extra=_NAMES)
    """Attributes by name; a name without a domain belongs to the driver's domain."""
    capacity: dict[str, DeviceCapacity] = Field(default={}, max_length=32, json_schema_extra=_NAMES)
    """Capacities by name."""


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
