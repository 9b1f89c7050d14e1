"""Pods at creation, and their status.

Source: ValidatePodCreate, ValidatePodSpec and ValidatePodStatusUpdate in k8s.io/kubernetes/pkg/apis/core/validation.
"""

from collections.abc import Iterator
from typing import Any, Final

from tollbar.devplane.embedded.validation.texts import duplicates, members, named, not_found, wrong
from tollbar.model import names, pods, quantity, tolerations
from tollbar.model.fields import FieldError, forbidden, required, unsupported
from tollbar.model.objects import Object, spec

_NUMERIC: Final = ("Lt", "Gt")
CONTAINER_LISTS: Final = ("initContainers", "containers")


def validate(pod: Object) -> list[FieldError]:
    """A whole Pod as it is stored; creation and update alike."""
    body = spec(pod)
    errors = [] if body.get("containers") else [required("spec.containers")]
    for path, container in containers(body):
        errors += _container(path, container, pods.claim_references(pod))
    return errors + _claims(body) + _tolerations(body) + _gates(body)


def validate_new(pod: Object) -> list[FieldError]:
    """What only a new Pod is held to."""
    if pods.gate_names(pod) and pods.is_bound(pod):
        return [forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")]
    return []


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """The status as it is written through pods/status."""
    known = {each.get("name") for each in pods.claim_references(old)}
    errors = []
    for index, entry in enumerate((new.get("status") or {}).get("resourceClaimStatuses") or ()):
        if entry.get("name") not in known:
            path = f"status.resourceClaimStatuses[{index}].name"
            errors.append(wrong(path, entry.get("name"), "must match the name of an entry in `spec.resourceClaims`"))
    return errors


def containers(body: Object) -> Iterator[tuple[str, Object]]:
    """All containers with their paths."""
    for member in CONTAINER_LISTS:
        for index, container in enumerate(body.get(member) or ()):
            yield f"spec.{member}[{index}]", container


def _container(path: str, container: Object, references: list[Object]) -> list[FieldError]:
    errors = [*named(f"{path}.name", container.get("name"), names.dns_label), *members(path, container, "image")]
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for member, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            errors += _amount(f"{path}.resources.{member}[{name}]", name, amount)
    if any(pods.is_extended_resource(name) and name not in limits for name in requests):
        errors.append(required(f"{path}.resources.limits", "Limit must be set for non overcommitable resources"))
    return errors + _claims_of_container(f"{path}.resources.claims", resources.get("claims") or (), references)


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


def _claims_of_container(path: str, claims: Any, references: list[Object]) -> list[FieldError]:
    known = [each.get("name") for each in references]
    which = "which is empty" if not known else "which does not have it"
    return [
        not_found(f"{path}[{index}]", each.get("name"), f"must be one of the names in pod.spec.resourceClaims {which}")
        for index, each in enumerate(claims)
        if each.get("name") not in known
    ]


def _claims(body: Object) -> list[FieldError]:
    references = body.get("resourceClaims") or []
    errors = []
    for index, each in enumerate(references):
        path = f"spec.resourceClaims[{index}]"
        errors += named(f"{path}.name", each.get("name"), names.dns_label)
        given = [each.get(member) for member in ("resourceClaimName", "resourceClaimTemplateName")]
        quoted = {"Name": each.get("name"), "ResourceClaimName": given[0], "ResourceClaimTemplateName": given[1]}
        if all(given):
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.append(wrong(path, quoted, detail))
        if not any(given):
            detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errors.append(wrong(path, quoted, detail))
    return errors + duplicates("spec.resourceClaims", ((each.get("name"),) * 2 for each in references), ".name")


def _tolerations(body: Object) -> list[FieldError]:
    errors = []
    for index, toleration in enumerate(body.get("tolerations") or ()):
        path = f"spec.tolerations[{index}]"
        found = tolerations.validate(toleration, path=path)
        if toleration.get("operator") in _NUMERIC:
            # The API server lists operators as supported that it just refused.
            text = unsupported(f"{path}.operator", toleration["operator"], (*tolerations.OPERATORS, *_NUMERIC))
            found = [text if each.field == text.field else each for each in found]
        errors += found
    return errors


def _gates(body: Object) -> list[FieldError]:
    gates = [each.get("name") or "" for each in body.get("schedulingGates") or ()]
    errors = []
    for index, name in enumerate(gates):
        errors += named(f"spec.schedulingGates[{index}]", name, names.qualified_name)
    return errors + duplicates("spec.schedulingGates", zip(gates, gates, strict=True))
