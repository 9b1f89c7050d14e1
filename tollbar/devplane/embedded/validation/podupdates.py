"""Updates of Pods: images, deadlines, more tolerations, fewer gates, and narrower node selection while gated.

Source: ValidatePodUpdate in k8s.io/kubernetes/pkg/apis/core/validation.  As there, each allowed change is checked and
then reverted; whatever still differs is refused.
"""

import json
from copy import deepcopy
from typing import Any, Final

from tollbar.devplane.embedded.strategies import keep
from tollbar.devplane.embedded.validation.pods import CONTAINER_LISTS
from tollbar.devplane.embedded.validation.texts import wrong
from tollbar.model import pods
from tollbar.model.fields import FieldError, forbidden
from tollbar.model.objects import Object, spec

_FIELDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_KEPT: Final = "existing toleration can not be modified except its tolerationSeconds"
_ONLY_ADDITIONS: Final = "only additions are allowed (no mutations or deletions)"
_TERMS: Final = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


def validate(new: Object, old: Object) -> list[FieldError]:
    """Both as they are stored, with all defaults."""
    after, before = deepcopy(spec(new)), spec(old)
    errors = _tolerations(after, before) + _gates(new, old)
    keep(after, before, "tolerations", "schedulingGates", "activeDeadlineSeconds")
    for member in CONTAINER_LISTS:
        for container, original in zip(after.get(member) or (), before.get(member) or (), strict=False):
            keep(container, original, "image")
    if pods.gate_names(old):
        errors += _selector(after, before) + _required(_terms_of(after), _terms_of(before))
        after, before = _without_node_affinity(after), _without_node_affinity(before)
    if after != before:
        errors.append(forbidden("spec", f"{_FIELDS}\n{_difference(after, before)}"))
    return errors


def _difference(after: Object, before: Object) -> str:
    changed = sorted(name for name in {*after, *before} if after.get(name) != before.get(name))
    return "\n".join(f"  {name}: {json.dumps(before.get(name))} -> {json.dumps(after.get(name))}" for name in changed)


def _without_seconds(toleration: Object) -> Object:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds"}


def _tolerations(after: Object, before: Object) -> list[FieldError]:
    there = [_without_seconds(each) for each in after.get("tolerations") or ()]
    if all(_without_seconds(each) in there for each in before.get("tolerations") or ()):
        return []
    return [forbidden("spec.tolerations", _KEPT)]


def _gates(new: Object, old: Object) -> list[FieldError]:
    had = pods.gate_names(old)
    return [
        forbidden(
            f"spec.schedulingGates[{index}].name", f"only deletion is allowed, but found new scheduling gate '{name}'"
        )
        for index, name in enumerate(pods.gate_names(new))
        if name not in had
    ]


def _selector(after: Object, before: Object) -> list[FieldError]:
    wanted = after.get("nodeSelector")
    grown = all((wanted or {}).get(key) == value for key, value in (before.get("nodeSelector") or {}).items())
    keep(after, before, "nodeSelector")
    detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
    return [] if grown else [wrong("spec.nodeSelector", wanted, detail)]


def _without_node_affinity(body: Object) -> Object:
    rest = {name: value for name, value in (body.get("affinity") or {}).items() if name != "nodeAffinity"}
    return {**body, "affinity": rest}


def _terms_of(body: Object) -> list[Object]:
    affinity = (body.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []


def _required(wanted: list[Object], had: list[Object]) -> list[FieldError]:
    if not had:
        return []
    if len(wanted) != len(had):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [wrong(_TERMS, [_term(each) for each in wanted], detail)]
    return [
        wrong(f"{_TERMS}[{index}]", _term(new), _ONLY_ADDITIONS)
        for index, (new, old) in enumerate(zip(wanted, had, strict=True))
        if not _narrower(new, old)
    ]


def _narrower(new: Object, old: Object) -> bool:
    """Whether a term got only more expressions.  An empty one matches nothing, and more would make it match."""
    pairs = [(new.get(member) or [], old.get(member) or []) for member in ("matchExpressions", "matchFields")]
    if not any(old for _, old in pairs):
        return not any(new for new, _ in pairs)
    return all(new[: len(old)] == old for new, old in pairs)


def _term(term: Object) -> Object:
    """A term as the API server quotes it: by the names of the Go fields."""
    expressions, fields = (term.get(member) for member in ("matchExpressions", "matchFields"))
    return {"MatchExpressions": _requirements(expressions), "MatchFields": _requirements(fields)}


def _requirements(given: Any) -> Any:
    return given and [{name.capitalize(): each.get(name) for name in ("key", "operator", "values")} for each in given]
