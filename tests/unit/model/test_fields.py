"""Field errors: the API server's texts, short and on one line whatever the user wrote."""

import pytest

from tollbar.model.fields import FieldError, duplicate, forbidden, invalid, required, too_long, too_many, unsupported

ERRORS = {
    "invalid": (invalid("spec.a", "x", "must be y"), 'spec.a: Invalid value: "x": must be y', "FieldValueInvalid"),
    "required": (required("spec.a"), "spec.a: Required value", "FieldValueRequired"),
    "required, and why": (required("spec.a", "because"), "spec.a: Required value: because", "FieldValueRequired"),
    "forbidden": (forbidden("spec.a", "no"), "spec.a: Forbidden: no", "FieldValueForbidden"),
    "duplicate": (duplicate("spec.a[1]", "x"), 'spec.a[1]: Duplicate value: "x"', "FieldValueDuplicate"),
    "too long": (too_long("spec.a", 63), "spec.a: Too long: may not be more than 63 bytes", "FieldValueTooLong"),
    "too many": (too_many("spec.a", 9, 8), "spec.a: Too many: 9: must have at most 8 items", "FieldValueTooMany"),
    "unsupported": (
        unsupported("spec.a", "x", ["y", "z"]),
        'spec.a: Unsupported value: "x": supported values: "y", "z"',
        "FieldValueNotSupported",
    ),
    "the object as a whole": (FieldError("", "Invalid value: 1: no"), "Invalid value: 1: no", "FieldValueInvalid"),
    "a long value is cut": (
        invalid("a", "x" * 1000, "no"),
        f'a: Invalid value: "{"x" * 79}...": no',
        "FieldValueInvalid",
    ),
    "a value of several lines stays on one": (
        invalid("a", "b\nc", "no"),
        r'a: Invalid value: "b\nc": no',
        "FieldValueInvalid",
    ),
    "what does not show is escaped": (
        invalid("a", "b\u202ec\u200b\x1b[31m\x85\U000e0001", "no"),
        r'a: Invalid value: "b\u202ec\u200b\u001b[31m\u0085\udb40\udc01": no',
        "FieldValueInvalid",
    ),
    "a value that is not JSON": (invalid("a", {1, 2}, "no"), 'a: Invalid value: "set": no', "FieldValueInvalid"),
}


@pytest.mark.parametrize(("error", "text", "cause"), ERRORS.values(), ids=ERRORS)
def test_texts(error: FieldError, text: str, cause: str) -> None:
    assert (str(error), error.cause) == (text, cause)
