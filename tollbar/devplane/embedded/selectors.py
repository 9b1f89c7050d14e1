"""Label and field selectors as list and watch requests write them, made into a predicate over stored entries.

Called by the server.  Source: k8s.io/apimachinery pkg/labels and pkg/fields.  Raises Refused (400) with their texts.
"""

import re
from collections.abc import Callable
from typing import Final, TypeAlias

from tollbar.devplane.embedded.errors import bad_request
from tollbar.devplane.embedded.kinds import Kind
from tollbar.devplane.embedded.storage import Entry
from tollbar.model import names
from tollbar.model.objects import Key

Predicate: TypeAlias = Callable[[Key, Entry], bool]

_TOKEN: Final = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_END: Final = ""


def everything(_key: Key, _entry: Entry) -> bool:
    return True


def parse(kind: Kind, labels: str, fields: str) -> Predicate:
    """What an object has to be to be listed."""
    tests = [*_Labels(labels).requirements(), *_fields(kind, fields)]
    if not tests:
        return everything
    if len(tests) == 1:
        return tests[0]
    return lambda key, entry: all(test(key, entry) for test in tests)


class _Labels:
    """A recursive descent over `key`, `!key`, `key=value`, `key in (a,b)` and so on."""

    def __init__(self, text: str) -> None:
        self._tokens = [match[1] for match in _TOKEN.finditer(text)] + [_END]

    def requirements(self) -> list[Predicate]:
        found: list[Predicate] = []
        while self._tokens[0] != _END:
            found.append(self._requirement())
            if self._tokens[0] not in (",", _END):
                raise _unparsable(self._tokens[0], "',' or 'end of string'")
            if self._tokens[0] == "," and self._tokens[1] == _END:
                raise _unparsable("", "identifier after ','")
            if self._tokens[0] == ",":
                self._tokens.pop(0)
        return found

    def _requirement(self) -> Predicate:
        negated = self._tokens[0] == "!"
        if negated:
            self._tokens.pop(0)
        if names.qualified_name(self._tokens[0]):
            raise _unparsable(self._tokens[0], "identifier")
        if negated:
            key = self._tokens.pop(0)
            return lambda _, entry: key not in entry.labels
        key, operator = self._tokens.pop(0), self._tokens[0]
        if operator in (",", _END):
            return lambda _, entry: key in entry.labels
        self._tokens.pop(0)
        if operator in ("=", "==", "!="):
            value = self._tokens.pop(0) if self._tokens[0] not in (",", _END) else ""
            if operator == "!=":
                return lambda _, entry: entry.labels.get(key) != value
            return lambda _, entry: entry.labels.get(key) == value
        if operator in ("in", "notin"):
            values = self._values()
            if operator == "in":
                return lambda _, entry: entry.labels.get(key) in values
            return lambda _, entry: entry.labels.get(key) not in values
        raise _unparsable(operator, "in, notin, =, ==, !=, gt, lt")

    def _values(self) -> frozenset[str]:
        if self._tokens[0] != "(":
            raise _unparsable(self._tokens[0], "'('")
        end = self._tokens.index(")") if ")" in self._tokens else None
        if end is None:
            raise _unparsable("", "',' or ')'")
        values = frozenset(each for each in self._tokens[1:end] if each != ",")
        del self._tokens[: end + 1]
        return values


def _unparsable(found: str, expected: str) -> Exception:
    return bad_request(f"unable to parse requirement: found '{found}' expected: {expected}")


def _fields(kind: Kind, text: str) -> list[Predicate]:
    return [_field(kind, term, text) for term in text.split(",") if term]


def _field(kind: Kind, term: str, text: str) -> Predicate:
    match = re.fullmatch(r"(.*?)(!=|==|=)(.*)", term)
    if match is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
    label, operator, value = match.groups()
    wanted = operator != "!="
    if label == "metadata.name":
        return lambda key, _: (key.name == value) is wanted
    if label == "metadata.namespace":
        return lambda key, _: (key.namespace == value) is wanted
    path = kind.selectable.get(label)
    if path is None:
        if kind.selectable or kind.custom:
            raise bad_request(f"field label not supported: {label}")
        raise bad_request(f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    return lambda _, entry: (entry.field(path) == value) is wanted
