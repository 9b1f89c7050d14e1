"""Validation of TolerationRules, except that expressions are not compiled (see `tollbar.decide.rules`).

It never raises, for any JSON: a rule may have been stored by an older version, or under an older CRD.
"""

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from tollbar.api import devices, texts
from tollbar.api.parse import parse
from tollbar.api.reasons import RuleReason
from tollbar.api.types import (
    MEMBERS,
    CelMatch,
    DeviceMatch,
    ExtendedResourceMatch,
    Match,
    Selection,
    Toleration,
    TolerationRule,
)
from tollbar.model import names, selectors, tolerations
from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required

__all__ = ["TolerationRule", "match_reason", "parse_rule", "selection_problems"]


def parse_rule(obj: Any) -> TolerationRule | list[FieldError]:
    """The rule, or the errors in it, at most 16.  Each error's `reason` is one for the condition Ready=False."""
    return parse(TolerationRule, obj, _problems, match_reason)


def match_reason(field: str) -> str:
    """The reason of the condition Ready=False for an error of this field of a rule, whatever its kind."""
    if field.startswith("spec.match.device"):
        return RuleReason.INVALID_PROTOTYPE
    if field.startswith("spec.match.cel"):
        return RuleReason.INVALID_EXPRESSION
    return RuleReason.INVALID_SPEC


def _problems(rule: TolerationRule) -> Iterator[FieldError]:
    yield from selection_problems(rule.spec)
    yield from _toleration_problems(rule, rule.spec.tolerations, "spec.tolerations")
    yield from _toleration_problems(rule, rule.spec.device_tolerations, "spec.deviceTolerations")
    if not rule.spec.tolerations and not rule.spec.device_tolerations:
        yield required("spec.tolerations", texts.NO_TOLERATIONS)
    if rule.spec.device_tolerations and rule.spec.match.type == "ExtendedResource":
        yield forbidden("spec.deviceTolerations", texts.NOT_OF_CLAIMS)


def _toleration_problems(rule: TolerationRule, given: Iterable[Toleration], field: str) -> Iterator[FieldError]:
    for index, toleration in enumerate(given):
        path = f"{field}[{index}]"
        yield from tolerations.validate(toleration.as_object(), path=path)
        if tolerations.is_reserved(toleration.key or "") and not rule.spec.allow_reserved_keys:
            yield invalid(f"{path}.key", toleration.key or "", texts.RESERVED, RuleReason.RESERVED_KEY)


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
