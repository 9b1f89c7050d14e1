"""Kubernetes' named formats: format.<name>(), and validate(), whose errors have the API server's own texts."""

import re
from collections.abc import Callable
from datetime import date
from typing import Final

from tollbar.cel.core.limits import CostTracker
from tollbar.cel.core.values import ABSENT, NamedFormat, Optional
from tollbar.cel.library import urls
from tollbar.cel.library.functions import overload
from tollbar.cel.library.strings import go_quoted, special
from tollbar.model import names

_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_1035_RE: Final = re.compile(_1035)
_NOT_1035: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    f"and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_1035}')"
)
_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})", re.ASCII)
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def _characters(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The check with the older wording of the length limit, which these formats still have."""
    return lambda text: [problem.replace(" bytes", " characters") for problem in check(text)]


def _dns_1035(text: str) -> list[str]:
    is_long = len(text.encode(errors="replace")) > names.LABEL_MAX
    problems = [f"must be no more than {names.LABEL_MAX} bytes"] if is_long else []
    return problems if _1035_RE.fullmatch(text) else [*problems, _NOT_1035]


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The check of a prefix of a name, which may end with a dash; the character before that is not checked either."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        urls.read(text)
    except urls.NotUrl as error:
        return [f"parse {go_quoted(text)}: {error}"]
    return []


def _matching(valid: Callable[[str], object], problem: str) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [problem]


def _is_date(text: str) -> bool:
    form = _DATE.fullmatch(text)
    if form is None:
        return False
    year, month, day = map(int, form.groups())
    try:
        date(year or 400, month, day)  # Python's calendar has no year 0; both are leap years
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, separator, rest = text.lower().partition("t")
    clock = _CLOCK.fullmatch(rest.partition("t")[0])
    if not separator or clock is None or not _is_date(day):
        return False
    return clock[1] <= "23" and clock[2] <= "59" and clock[3] <= "59"


_LABEL: Final = _characters(names.dns_label)
_SUBDOMAIN: Final = _characters(names.dns_subdomain)
_LABEL_1035: Final = _characters(_dns_1035)
FORMATS: Final[dict[str, Callable[[str], list[str]]]] = {
    "dns1123Label": _LABEL,
    "dns1123Subdomain": _SUBDOMAIN,
    "dns1035Label": _LABEL_1035,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": _prefix(_LABEL),
    "dns1123SubdomainPrefix": _prefix(_SUBDOMAIN),
    "dns1035LabelPrefix": _prefix(_LABEL_1035),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _matching(_UUID.fullmatch, "does not match the UUID format"),
    "byte": _matching(_BASE64.fullmatch, "invalid base64"),
    "date": _matching(_is_date, "invalid date"),
    "datetime": _matching(_is_datetime, "invalid datetime"),
}
"""The check of each format: it returns the problems of a text."""
_FORMAT_STEPS: Final = 300
_CHARACTER_STEPS: Final = 2
_ESCAPED_STEPS: Final = 60
"""For a character that is, or has to be, escaped."""
_LONGEST: Final = 2048
"""Characters of the longest problems of a text, apart from the text itself."""


def validate(cost: CostTracker, format_: NamedFormat, text: str) -> Optional:
    escapes = special(text) + text.count("%")
    cost.charge(_FORMAT_STEPS + _CHARACTER_STEPS * len(text) + _ESCAPED_STEPS * escapes)
    cost.new_string(_LONGEST + 10 * len(text))
    cost.new_list(3)
    problems = FORMATS[format_.name](text)
    return Optional(problems) if problems else ABSENT


def _named(_: CostTracker, name: str) -> Optional:
    return Optional(NamedFormat(name)) if name in FORMATS else ABSENT


def _constant(name: str) -> Callable[[CostTracker], NamedFormat]:
    return lambda _: NamedFormat(name)


OVERLOADS: Final = (
    overload("format.validate(string) -> optional_type<list<string>>", validate),
    overload(".format.named(string) -> optional_type<format>", _named),
    *(overload(f".format.{name}() -> format", _constant(name)) for name in FORMATS),
)
