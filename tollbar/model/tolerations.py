"""Tolerations of Pods and of claims: which taints they tolerate, when two are the same, what the API server refuses.

A patch that adds a toleration which the API server refuses would refuse the user's Pod, so the tolerations of rules
pass exactly its checks first.  The numeric operators Lt and Gt (KEP-5471) count as unknown everywhere: they need a
feature gate that is off by default.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from tollbar.model import names
from tollbar.model.fields import FieldError, invalid, unsupported
from tollbar.model.objects import Object

OPERATORS: Final = ("Equal", "Exists")
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_KEEPING_AWAY: Final = ("NoSchedule", "NoExecute")
_RESERVED: Final = ("node.kubernetes.io/", "node-role.kubernetes.io/")

EXISTS_FOR_ALL: Final = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
EXISTS_HAS_NO_VALUE: Final = "value must be empty when `operator` is 'Exists'"
SECONDS_NEED_NO_EXECUTE: Final = "effect must be 'NoExecute' when `tolerationSeconds` is set"

Identity: TypeAlias = tuple[str, str, str, str, int | None]


def identity(toleration: Object) -> Identity:
    """(key, operator, value, effect, tolerationSeconds), with the API's defaults for absent fields.

    Two tolerations with the same identity tolerate the same taints for the same time, even where one leaves out a field
    that the other sets to its default.
    """
    return (
        toleration.get("key") or "",
        toleration.get("operator") or "Equal",
        toleration.get("value") or "",
        toleration.get("effect") or "",
        toleration.get("tolerationSeconds"),
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    """Whether a toleration tolerates a taint, of a Node or of a device.

    An empty effect means every effect, an empty key every key, and Exists every value.  Source: ToleratesTaint in
    k8s.io/api/core/v1 and in k8s.io/dynamic-resource-allocation/resourceclaim.
    """
    key, operator, value, effect, _ = identity(toleration)
    if effect not in ("", taint.get("effect")) or key not in ("", taint.get("key")):
        return False
    return operator == "Exists" or (operator == "Equal" and value == (taint.get("value") or ""))


def untolerated(taints: Iterable[Object], tolerations: Iterable[Object]) -> Object | None:
    """The first taint that keeps a new Pod away: NoSchedule or NoExecute, and no toleration tolerates it.

    Source: FindMatchingUntoleratedTaint in k8s.io/component-helpers, as kube-scheduler's TaintToleration calls it.
    """
    given = list(tolerations)
    keeping_away = (taint for taint in taints if taint.get("effect") in _KEEPING_AWAY)
    return next((taint for taint in keeping_away if not any(tolerates(each, taint) for each in given)), None)


def text(toleration: Object) -> str:
    """The toleration as `kubectl describe` prints it: `a.dev/gpu:NoSchedule op=Exists`, `a=b:NoExecute for 30s`."""
    key, operator, value, effect, seconds = identity(toleration)
    taint = f"{key}{f'={value}' if value else ''}{f':{effect}' if effect else ''}"
    exists = "op=Exists" if operator == "Exists" else ""
    return " ".join(filter(None, (taint, exists, "" if seconds is None else f"for {seconds}s")))


def is_reserved(key: str) -> bool:
    """True for the keys of Kubernetes' own node taints, and for the empty key, which tolerates every taint."""
    return not key or key.startswith(_RESERVED)


def validate(toleration: Any, *, path: str) -> list[FieldError]:
    """What the API server would refuse in this toleration, with its texts; `path` is the entry's own path."""
    if not isinstance(toleration, dict):
        return [invalid(path, toleration, "must be an object")]
    wrong = _wrong_types(toleration, path)
    if wrong:
        return wrong
    key, operator, value, effect, seconds = identity(toleration)
    errors = [invalid(f"{path}.key", key, problem) for problem in names.qualified_name(key)] if key else []
    if not key and operator != "Exists":
        errors.append(invalid(f"{path}.operator", toleration.get("operator") or "", EXISTS_FOR_ALL))
    if seconds is not None and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", effect, SECONDS_NEED_NO_EXECUTE))
    errors += _operator_errors(operator, value, path)
    if effect and effect not in EFFECTS:
        errors.append(unsupported(f"{path}.effect", effect, EFFECTS))
    return errors


def _operator_errors(operator: str, value: str, path: str) -> list[FieldError]:
    # The API server reports a bad value under `operator`, and so do we.
    if operator == "Equal":
        problems = names.label_value(value)
        return [invalid(f"{path}.operator", value, ";".join(problems))] if problems else []
    if operator == "Exists":
        return [invalid(f"{path}.operator", value, EXISTS_HAS_NO_VALUE)] if value else []
    return [unsupported(f"{path}.operator", operator, OPERATORS)]


def _wrong_types(toleration: Object, path: str) -> list[FieldError]:
    errors = []
    for name in ("key", "operator", "value", "effect"):
        given = toleration.get(name)
        if given is not None and not isinstance(given, str):
            errors.append(invalid(f"{path}.{name}", given, "must be a string"))
    seconds = toleration.get("tolerationSeconds")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int)):
        errors.append(invalid(f"{path}.tolerationSeconds", seconds, "must be an integer"))
    return errors
