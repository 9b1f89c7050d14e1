"""Syntax of the names that the Kubernetes API accepts, with the API server's own texts.

Every validating function takes a string and returns what is wrong with it, an empty list when nothing is.  Lengths
count UTF-8 bytes, as the API server does.  Source: k8s.io/apimachinery/pkg/api/validate/content.
"""

import re
from collections.abc import Mapping
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"
_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"

_LABEL_RE: Final = re.compile(_LABEL)
_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)
_KEY_RE: Final = re.compile(_KEY)
_VALUE_RE: Final = re.compile(_VALUE)
_IDENTIFIER_RE: Final = re.compile(_IDENTIFIER)

LABEL_MAX: Final = 63
SUBDOMAIN_MAX: Final = 253
ANNOTATIONS_MAX: Final = 256 * 1024
"""The most bytes of all keys and values of an object's annotations (TotalAnnotationSizeLimitB)."""
GENERATED_CHARACTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""Those of what the API server adds to a generateName (k8s.io/apimachinery/pkg/util/rand)."""
_GENERATE_NAME_MAX: Final = 57
"""The most bytes of a claim's generateName: the API server cuts it at 58 and adds five."""

_NOT_A_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    f"with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_NOT_A_SUBDOMAIN: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NOT_A_KEY: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_PREFIX_HINT: Final = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
_NOT_A_VALUE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_NOT_AN_IDENTIFIER: Final = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
    "characters or '_' "
    f"(e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '{_IDENTIFIER}')"
)


def dns_label(value: str) -> list[str]:
    """RFC 1123 label: names of namespaces and of requests in a claim."""
    return _problems(
        value, LABEL_MAX, _LABEL_RE, "must not contain dots" if _SUBDOMAIN_RE.fullmatch(value) else _NOT_A_LABEL
    )


def dns_subdomain(value: str) -> list[str]:
    """RFC 1123 subdomain: names of most objects, and of DRA drivers."""
    return _problems(value, SUBDOMAIN_MAX, _SUBDOMAIN_RE, _NOT_A_SUBDOMAIN)


def qualified_name(value: str) -> list[str]:
    """Optional DNS subdomain and slash, then a name: label and taint keys, gates, extended resources."""
    match value.split("/"):
        case [name]:
            problems = []
        case ["", name]:
            problems = ["prefix part must be non-empty"]
        case [prefix, name]:
            problems = [f"prefix part {problem}" for problem in dns_subdomain(prefix)]
        case _:
            return [f"a valid label key {_NOT_A_KEY} {_PREFIX_HINT}"]
    if not name:
        problems.append("name part must be non-empty")
    return problems + [f"name part {problem}" for problem in _problems(name, LABEL_MAX, _KEY_RE, _NOT_A_KEY)]


def label_value(value: str) -> list[str]:
    """At most 63 characters; values of labels, taints and tolerations."""
    return _problems(value, LABEL_MAX, _VALUE_RE, _NOT_A_VALUE)


def c_identifier(value: str) -> list[str]:
    """The last part of a device attribute's or capacity's name."""
    return [] if _IDENTIFIER_RE.fullmatch(value) else [_NOT_AN_IDENTIFIER]


def generate_name(owner: str, reference: str) -> str:
    """`metadata.generateName` of the claim that is made for one reference (a DNS label) of a Pod or PodGroup.

    Both are shortened in proportion when they are too long, as kube-controller-manager does it; the owner's part then
    keeps at least one character and ends with a letter or digit, without which no name could ever be generated.
    """
    whole = f"{owner}-{reference}-"
    if len(whole) <= _GENERATE_NAME_MAX:
        return whole
    kept, named = (text[: len(text) * _GENERATE_NAME_MAX // len(whole)] for text in (owner, reference))
    return f"{kept.rstrip('.-') or owner[0]}-{named}"


def annotations_size(annotations: Mapping[str, str]) -> int:
    """Bytes of all keys and values, of which there may be `ANNOTATIONS_MAX`."""
    return sum(_size(key) + _size(value) for key, value in annotations.items())


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _problems(value: str, limit: int, form: re.Pattern[str], otherwise: str) -> list[str]:
    problems = []
    if _size(value) > limit:
        problems.append(f"must be no more than {limit} bytes")
    if not form.fullmatch(value):
        problems.append(otherwise)
    return problems
