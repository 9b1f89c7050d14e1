"""metav1.LabelSelector: does it match these labels, and is it one that the API server would accept?"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tollbar.model import names
from tollbar.model.fields import FieldError, forbidden, invalid, required
from tollbar.model.objects import Object

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
HAS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """True when every requirement holds.  `{}` matches everything, None matches nothing, as in the API.

    An operator that the API does not know never matches.
    """
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_holds(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def validate(selector: Any, *, path: str) -> list[FieldError]:
    """What the API server would refuse in this selector, with its texts."""
    if not isinstance(selector, dict):
        return [invalid(path, selector, "must be an object")]
    by_label = selector.get("matchLabels") or {}
    requirements = selector.get("matchExpressions") or []
    if not isinstance(by_label, dict):
        return [invalid(f"{path}.matchLabels", by_label, "must be an object")]
    if not isinstance(requirements, list | tuple):
        return [invalid(f"{path}.matchExpressions", requirements, "must be a list")]
    errors = []
    for key, value in by_label.items():
        errors += _text_errors(f"{path}.matchLabels", key, names.qualified_name)
        errors += _text_errors(f"{path}.matchLabels", value, names.label_value)
    for index, requirement in enumerate(requirements):
        errors += _requirement_errors(requirement, f"{path}.matchExpressions[{index}]")
    return errors


def _in(values: list[str], labels: Mapping[str, str], key: str) -> bool:
    return key in labels and labels[key] in values


_OPERATORS: Final[dict[str, Callable[[list[str], Mapping[str, str], str], bool]]] = {
    "In": _in,
    "NotIn": lambda values, labels, key: not _in(values, labels, key),
    "Exists": lambda _values, labels, key: key in labels,
    "DoesNotExist": lambda _values, labels, key: key not in labels,
}


def _holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    holds = _OPERATORS.get(requirement.get("operator") or "")
    return holds is not None and holds(requirement.get("values") or [], labels, requirement.get("key") or "")


def _requirement_errors(requirement: Any, path: str) -> list[FieldError]:
    if not isinstance(requirement, dict):
        return [invalid(path, requirement, "must be an object")]
    operator, values = requirement.get("operator"), requirement.get("values") or []
    if not isinstance(values, list | tuple):
        return [invalid(f"{path}.values", values, "must be a list")]
    errors = []
    if not isinstance(operator, str) or operator not in _OPERATORS:
        errors.append(invalid(f"{path}.operator", operator or "", "not a valid selector operator"))
    elif operator in ("In", "NotIn") and not values:
        errors.append(required(f"{path}.values", NEEDS_VALUES))
    elif operator in ("Exists", "DoesNotExist") and values:
        errors.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    errors += _text_errors(f"{path}.key", requirement.get("key") or "", names.qualified_name)
    for index, value in enumerate(values):
        errors += _text_errors(f"{path}.values[{index}]", value, names.label_value)
    return errors


def _text_errors(path: str, value: Any, problems: Callable[[str], list[str]]) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    return [invalid(path, value, problem) for problem in problems(value)]
