"""Kubernetes' named formats, with the errors of the API server."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.cel.core.values import ABSENT, NamedFormat, Optional

LONG = "a" * 64
NOT_A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NOT_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
DATETIME = "2024-02-29T01:02:03"

VALIDATED: dict[str, tuple[str, str, list[str] | None]] = {
    "a label": ("dns1123Label", "my-name", None),
    "a label with capitals": ("dns1123Label", "My", [NOT_A_LABEL]),
    "a label with dots": ("dns1123Label", "a.b", ["must not contain dots"]),
    "a long label": ("dns1123Label", LONG, ["must be no more than 63 characters"]),
    "a long label that is none": ("dns1123Label", f"{LONG}_", ["must be no more than 63 characters", NOT_A_LABEL]),
    "a subdomain": ("dns1123Subdomain", "a.b-c", None),
    "a long subdomain": ("dns1123Subdomain", "a" * 254, ["must be no more than 253 characters"]),
    "a label of the older kind": ("dns1035Label", "a1", None),
    "a label of the older kind with a digit first": ("dns1035Label", "1a", [NOT_1035]),
    "a long label of the older kind": ("dns1035Label", LONG, ["must be no more than 63 characters"]),
    "a prefix ends with a dash": ("dns1123LabelPrefix", "abc-", None),
    "a dash is no prefix": ("dns1123LabelPrefix", "-", [NOT_A_LABEL]),
    "the character before the dash is not looked at": ("dns1123SubdomainPrefix", "a.-", None),
    "a prefix of the older kind": ("dns1035LabelPrefix", "1-", None),
    "a qualified name": ("qualifiedName", "a.b/C_d", None),
    "a qualified name without prefix": ("qualifiedName", "/a", ["prefix part must be non-empty"]),
    "a long qualified name": ("qualifiedName", LONG, ["name part must be no more than 63 bytes"]),
    "a label value": ("labelValue", "", None),
    "a long label value": ("labelValue", LONG, ["must be no more than 63 bytes"]),
    "a URI": ("uri", "http://a/b", None),
    "no URI": ("uri", 'a"b', [r'parse "a\"b": invalid URI for request']),
    "an empty URI": ("uri", "", ['parse "": empty url']),
    "a URI without scheme": ("uri", ":a", ['parse ":a": missing protocol scheme']),
    "a URI with a space in its host": ("uri", "http://a b", ['parse "http://a b": invalid character " " in host name']),
    "a URI with a wrong port": ("uri", "http://a:b", ['parse "http://a:b": invalid port ":b" after host']),
    "a URI with a wrong escape": ("uri", "http://a/%4", ['parse "http://a/%4": invalid URL escape "%4"']),
    "a URI with an escaped host": ("uri", "http://%41", ['parse "http://%41": invalid URL escape "%41"']),
    "a URI with an open bracket": ("uri", "http://[::1", ["parse \"http://[::1\": missing ']' in host"]),
    "a URI with IPv4 in brackets": ("uri", "http://[1.2.3.4]", ['parse "http://[1.2.3.4]": invalid IP-literal']),
    "a URI with a bracket in its host": ("uri", "http://a[b]/", ['parse "http://a[b]/": invalid IP-literal']),
    "a URI with wrong user information": ("uri", "http://u{@h", ['parse "http://u{@h": net/url: invalid userinfo']),
    "a URI with a control character": (
        "uri",
        "http://\u00a0\x01",
        [r'parse "http://\u00a0\x01": net/url: invalid control character in URL'],
    ),
    "a UUID": ("uuid", "123e4567-e89b-12d3-a456-426614174000", None),
    "a UUID without dashes": ("uuid", "123E4567e89b12d3a456426614174000", None),
    "no UUID": ("uuid", "123e4567", ["does not match the UUID format"]),
    "base64": ("byte", "aGVsbG8=", None),
    "no base64": ("byte", "aGVsbG8", ["invalid base64"]),
    "nothing is no base64": ("byte", "", ["invalid base64"]),
    "a date": ("date", "2024-02-29", None),
    "a date of year 0": ("date", "0000-02-29", None),
    "a day that does not exist": ("date", "2023-02-29", ["invalid date"]),
    "a month of one digit": ("date", "2024-2-09", ["invalid date"]),
    "a time": ("datetime", f"{DATETIME}.5Z", None),
    "a time with small letters": ("datetime", f"{DATETIME.lower()}z", None),
    "any separator before the fraction": ("datetime", f"{DATETIME}X9+99:99", None),
    "a time with more behind it": ("datetime", f"{DATETIME}zTq", None),
    "a time without zone": ("datetime", DATETIME, ["invalid datetime"]),
    "a time at hour 24": ("datetime", "2024-02-29T24:00:00Z", ["invalid datetime"]),
    "a time on no day": ("datetime", "2024-02-30T00:00:00Z", ["invalid datetime"]),
    "a day alone": ("datetime", "2024-02-29", ["invalid datetime"]),
}


@pytest.mark.parametrize(("name", "text", "want"), VALIDATED.values(), ids=VALIDATED)
def test_validate_returns_these_problems(
    value: Callable[..., Any], name: str, text: str, want: list[str] | None
) -> None:
    assert value(f"format.{name}().validate(x)", x=text) == (ABSENT if want is None else Optional(want))


TRUE = {
    "a format by name": 'format.named("uuid").value() == format.uuid()',
    "no format of that name": 'format.named("email") == optional.none()',
    "formats differ": "format.uuid() != format.date()",
    "a problem in a message": 'format.uuid().validate("x").orValue([]).join() == "does not match the UUID format"',
}


@pytest.mark.parametrize("source", TRUE.values(), ids=TRUE)
def test_the_expression_is_true(answer: Callable[..., Any], source: str) -> None:
    assert answer(source) is True


def test_the_value_of_a_format(value: Callable[..., Any]) -> None:
    assert value("format.dns1123Label()") == NamedFormat("dns1123Label")
