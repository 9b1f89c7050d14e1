"""Label and field selectors of list and watch requests, parsed into a predicate over stored entries.

Source: k8s.io/apimachinery/pkg/labels and pkg/fields.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tollbar.devplane.embedded.errors import bad_request
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.storage import Entry
from tollbar.model import names, selectors
from tollbar.model.objects import Key, Object

Predicate: TypeAlias = Callable[[Key, Entry], bool]

_REQUIREMENT: Final = re.compile(
    r"\s*(?P<no>!?)\s*(?P<key>[^\s=!,()<>]+)\s*"
    r"(?:(?P<equal>==|=|!=)\s*(?P<value>[^\s=!,()<>]*)|\b(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?\s*(?P<more>,|$)"
)
_NO_LIST: Final = re.compile(r"\s*\S+\s+(?:in|notin)\s+([^\s(,]+)")


def everything(_key: Key, _entry: Entry) -> bool:
    return True


def parse(kind: Kind, labels: str, fields: str) -> Predicate:
    """The predicate that both selectors make together.  Raises Refused (400)."""
    tests = [_field(kind, term, fields) for term in fields.split(",") if term]
    if labels.strip():
        selector: Object = {"matchExpressions": list(_requirements(labels))}
        tests.append(lambda _, entry: selectors.matches(selector, entry.labels))
    if not tests:
        return everything
    return tests[0] if len(tests) == 1 else lambda key, entry: all(test(key, entry) for test in tests)


def _requirements(text: str) -> Iterator[Object]:
    """`key`, `!key`, `key=value`, `key in (a,b)` and so on, as requirements of a metav1.LabelSelector."""
    more: str = ","
    while more:
        match = _REQUIREMENT.match(text)
        if match is None or names.qualified_name(match["key"]) or (match["no"] and (match["equal"] or match["set"])):
            found = _NO_LIST.match(text)
            why = f"found '{found[1]}' expected: '('" if found else f"found '{text.strip()}' expected: a requirement"
            raise bad_request(f"unable to parse requirement: {why}")
        if match["equal"] or match["set"]:
            operator = "NotIn" if match["equal"] == "!=" or match["set"] == "notin" else "In"
            values = [each.strip() for each in (match["values"] or match["value"] or "").split(",")]
            yield {"key": match["key"], "operator": operator, "values": values}
        else:
            yield {"key": match["key"], "operator": "DoesNotExist" if match["no"] else "Exists"}
        text, more = text[match.end() :], match["more"]


def _field(kind: Kind, term: str, text: str) -> Predicate:
    match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    label, operator, value = match.groups()
    wanted = operator != "!="
    if label in ("metadata.name", "metadata.namespace"):
        member = label.removeprefix("metadata.")
        return lambda key, _: (getattr(key, member) == value) is wanted
    path = kind.selectable.get(label)
    if path is None:
        if kind.selectable or kind.custom:
            raise bad_request(f"field label not supported: {label}")
        raise bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    return lambda _, entry: (entry.field(path) == value) is wanted
