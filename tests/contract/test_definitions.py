"""Kinds that a CustomResourceDefinition makes: establishment, defaults, pruning, validation, status, columns."""

from collections.abc import Iterator
from typing import Any

import pytest
from contract.api import Answer, Api, Refusal, told, until
from contract.definitions import definition, established
from contract.objects import WIDGETS, add, made, put
from contract.tables import Rows, invalid, last, not_found, rows, wrong

from tollbar.model.objects import Object
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from tollbar.runtime.client import PatchType

NAMED = 'Widget.contract.example.com "w"'
NOT_CHECKED = "some validation rules were not checked because the object was invalid"
PARTS = Resource("other.example.com", "v1", "parts", "Part", namespaced=False)


@pytest.fixture(scope="module", autouse=True)
def widgets(home: Api) -> Iterator[None]:
    with established(home, definition()):
        yield


def widget(metadata: Object | None = None, status: Object | None = None, **spec: Any) -> Object:
    fields: Object = {"metadata": metadata or {}, "spec": spec}
    return made(WIDGETS, "w", **fields, **({"status": status} if status else {}))


def conditions(answer: Answer) -> dict[str, str]:
    return {each["type"]: each["status"] for each in answer["status.conditions"]}


def crd(api: Api) -> Answer:
    return api.get(CUSTOM_RESOURCE_DEFINITIONS, "widgets.contract.example.com").accepted()


def preferred(api: Api) -> list[str]:
    """Of the group's versions; the list of groups is the last to learn of a definition."""
    groups = api.request("GET", "/apis")["groups"]
    return [each["preferredVersion"]["groupVersion"] for each in groups if each["name"] == WIDGETS.group]


def come_and_gone(api: Api) -> tuple[int, int, int]:
    """Before, while and after a definition is there."""
    before = api.page(PARTS).code
    with established(api, definition(PARTS)):
        during = api.page(PARTS).code
        api.request("POST", PARTS.path(), made(PARTS, "p", spec={})).accepted()
    return before, during, api.page(PARTS).code


def unstructured(api: Api) -> Any:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {}}}}
    return api.create(definition(PARTS, schema=schema, selectableFields=[])).refusal().causes


ESTABLISHMENT: Rows = {
    "it says that it is established": (
        lambda api: {key: conditions(crd(api))[key] for key in ("Established", "NamesAccepted")},
        {"Established": "True", "NamesAccepted": "True"},
    ),
    "it says which names were accepted": (
        lambda api: crd(api)["status.acceptedNames"],
        {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["wid"]},
    ),
    "its kind is found": (
        lambda api: [
            (each["name"], each["kind"], each["namespaced"], each.get("shortNames"))
            for each in api.request("GET", "/apis/contract.example.com/v1")["resources"]
        ],
        [("widgets", "Widget", True, ["wid"]), ("widgets/status", "Widget", True, None)],
    ),
    "its group is found": (
        lambda api: until(lambda: preferred(api), "the group is found"),
        ["contract.example.com/v1"],
    ),
    "without it there is no such path, and its objects go with it": (come_and_gone, (404, 200, 404)),
    "a version that it does not have": (
        lambda api: api.request("GET", "/apis/contract.example.com/v2/widgets").code,
        404,
    ),
    "a field without a type": (
        unstructured,
        (
            (
                "FieldValueRequired",
                "spec.validation.openAPIV3Schema.properties[spec].type",
                "Required value: must not be empty for specified object fields",
            ),
        ),
    ),
    "a name that is not plural and group": (
        lambda api: api.create({**definition(PARTS), "metadata": {"name": "else.other.example.com"}}).refusal().causes,
        (wrong("metadata.name", '"else.other.example.com"', 'must be spec.names.plural+"."+spec.group'),),
    ),
    "it is served although its list is empty": (
        lambda api: (found := api.page(WIDGETS)) and (found["kind"], found["items"]),
        ("WidgetList", []),
    ),
    "an object that is not there": (lambda api: api.get(WIDGETS, "w"), not_found('widgets.contract.example.com "w"')),
    "its items carry kind and version": (
        lambda api: last(
            api.create(widget()),
            (found := api.page(WIDGETS)["items.0"]) and (found["kind"], found["apiVersion"]),
        ),
        ("Widget", "contract.example.com/v1"),
    ),
}


