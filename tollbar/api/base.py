"""What the types of the API are made of: the base class, numbers, quantities, durations, conditions, selectors.

Types are frozen and strict: no value is coerced, no unknown field is accepted.  Their docstrings are the descriptions
in the CRDs (`kubectl explain`).
"""

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from tollbar.api import durations, texts
from tollbar.api.schema import INT64, named_format, rule, validated
from tollbar.model import selectors
from tollbar.model.objects import Object

Int64: TypeAlias = Annotated[int, Field(ge=-INT64, le=INT64 - 1, json_schema_extra={"format": "int64"})]
Count: TypeAlias = Annotated[int, Field(ge=0, le=INT64 - 1, json_schema_extra={"format": "int64"})]

_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
Quantity: TypeAlias = Annotated[
    str,
    BeforeValidator(lambda given: str(given) if type(given) is int else given),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, "pattern": _QUANTITY}
    ),
]
Duration: TypeAlias = Annotated[
    str,
    Field(
        max_length=32,
        json_schema_extra=validated(
            rule(f"self.matches('{durations.PATTERN}') && duration(self) > duration('0s')", texts.NOT_A_DURATION)
        ),
    ),
]

ATOMIC: Final = {"x-kubernetes-list-type": "atomic"}
SET: Final = {"x-kubernetes-list-type": "set"}


class ApiType(BaseModel):
    """Base of every type: camelCase names on the wire, snake_case attributes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        alias_generator=to_camel,
        validate_by_name=False,
        validate_by_alias=True,
        use_attribute_docstrings=True,
    )

    def as_object(self) -> Object:
        """The value as decoded JSON, absent where it is absent on the wire."""
        return self.model_dump(by_alias=True, exclude_none=True, mode="json")


class ObjectMeta(ApiType):
    """What Tollbar reads of an object's metadata."""

    model_config = ConfigDict(extra="ignore")

    name: str = ""
    uid: str = ""
    generation: int = 0


class Condition(ApiType):
    """One aspect of the object's state (metav1.Condition)."""

    type: Annotated[str, Field(max_length=316)]
    """The aspect, in CamelCase."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Why, in one CamelCase word."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, for a person."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: Count | None = None
    """The generation that this was found for."""


Conditions: TypeAlias = Annotated[
    tuple[Condition, ...],
    Field(
        strict=False,
        max_length=8,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class LabelSelectorRequirement(ApiType):
    """A requirement on one label."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",
                selectors.NEEDS_VALUES,
                field_path=".values",
            ),
            rule(
                "self.operator in ['In', 'NotIn'] || !has(self.values) || size(self.values) == 0",
                selectors.HAS_NO_VALUES,
                field_path=".values",
            ),
        )
    )

    key: Annotated[str, Field(max_length=317, json_schema_extra=validated(named_format("qualifiedName")))]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label's value relates to `values`."""
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63)], ...], Field(strict=False, max_length=64, json_schema_extra=ATOMIC)
    ] = ()
    """The values, for In and NotIn."""


class LabelSelector(ApiType):
    """A selection by labels; an empty one selects everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})

    match_labels: dict[str, Annotated[str, Field(max_length=63)]] = Field(default={}, max_length=32)
    """Labels that must have exactly these values."""
    match_expressions: Annotated[
        tuple[LabelSelectorRequirement, ...], Field(strict=False, max_length=32, json_schema_extra=ATOMIC)
    ] = ()
    """Requirements that must all hold."""
