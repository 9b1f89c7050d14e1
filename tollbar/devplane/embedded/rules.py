"""`x-kubernetes-validations`: CEL validation rules of schemas, evaluated on the defaulted object.

Rules that read `oldSelf` are transition rules: they are checked only where there is an old value.  In objects and in
lists of type map it is found by its key; members of other lists have none.  Source: KEP-2876 and
k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

from tollbar import cel
from tollbar.devplane.embedded.schemas import Part, children
from tollbar.devplane.embedded.validation.texts import shown
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object

_ENV: Final = cel.Env((("self", "dyn"), ("oldSelf", "dyn")))
_KINDS: Final = {
    "FieldValueForbidden": "Forbidden: ",
    "FieldValueRequired": "Required value: ",
    "FieldValueDuplicate": "Duplicate value: {}",
}
"""How messages begin, by the rule's `reason`."""
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)
_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
ABSENT: Final = object()
"""The old value where there is none."""


class _Rule(NamedTuple):
    program: cel.Program
    transition: bool


@lru_cache(maxsize=1024)
def compiled(expression: str) -> _Rule:
    """Raises CelError of kind COMPILE."""
    program = cel.engine().compile(expression, _ENV)
    return _Rule(program, any(path.partition(".")[0] == "oldSelf" for path in program.reads))


def unchecked(errors: list[FieldError]) -> list[FieldError]:
    """The error that says that the rules were not evaluated, if there are schema errors that prevent it."""
    if all((error.reason or error.cause) not in _BLOCKING for error in errors):
        return []
    return [FieldError("<nil>", f"Invalid value: null: {_NOT_CHECKED}")]


def validate(schema: Object, new: Any, old: Any, path: str = "") -> list[FieldError]:
    """The rules that a defaulted object violates."""
    errors = []
    for rule in schema.get("x-kubernetes-validations") or ():
        errors += _check(rule, new, old, path)
    for part in children(schema, new, path):
        errors += validate(part.schema, part.value, _counterpart(schema, part, old), part.path)
    return errors


def _check(rule: Object, new: Any, old: Any, path: str) -> list[FieldError]:
    program, transition = compiled(rule["rule"])
    if transition and old is ABSENT:
        return []
    answer = program.evaluate({"self": new, "oldSelf": old} if transition else {"self": new})
    if answer is True:
        return []
    field = path + rule.get("fieldPath", "") if path else rule.get("fieldPath", "").removeprefix(".")
    message = rule.get("message") or f"failed rule: {rule['rule']}"
    if isinstance(answer, cel.CelError):
        message = f"{message}: rule evaluation error: {answer}"
    kind = _KINDS.get(rule.get("reason", ""), "Invalid value: {}")
    quoted = "" if isinstance(new, dict | list) else f"{shown(new)}: "
    return [FieldError(field, f"{kind.format(quoted)}{message}")]


def _counterpart(schema: Object, part: Part, old: Any) -> Any:
    """The old value of the part; ABSENT when there is none or it cannot be identified."""
    if isinstance(old, dict):
        return old.get(part.key, ABSENT)
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part.value, dict):
        return ABSENT
    same = (each for each in old if all(each.get(key) == part.value.get(key) for key in keys))
    return next(same, ABSENT)
