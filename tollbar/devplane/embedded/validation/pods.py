"""Pods at creation, and their status.

Source: ValidatePodCreate, ValidatePodSpec and ValidatePodStatusUpdate in k8s.io/kubernetes/pkg/apis/core/validation.
"""

from typing import Any, Final

from tollbar.devplane.embedded.validation.texts import duplicates, each, labelled, members, named, not_found, wrong
from tollbar.model import names, pods, quantity, tolerations
from tollbar.model.fields import FieldError, forbidden, required, unsupported
from tollbar.model.objects import Object, spec

_NUMERIC: Final = ("Lt", "Gt")
_BOTH: Final = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
_NEITHER: Final = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
CONTAINER_LISTS: Final = ("initContainers", "containers")


def validate(pod: Object) -> list[FieldError]:
    """A whole Pod as it is stored; creation and update alike."""
    body = spec(pod)
    errors = [] if body.get("containers") else [required("spec.containers")]
    known = [reference.get("name") for reference in pods.claim_references(pod)]
    for member in CONTAINER_LISTS:
        errors += each(f"spec.{member}", body.get(member), lambda path, container: _container(path, container, known))
    errors += labelled("spec.resourceClaims", body.get("resourceClaims"), _claim)
    return errors + each("spec.tolerations", body.get("tolerations"), _toleration) + _gates(body)


def validate_new(pod: Object) -> list[FieldError]:
    """Checks at creation only."""
    if pods.gate_names(pod) and pods.is_bound(pod):
        return [forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
    return []


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """The status as it is written through pods/status."""
    known = {reference.get("name") for reference in pods.claim_references(old)}
    detail = "must match the name of an entry in `spec.resourceClaims`"

    def check(path: str, entry: Object) -> list[FieldError]:
        return [] if entry.get("name") in known else [wrong(f"{path}.name", entry.get("name"), detail)]

    return each("status.resourceClaimStatuses", (new.get("status") or {}).get("resourceClaimStatuses"), check)


def _container(path: str, container: Object, references: list[Any]) -> list[FieldError]:
    errors = [*named(f"{path}.name", container.get("name"), names.dns_label), *members(path, container, "image")]
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for member, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            errors += _amount(f"{path}.resources.{member}[{name}]", name, amount)
    if any(pods.is_extended_resource(name) and name not in limits for name in requests):
        errors.append(required(f"{path}.resources.limits", "Limit must be set for non overcommitable resources"))
    which = "which does not have it" if references else "which is empty"
    detail = f"must be one of the names in pod.spec.resourceClaims {which}"
    return errors + each(
        f"{path}.resources.claims",
        resources.get("claims"),
        lambda where, one: [] if one.get("name") in references else [not_found(where, one.get("name"), detail)],
    )


def _amount(path: str, name: str, amount: Any) -> list[FieldError]:
    try:
        value = quantity.parse(str(amount))
    except ValueError:
        return [wrong(path, amount, "must be a quantity")]
    if value < 0:
        return [wrong(path, amount, "must be greater than or equal to 0")]
    if pods.is_extended_resource(name) and value % 1:
        return [wrong(path, amount, "must be an integer")]
    return []


def _claim(path: str, reference: Object) -> list[FieldError]:
    by_name, by_template = (reference.get(member) for member in ("resourceClaimName", "resourceClaimTemplateName"))
    if bool(by_name) != bool(by_template):
        return []
    quoted = {"Name": reference.get("name"), "ResourceClaimName": by_name, "ResourceClaimTemplateName": by_template}
    return [wrong(path, quoted, _BOTH if by_name else _NEITHER)]


def _toleration(path: str, toleration: Object) -> list[FieldError]:
    found = tolerations.validate(toleration, path=path)
    if toleration.get("operator") not in _NUMERIC:
        return found
    # The API server's text lists operators as supported that it refuses while their feature gate is off.
    text = unsupported(f"{path}.operator", toleration["operator"], (*tolerations.OPERATORS, *_NUMERIC))
    return [text if error.field == text.field else error for error in found]


def _gates(body: Object) -> list[FieldError]:
    gates = [gate.get("name") or "" for gate in body.get("schedulingGates") or ()]
    errors = each("spec.schedulingGates", gates, lambda path, name: named(path, name, names.qualified_name))
    return errors + duplicates("spec.schedulingGates", zip(gates, gates, strict=True))
