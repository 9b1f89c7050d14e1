"""Which Nodes a NodeSelector selects, and which ones a Pod may go to by its nodeSelector and required node affinity.

Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity, on selectors that the API server accepts.  A malformed
requirement matches no Node.
"""

import re
from typing import Final

from tollbar.model import selectors
from tollbar.model.objects import Object, key_of, labels_of, spec

_INT64_MAX: Final = 2**63 - 1
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
