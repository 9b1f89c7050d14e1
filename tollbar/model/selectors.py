"""Label selectors (metav1.LabelSelector): whether one matches labels, and what the API server would refuse in it."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from tollbar.model import names
from tollbar.model.fields import FieldError, forbidden, invalid, required
from tollbar.model.objects import Object

_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
HAS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def matches(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """True when every requirement holds.  `{}` matches everything, None matches nothing, as in the API."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(holds(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def holds(requirement: Object, labels: Mapping[str, str]) -> bool:
    """Whether one entry of `matchExpressions` holds of these labels.  One that the API server refuses never does.

    Source: Requirement.Matches in k8s.io/apimachinery/pkg/labels.
    """
    key, values = requirement.get("key") or "", requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return bool(values) and (key not in labels or labels[key] not in values)
        case "Exists":
            return not values and key in labels
        case "DoesNotExist":
            return not values and key not in labels
    return False


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
        errors.append(forbidden(f"{path}.values", HAS_NO_VALUES))
    errors += _text_errors(f"{path}.key", requirement.get("key") or "", names.qualified_name)
    for index, value in enumerate(values):
        errors += _text_errors(f"{path}.values[{index}]", value, names.label_value)
    return errors


def _text_errors(path: str, value: Any, problems: Callable[[str], list[str]]) -> list[FieldError]:
    if not isinstance(value, str):
        return [invalid(path, value, "must be a string")]
    return [invalid(path, value, problem) for problem in problems(value)]
