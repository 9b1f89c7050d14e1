"""Structural schemas: what is dropped, filled in and refused."""

from copy import deepcopy
from typing import Any

import pytest

from tollbar.devplane.embedded import rules, schemas
from tollbar.model.objects import Object

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def an_object(**properties: Any) -> Object:
    return {"type": "object", "properties": properties}


def a_list(items: Object, **more: Any) -> Object:
    return {"type": "array", "items": items, **more}


NESTED = an_object(spec=an_object(known=TEXT, parts=a_list(an_object(name=TEXT))))
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PRUNED: dict[str, tuple[Object, Object, tuple[Object, list[str]]]] = {
    "what is known stays": (NESTED, {"spec": {"known": "a"}}, ({"spec": {"known": "a"}}, [])),
    "what every object has stays": (
        NESTED,
        {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}},
        ({"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}}, []),
    ),
    "what every object has does not belong further down": (
        NESTED,
        {"spec": {"kind": "A"}},
        ({"spec": {}}, ["spec.kind"]),
    ),
    "an unknown field goes": (NESTED, {"spec": {"more": 1}, "else": 2}, ({"spec": {}}, ["else", "spec.more"])),
    "in a list, too": (
        NESTED,
        {"spec": {"parts": [{"name": "a"}, {"nam": "b"}]}},
        ({"spec": {"parts": [{"name": "a"}, {}]}}, ["spec.parts[1].nam"]),
    ),
    "a map's keys are anybody's, its values are not": (
        an_object(spec={"type": "object", "additionalProperties": an_object(a=TEXT)}),
        {"spec": {"x": {"a": "1", "b": "2"}}},
        ({"spec": {"x": {"a": "1"}}}, ["spec[x].b"]),
    ),
    "where anything goes, everything stays": (
        an_object(spec=FREE),
        {"spec": {"a": {"b": [1]}}},
        ({"spec": {"a": {"b": [1]}}}, []),
    ),
    "but what is described there": (
        an_object(spec={**FREE, "properties": {"a": an_object()}}),
        {"spec": {"a": {"b": 1}, "c": 2}},
        ({"spec": {"a": {}, "c": 2}}, ["spec.a.b"]),
    ),
    "a value of another type is left to validation": (NESTED, {"spec": "text"}, ({"spec": "text"}, [])),
}


@pytest.mark.parametrize(("schema", "given", "want"), PRUNED.values(), ids=PRUNED)
def test_pruning(schema: Object, given: Object, want: tuple[Object, list[str]]) -> None:
    obj = deepcopy(given)
    assert (obj, schemas.prune(schema, obj)) == want


DEFAULTED = an_object(
    size={**NUMBER, "default": 3},
    note={**TEXT, "nullable": True, "default": "n"},
    plain=TEXT,
    inner={**an_object(deep={**NUMBER, "default": 1}), "default": {}},
    bare=an_object(deep={**NUMBER, "default": 1}),
    parts=a_list(an_object(count={**NUMBER, "default": 1})),
    table={"type": "object", "additionalProperties": an_object(count={**NUMBER, "default": 1})},
)
BASE = {"size": 3, "note": "n", "inner": {"deep": 1}}
FILLED: dict[str, tuple[Object, Object]] = {
    "what is absent gets its default, and what that contains gets its own": ({}, BASE),
    "what is given stays": ({"size": 0, "note": ""}, {**BASE, "size": 0, "note": ""}),
    "null where none may be counts as absent": ({"size": None}, BASE),
    "null where it may be stays": ({"note": None}, {**BASE, "note": None}),
    "null without a default goes": ({"plain": None}, BASE),
    "below what is absent nothing is filled in": ({"bare": {}}, {**BASE, "bare": {"deep": 1}}),
    "members of lists": ({"parts": [{}, {"count": 2}]}, {**BASE, "parts": [{"count": 1}, {"count": 2}]}),
    "values of maps": ({"table": {"a": {}}}, {**BASE, "table": {"a": {"count": 1}}}),
}


@pytest.mark.parametrize(("given", "want"), FILLED.values(), ids=FILLED)
def test_defaults(given: Object, want: Object) -> None:
    once = deepcopy(given)
    schemas.fill(DEFAULTED, once)
    twice = deepcopy(once)
    schemas.fill(DEFAULTED, twice)
    assert (once, twice) == (want, want)


def test_a_default_is_not_shared() -> None:
    first: Object = {}
    schemas.fill(DEFAULTED, first)
    first["inner"]["deep"] = 9
    second: Object = {}
    schemas.fill(DEFAULTED, second)
    assert second == BASE


def type_error(found: str, wanted: str) -> list[tuple[str, str]]:
    return [("FieldValueTypeInvalid", f'f: Invalid value: "{found}": f in body must be of type {wanted}: "{found}"')]


REFUSED: dict[str, tuple[Object, Any, list[tuple[str, str]]]] = {
    "a string for a string": (TEXT, "a", []),
    "a number for a string": (TEXT, 1, type_error("integer", "string")),
    "a boolean for a number": (NUMBER, True, type_error("boolean", "integer")),
    "a whole number with a fraction part of zero": (NUMBER, 1.0, []),
    "a fraction": (NUMBER, 1.5, type_error("number", "integer")),
    "a whole number for a number": ({"type": "number"}, 1, []),
    "null": (TEXT, None, type_error("null", "string")),
    "null where it may be": ({**TEXT, "nullable": True}, None, []),
    "a list for an object": (an_object(), [], type_error("array", "object")),
    "a number or a text": ({"x-kubernetes-int-or-string": True}, "80%", []),
    "neither a number nor a text": (
        {"x-kubernetes-int-or-string": True},
        [],
        type_error("array", "integer,string"),
    ),
    "too great": (
        {**NUMBER, "maximum": 3},
        4,
        [("FieldValueInvalid", "f: Invalid value: 4: f in body should be less than or equal to 3")],
    ),
    "too few members": (
        {"type": "object", "additionalProperties": TEXT, "minProperties": 1},
        {},
        [("FieldValueInvalid", "f: Invalid value: 0: f in body should have at least 1 properties")],
    ),
    "too many members": (
        {"type": "object", "additionalProperties": TEXT, "maxProperties": 1},
        {"a": "1", "b": "2"},
        [("FieldValueTooMany", "f: Too many: 2: must have at most 1 items")],
    ),
    "a time": ({**TEXT, "format": "date-time"}, "2026-01-01T00:00:00Z", []),
    "no time": (
        {**TEXT, "format": "date-time"},
        "soon",
        [("FieldValueInvalid", 'f: Invalid value: "soon": f in body must be of type date-time: "soon"')],
    ),
    "a pattern matches anywhere unless it says otherwise": ({**TEXT, "pattern": "b"}, "abc", []),
    "a wrong value of a map": (
        {"type": "object", "additionalProperties": TEXT},
        {"a": 1},
        [
            (
                "FieldValueTypeInvalid",
                'f[a]: Invalid value: "integer": f[a] in body must be of type string: "integer"',
            )
        ],
    ),
    "keys of two fields, both equal": (
        a_list(
            an_object(a=TEXT, b=TEXT), **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a", "b"]}
        ),
        [{"a": "1", "b": "2"}, {"a": "1", "b": "3"}, {"a": "1", "b": "2"}],
        [("FieldValueDuplicate", 'f[2]: Duplicate value: {"a":"1","b":"2"}')],
    ),
    "a plain list may have anything twice": (a_list(TEXT), ["a", "a"], []),
}


@pytest.mark.parametrize(("schema", "given", "want"), REFUSED.values(), ids=REFUSED)
def test_validation(schema: Object, given: Any, want: list[tuple[str, str]]) -> None:
    errors = schemas.validate(schema, given, "f")
    assert [(each.reason or each.cause, str(each)) for each in errors] == want


GROWS = {"x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "it grows"}]}
KEYED = a_list(
    an_object(name=TEXT, size={**NUMBER, **GROWS}),
    **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
)
SHRUNK = [("FieldValueInvalid", "f[1].size", "Invalid value: 1: it grows")]
RULES: dict[str, tuple[Object, Any, Any, list[tuple[str, str, str]]]] = {
    "a rule that fails to evaluate does not hold": (
        {**an_object(), "x-kubernetes-validations": [{"rule": "self.a == 1", "message": "it is one"}]},
        {},
        {},
        [("FieldValueInvalid", "f", "Invalid value: it is one: rule evaluation error: 1:6: no such key: a")],
    ),
    "without a message the error shows the rule": (
        {**NUMBER, "x-kubernetes-validations": [{"rule": "self > 1"}]},
        1,
        1,
        [("FieldValueInvalid", "f", "Invalid value: 1: failed rule: self > 1")],
    ),
    "a member is compared with that of its key, wherever it was": (
        KEYED,
        [{"name": "b", "size": 3}, {"name": "a", "size": 1}],
        [{"name": "a", "size": 2}, {"name": "b", "size": 3}],
        SHRUNK,
    ),
    "a new member is compared with nothing": (KEYED, [{"name": "c", "size": 1}], [{"name": "a", "size": 2}], []),
    "members of a plain list are compared with nothing": (a_list({**NUMBER, **GROWS}), [1], [2], []),
    "a value of a map is compared with that of its key": (
        {"type": "object", "additionalProperties": {**NUMBER, **GROWS}},
        {"a.b": 1},
        {"a.b": 2},
        [("FieldValueInvalid", "f[a.b]", "Invalid value: 1: it grows")],
    ),
}


@pytest.mark.parametrize(("schema", "new", "old", "want"), RULES.values(), ids=RULES)
def test_rules(schema: Object, new: Any, old: Any, want: list[tuple[str, str, str]]) -> None:
    assert [(each.cause, each.field, each.message) for each in rules.validate(schema, new, old, "f")] == want
