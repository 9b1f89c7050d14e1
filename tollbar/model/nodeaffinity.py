"""Which Nodes a NodeSelector selects, and which ones a Pod may go to by its nodeSelector and required node affinity.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, on selectors that the API server accepts.  A malformed
requirement matches no Node.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from tollbar.model import names, selectors
from tollbar.model.fields import FieldError, forbidden, invalid, required
from tollbar.model.objects import Object, key_of, labels_of, spec

OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
NEEDS_VALUES: Final = selectors.NEEDS_VALUES
HAS_NO_VALUES: Final = selectors.HAS_NO_VALUES
_INT64_MAX: Final = 2**63 - 1
_NO_REQUIREMENT: Final = "key must be a string, and values a list of strings"
_DIGITS: Final = re.compile("[0-9]{1,63}")


def selects(selector: Object, node: Object) -> bool:
    """Whether a v1.NodeSelector (`{"nodeSelectorTerms": [...]}`) selects the Node: one of its terms does.

    All requirements of a term must hold; a term without any selects no Node.
    """
    return any(term_selects(term, node) for term in selector.get("nodeSelectorTerms") or ())


def allows(pod: Object, node: Object) -> bool:
    """Whether `spec.nodeSelector` and `requiredDuringSchedulingIgnoredDuringExecution` of node affinity both do."""
    affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    return selectors.matches({"matchLabels": spec(pod).get("nodeSelector")}, labels_of(node)) and (
        required is None or selects(required, node)
    )


def term_selects(term: Object, node: Object) -> bool:
    """Whether a v1.NodeSelectorTerm selects the Node."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    return (
        bool(expressions or fields)
        and all(_label_fits(each, node) for each in expressions)
        and all(_field_fits(each, node) for each in fields)
    )


def _label_fits(requirement: Object, node: Object) -> bool:
    operator, labels = requirement.get("operator"), labels_of(node)
    if operator not in ("Gt", "Lt"):
        return selectors.holds(requirement, labels)
    values = requirement.get("values") or []
    label = _integer(labels.get(requirement.get("key") or "") or "")
    bound = _integer(values[0]) if len(values) == 1 else None
    if label is None or bound is None:
        return False
    return label > bound if operator == "Gt" else label < bound


def _field_fits(requirement: Object, node: Object) -> bool:
    """The only field of a Node is its name; the operators are In and NotIn, with one value."""
    if requirement.get("operator") not in ("In", "NotIn") or len(requirement.get("values") or ()) != 1:
        return False
    return selectors.holds(requirement, {"metadata.name": key_of(node).name})


def _integer(text: str) -> int | None:
    """A label's value as a 64-bit integer.  It has no sign: values of labels begin with a letter or digit."""
    value = int(text) if _DIGITS.fullmatch(text) else None
    return value if value is None or value <= _INT64_MAX else None


def is_comparable(value: str) -> bool:
    """Whether it is a number that Gt and Lt can compare with; with another value they select no Node."""
    return _integer(value) is not None


def validate(requirement: Any, *, path: str, values_are_labels: bool = True) -> list[FieldError]:
    """What the API server would refuse in this NodeSelectorRequirement, with its texts.

    Of preferences it allows values that no label can have.
    """
    if not isinstance(requirement, dict):
        return [invalid(path, requirement, "must be an object")]
    return list(_requirement_problems(requirement, path, values_are_labels=values_are_labels))


def validate_preferred(term: Any, *, path: str) -> list[FieldError]:
    """The same for a PreferredSchedulingTerm."""
    if not isinstance(term, dict) or not isinstance(term.get("preference"), dict):
        return [invalid(path, term, "must be an object with weight and preference")]
    found = []
    weight = term.get("weight")
    if type(weight) is not int or not 1 <= weight <= 100:
        found.append(invalid(f"{path}.weight", weight, "must be in the range 1-100"))
    for index, each in enumerate(term["preference"].get("matchExpressions") or ()):
        found += validate(each, path=f"{path}.preference.matchExpressions[{index}]", values_are_labels=False)
    for index, each in enumerate(term["preference"].get("matchFields") or ()):
        found += _field_problems(each, f"{path}.preference.matchFields[{index}]")
    return found


def _requirement_problems(requirement: Object, path: str, *, values_are_labels: bool) -> Iterator[FieldError]:
    key, operator, values = _parts(requirement)
    if not isinstance(key, str) or not isinstance(values, list | tuple):
        yield invalid(path, requirement, _NO_REQUIREMENT)
        return
    if operator in ("In", "NotIn") and not values:
        yield required(f"{path}.values", NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist") and values:
        yield forbidden(f"{path}.values", HAS_NO_VALUES)
    elif operator in ("Gt", "Lt") and len(values) != 1:
        yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    elif operator not in OPERATORS:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from (invalid(f"{path}.key", key, problem) for problem in names.qualified_name(key))
    for index, value in enumerate(values):
        where = f"{path}.values[{index}]"
        if not isinstance(value, str):
            yield invalid(where, value, "must be a string")
        elif values_are_labels:
            yield from (invalid(where, value, problem) for problem in names.label_value(value))


def _field_problems(requirement: Any, path: str) -> Iterator[FieldError]:
    """The only field of a Node is its name."""
    if not isinstance(requirement, dict):
        yield invalid(path, requirement, "must be an object")
        return
    key, operator, values = _parts(requirement)
    if not isinstance(values, list | tuple):
        yield invalid(path, requirement, _NO_REQUIREMENT)
        return
    if operator not in ("In", "NotIn"):
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        yield required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if key != "metadata.name":
        yield invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        problems = names.dns_subdomain(value) if isinstance(value, str) else ["must be a string"]
        yield from (invalid(f"{path}.values[{index}]", value, problem) for problem in problems)


def _parts(requirement: Object) -> tuple[Any, Any, Any]:
    return requirement.get("key"), requirement.get("operator"), requirement.get("values") or []