@rows(ESTABLISHMENT)
def test_establishment(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def stored(api: Api, **spec: Any) -> Any:
    return api.create(widget(**spec)).accepted()["spec"]


CREATION: Rows = {
    "a default is filled in": (lambda api: stored(api), {"size": 3}),
    "a value stays": (lambda api: stored(api, size=4), {"size": 4}),
    "null where none may be is the default": (lambda api: stored(api, size=None), {"size": 3}),
    "null where it may be stays": (lambda api: stored(api, note=None), {"size": 3, "note": None}),
    "null without a default goes": (lambda api: stored(api, color=None), {"size": 3}),
    "a default in a list": (
        lambda api: stored(api, parts=[{"name": "a"}])["parts"],
        [{"name": "a", "count": 1}],
    ),
    "a default where there is no spec: none": (
        lambda api: api.create(made(WIDGETS, "w"))["spec"],
        None,
    ),
    "an unknown field is dropped with a warning": (
        lambda api: (answer := api.create(widget(sise=4))) and (answer["spec"], answer.warnings),
        ({"size": 3}, ('unknown field "spec.sise"',)),
    ),
    "an unknown field, Strict": (
        lambda api: api.create(widget(sise=4), fieldValidation="Strict"),
        Refusal(
            400,
            "BadRequest",
            'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.sise"',
        ),
    ),
    "an unknown field where anything goes": (
        lambda api: stored(api, anything={"a": [1]})["anything"],
        {"a": [1]},
    ),
    "an unknown field beside the spec": (
        lambda api: "more" in api.create({**widget(), "more": 1}).accepted().object,
        False,
    ),
    "a status is dropped": (lambda api: api.create(widget(status={"phase": "New"}))["status"], None),
    "the first generation is 1": (lambda api: api.create(widget())["metadata.generation"], 1),
}


@rows(CREATION)
def test_creation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def refused(api: Api, **spec: Any) -> list[tuple[str, str]]:
    """The causes (field, message), but for the line that says that the schema comes first."""
    answer = api.create(widget(**spec))
    return [(field, text) for _, field, text in answer.refusal().causes if NOT_CHECKED not in text]


def edited(api: Api, body: Any, kind: PatchType = PatchType.MERGE, **spec: Any) -> Any:
    api.create(widget(**spec)).accepted()
    return api.patch(WIDGETS, "w", body, kind)


VALIDATION: Rows = {
    "a text for a number": (
        lambda api: refused(api, size="big"),
        [("spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"')],
    ),
    "a number for a text": (
        lambda api: refused(api, color=3),
        [
            ("spec.color", 'Invalid value: "integer": spec.color in body must be of type string: "integer"'),
            ("spec.color", 'Unsupported value: 3: supported values: "red", "blue"'),
        ],
    ),
    "a fraction for a whole number": (
        lambda api: refused(api, size=1.5)[0],
        ("spec.size", 'Invalid value: "number": spec.size in body must be of type integer: "number"'),
    ),
    "too small": (
        lambda api: refused(api, size=0),
        [("spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1")],
    ),
    "not one of the values": (
        lambda api: refused(api, color="green"),
        [("spec.color", 'Unsupported value: "green": supported values: "red", "blue"')],
    ),
    "too long": (lambda api: refused(api, note="abcdef"), [("spec.note", "Too long: may not be more than 5 bytes")]),
    "not of the pattern": (
        lambda api: refused(api, note="A"),
        [("spec.note", "Invalid value: \"A\": spec.note in body should match '^[a-z]*$'")],
    ),
    "too many": (
        lambda api: refused(api, parts=[{"name": each} for each in "abc"]),
        [("spec.parts", "Too many: 3: must have at most 2 items")],
    ),
    "without what is required": (lambda api: refused(api, parts=[{}]), [("spec.parts[0].name", "Required value")]),
    "a key twice": (
        lambda api: refused(api, parts=[{"name": "a"}, {"name": "a"}]),
        [("spec.parts[1]", 'Duplicate value: {"name":"a"}')],
    ),
    "a member of a set twice": (
        lambda api: refused(api, words=["a", "a"]),
        [("spec.words[1]", 'Duplicate value: "a"')],
    ),
    "two mistakes at once": (
        lambda api: sorted(field for field, _ in refused(api, size=0, color="green")),
        ["spec.color", "spec.size"],
    ),
    "a rule": (
        lambda api: api.create(widget(color="red", size=10)),
        invalid(NAMED, wrong("spec", "", "red is small")),
    ),
    "a rule that holds after defaults": (lambda api: api.create(widget(color="red")), 201),
    "a rule about a change, at creation": (lambda api: api.create(widget(color="blue")), 201),
    "a rule about a change, at a change": (
        lambda api: edited(api, {"spec": {"color": None}}, color="blue"),
        invalid(NAMED, ("FieldValueForbidden", "spec.color", "Forbidden: color stays")),
    ),
    "rules are not looked at where the schema is not kept": (
        lambda api: [
            (reason, field, NOT_CHECKED in text)
            for reason, field, text in api.create(widget(color="red", size="big")).refusal().causes
        ],
        [("FieldValueTypeInvalid", "spec.size", False), ("FieldValueInvalid", "<nil>", True)],
    ),
    "a wrong status": (
        lambda api: last(
            api.create(widget()),
            api.patch(WIDGETS, "w", {"status": {"phase": 3}}, PatchType.MERGE, "status").refusal().causes[0][1],
        ),
        "status.phase",
    ),
}


@rows(VALIDATION)
def test_validation(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def status(api: Api, body: Object, **query: str) -> Answer:
    api.create(widget()).accepted()
    return api.patch(WIDGETS, "w", body, PatchType.MERGE, "status", **query)


def condition(kind: str, manager: str, value: str = "True") -> Any:
    body = made(WIDGETS, "w", status={"conditions": [{"type": kind, "status": value}]})
    return lambda api: api.patch(WIDGETS, "w", body, PatchType.APPLY, "status", fieldManager=manager)


def replaced(api: Api, version: bool) -> Answer:
    found = api.create(widget()).accepted().object
    meta = {key: value for key, value in found["metadata"].items() if version or key != "resourceVersion"}
    return api.replace({**found, "metadata": meta, "spec": {"size": 5}})


WRITES: Rows = {
    "generation counts changes of the spec": (
        lambda api: edited(api, {"spec": {"size": 4}})["metadata.generation"],
        2,
    ),
    "generation does not count labels": (
        lambda api: edited(api, {"metadata": {"labels": {"a": "b"}}})["metadata.generation"],
        1,
    ),
    "generation does not count the status": (
        lambda api: status(api, {"status": {"phase": "New"}})["metadata.generation"],
        1,
    ),
    "the status is written through its path": (
        lambda api: status(api, {"status": {"phase": "New"}})["status"],
        {"phase": "New"},
    ),
    "the status is not written through the object": (
        lambda api: edited(api, {"status": {"phase": "New"}})["status"],
        None,
    ),
    "the spec is not written through the status": (lambda api: status(api, {"spec": {"size": 4}})["spec"], {"size": 3}),
    "labels are not written through the status": (
        lambda api: status(api, {"metadata": {"labels": {"a": "b"}}})["metadata.labels"],
        None,
    ),
    "with the version": (lambda api: replaced(api, version=True), 200),
    "without a version": (
        lambda api: replaced(api, version=False),
        Refusal(
            422,
            "Invalid",
            'widgets.contract.example.com "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified'
            " for an update",
            (("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update"),),
        ),
    ),
    "a JSON Patch": (lambda api: edited(api, [put("/spec/size", 4)], PatchType.JSON)["spec.size"], 4),
    "a strategic merge patch": (
        lambda api: edited(api, {"spec": {"size": 4}}, PatchType.STRATEGIC),
        Refusal(
            415,
            "UnsupportedMediaType",
            "the body of the request was in an unknown format - accepted media types include:"
            " application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        ),
    ),
    "a patch may leave out what has a default": (
        lambda api: edited(api, {"spec": {"size": None}}, size=4)["spec"],
        {"size": 3},
    ),
    "applied: members of a list belong to who applied them": (
        lambda api: last(
            api.create(widget()),
            condition("A", "a")(api),
            [each["type"] for each in condition("B", "b")(api)["status.conditions"]],
        ),
        ["A", "B"],
    ),
    "applied: another's member": (
        lambda api: last(
            api.create(widget()),
            condition("A", "a")(api),
            condition("A", "b", "False")(api),
        ),
        Refusal(
            409,
            "Conflict",
            'Apply failed with 1 conflict: conflict with "a" with subresource "status":'
            ' .status.conditions[type="A"].status',
            (
                (
                    "FieldManagerConflict",
                    '.status.conditions[type="A"].status',
                    'conflict with "a" with subresource "status"',
                ),
            ),
        ),
    ),
    "applied: a plain list belongs to one": (
        lambda api: last(
            api.patch(WIDGETS, "w", widget(tags=["a"]), PatchType.APPLY, fieldManager="a"),
            api.patch(WIDGETS, "w", widget(tags=["b"]), PatchType.APPLY, fieldManager="b").refusal().causes,
        ),
        (("FieldManagerConflict", ".spec.tags", 'conflict with "a"'),),
    ),
    "nothing changes: no new version": (
        lambda api: last(
            api.create(widget()),
            api.patch(WIDGETS, "w", [add("/spec/size", 3)]).version == api.get(WIDGETS, "w").version,
        ),
        True,
    ),
}


@rows(WRITES)
def test_writes(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def three(api: Api, selector: str) -> list[str]:
    """Of three objects with one color, with another and with none, those that are found."""
    for name, spec in (("a", {"color": "red"}), ("b", {"color": "blue"}), ("c", {})):
        api.create(made(WIDGETS, name, spec=spec)).accepted()
    return api.names(WIDGETS, fieldSelector=selector)


def shown(api: Api) -> Answer:
    api.create(widget(color="red")).accepted()
    api.patch(WIDGETS, "w", {"status": {"phase": "New"}}, PatchType.MERGE, "status").accepted()
    return api.table(WIDGETS, "w").accepted()


VIEWS: Rows = {
    "a field that can be selected by": (lambda api: three(api, "spec.color=red"), ["a"]),
    "not this value, or none": (lambda api: three(api, "spec.color!=red"), ["b", "c"]),
    "a field that cannot": (
        lambda api: api.page(WIDGETS, fieldSelector="spec.size=3"),
        Refusal(400, "BadRequest", "field label not supported: spec.size"),
    ),
    "columns": (
        lambda api: [(each["name"], each["type"], each["priority"]) for each in shown(api)["columnDefinitions"]],
        [("Name", "string", 0), ("Size", "integer", 0), ("Phase", "string", 0), ("Color", "string", 1)],
    ),
    "cells": (lambda api: shown(api)["rows.0.cells"], ["w", 3, "New", "red"]),
    "a cell without a value": (
        lambda api: last(api.create(widget()), api.table(WIDGETS, "w")["rows.0.cells"]),
        ["w", 3, None, None],
    ),
}


@rows(VIEWS)
def test_views(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
