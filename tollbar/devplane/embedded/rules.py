"""`x-kubernetes-validations`: CEL rules in schemas, over the object that is there after defaulting.

Called by `definitions` when the rest of the schema holds.  Rules that read `oldSelf` are transition rules: they hold
only where the value was there before, found again by its key in lists that are maps and in objects, never in other
lists.  Source: KEP-2876 and k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel.
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
"""How messages begin, by the reason that a rule gives."""
_NOT_CHECKED: Final = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete"
    " validation"
)
_BLOCKING: Final = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
ABSENT: Final = object()
"""What an object was before its creation."""


class _Rule(NamedTuple):
    program: cel.Program
    transition: bool


@lru_cache(maxsize=1024)
def compiled(expression: str) -> _Rule:
    """Raises CelError of kind COMPILE."""
    program = cel.engine().compile(expression, _ENV)
    return _Rule(program, any(path.partition(".")[0] == "oldSelf" for path in program.reads))


def unchecked(errors: list[FieldError]) -> list[FieldError]:
    """The line that says that rules were not looked at, when the schema is broken so that they may not be."""
    if all((error.reason or error.cause) not in _BLOCKING for error in errors):
        return []
    return [FieldError("<nil>", f"Invalid value: null: {_NOT_CHECKED}")]


def validate(schema: Object, new: Any, old: Any, path: str = "") -> list[FieldError]:
    """The rules that do not hold of a defaulted object."""
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
    """What the part was before, ABSENT when that cannot be said."""
    if isinstance(old, dict):
        return old.get(part.key, ABSENT)
    keys = schema.get("x-kubernetes-list-map-keys")
    if not keys or not isinstance(old, list) or not isinstance(part.value, dict):
        return ABSENT
    same = (each for each in old if all(each.get(key) == part.value.get(key) for key in keys))
    return next(same, ABSENT)
