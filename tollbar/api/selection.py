"""Which Pods a rule is for: what TolerationRule and PlacementRule have in common, its types and its validation.

Expressions are not compiled here (see `tollbar.decide.rules`).
"""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal, TypeAlias, assert_never

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_snake

from tollbar.api import devices, texts
from tollbar.api.base import ATOMIC, SET, ApiType, LabelSelector
from tollbar.api.devices import DevicePrototype
from tollbar.api.reasons import RuleReason
from tollbar.api.schema import rule, validated
from tollbar.model import names, selectors
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required

ResourceName: TypeAlias = Annotated[
    str,
    Field(
        max_length=317,
        json_schema_extra=validated(
            rule(
                "self.contains('/') && !format.qualifiedName().validate(self).hasValue()",
                texts.NOT_QUALIFIED,
            )
        ),
    ),
]


class CelMatch(ApiType):
    """A CEL expression over the variables `pod`, `claims`, `deviceClasses` and `namespaceObject`."""

    expression: Annotated[str, Field(min_length=1, max_length=10240)]
    """A CEL expression of type bool; true means that the rule is for the Pod.  Write it for `exactly` requests: each
    alternative (`firstAvailable`) is evaluated in that form."""


class ExtendedResourceMatch(ApiType):
    """Any container of the Pod asks for a positive quantity of one of these extended resources."""

    names: Annotated[
        tuple[ResourceName, ...],
        Field(strict=False, min_length=1, max_length=32, json_schema_extra=SET),
    ]
    """Names of extended resources, such as example.com/gpu."""


class DeviceMatch(ApiType):
    """A device like one of the prototypes could be allocated to a request of the Pod's claims."""

    prototypes: Annotated[
        tuple[DevicePrototype, ...], Field(strict=False, min_length=1, max_length=16, json_schema_extra=ATOMIC)
    ]
    """Examples of the devices that the reserved nodes have, as their driver would publish them."""


MatchMember: TypeAlias = CelMatch | ExtendedResourceMatch | DeviceMatch
MEMBERS: Final[Mapping[str, str]] = {"CEL": "cel", "ExtendedResource": "extendedResource", "Device": "device"}


class Match(ApiType):
    """What makes a Pod one that the rule is for: exactly one member, the one that `type` names."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            *(
                rule(
                    f"(self.type == '{type_}') == has(self.{member})",
                    texts.MEMBER.format(member=member, type=type_),
                    field_path=f".{member}",
                )
                for type_, member in MEMBERS.items()
            )
        )
    )

    type: Literal["CEL", "ExtendedResource", "Device"]
    """The match type: names the one of the fields below that is set."""
    cel: CelMatch | None = None
    """For the type CEL: an expression decides."""
    extended_resource: ExtendedResourceMatch | None = None
    """For the type ExtendedResource: a container of the Pod asks for one of these resources."""
    device: DeviceMatch | None = None
    """For the type Device: a device like one of these could be allocated to a request of the Pod."""

    @property
    def members(self) -> Mapping[str, MatchMember | None]:
        """Every member by its type; None where it is absent."""
        return {type_: getattr(self, to_snake(name)) for type_, name in MEMBERS.items()}

    @property
    def member(self) -> MatchMember:
        """The member that `type` names.  A parsed rule always has it."""
        member = self.members[self.type]
        if member is None:
            raise ValueError(texts.MEMBER.format(member=MEMBERS[self.type], type=self.type))
        return member


class Selection(ApiType):
    """What the kinds of rules have in common: which Pods a rule is for, and whether it is in force."""

    mode: Literal["Enforce", "Audit", "Disabled"] = "Enforce"
    """Enforce changes Pods, Audit only reports what it would change, Disabled does nothing."""
    match: Match
    """Which Pods the rule is for."""
    when_alternatives: Literal["All", "Any", "First"] = "All"
    """For claims with alternatives (`firstAvailable`): the match must hold in All of them, in Any, or in the First."""
    namespace_selector: LabelSelector = LabelSelector()
    """Restricts the rule to namespaces with these labels; empty means every managed namespace."""


def match_reason(field: str) -> str:
    """The reason of the condition Ready=False for an error of this field of a rule, whatever its kind."""
    if field.startswith("spec.match.device"):
        return RuleReason.INVALID_PROTOTYPE
    if field.startswith("spec.match.cel"):
        return RuleReason.INVALID_EXPRESSION
    return RuleReason.INVALID_SPEC


def selection_problems(spec: Selection) -> Iterator[FieldError]:
    """What is wrong with which Pods a rule is for."""
    yield from _match_problems(spec.match)
    yield from selectors.validate(spec.namespace_selector.as_object(), path="spec.namespaceSelector")


def _match_problems(match: Match) -> Iterator[FieldError]:
    for type_, member in match.members.items():
        field, detail = f"spec.match.{MEMBERS[type_]}", texts.MEMBER.format(member=MEMBERS[type_], type=type_)
        if match.type == type_ and member is None:
            yield required(field, detail)
        elif match.type != type_ and member is not None:
            yield forbidden(field, detail)
        match member:
            case ExtendedResourceMatch():
                yield from _name_problems(member.names, f"{field}.names")
            case DeviceMatch():
                for index, prototype in enumerate(member.prototypes):
                    yield from devices.problems(prototype, f"{field}.prototypes[{index}]")
            case CelMatch() | None:
                pass
            case _:
                assert_never(member)


def _name_problems(given: tuple[str, ...], path: str) -> Iterator[FieldError]:
    for index, name in enumerate(given):
        if name in given[:index]:
            yield duplicate(f"{path}[{index}]", name)
        elif "/" not in name or names.qualified_name(name):
            yield invalid(f"{path}[{index}]", name, texts.NOT_QUALIFIED)
