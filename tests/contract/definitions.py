"""CustomResourceDefinitions of the suite's own, and how to install one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from contract.api import Api, until
from contract.objects import WIDGETS

from tollbar.model.objects import Object
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

_SPEC: Object = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "color": {"type": "string", "enum": ["red", "blue"]},
        "note": {"type": "string", "maxLength": 5, "pattern": "^[a-z]*$", "nullable": True},
        "parts": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            },
        },
        "tags": {"type": "array", "items": {"type": "string"}},
        "words": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.color) || self.color != 'red' || self.size < 10", "message": "red is small"},
        {
            "rule": "has(self.color) == has(oldSelf.color)",
            "message": "color stays",
            "fieldPath": ".color",
            "reason": "FieldValueForbidden",
        },
    ],
}
_STATUS: Object = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}


def definition(res: Resource = WIDGETS, **version: Any) -> Object:
    """The CRD of a kind whose plural is its singular and an s; `version` replaces parts of its only version."""
    schema = {"type": "object", "properties": {"spec": _SPEC, "status": _STATUS}}
    served = {
        "name": res.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "selectableFields": [{"jsonPath": ".spec.color"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase", "description": "What it does."},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        ],
        **version,
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": f"{res.plural}.{res.group}"},
        "spec": {
            "group": res.group,
            "scope": "Namespaced" if res.namespaced else "Cluster",
            "names": {
                "plural": res.plural,
                "singular": res.plural[:-1],
                "kind": res.kind,
                "shortNames": [res.plural[:3]],
            },
            "versions": [served],
        },
    }


@contextmanager
def established(api: Api, *crds: Object) -> Iterator[None]:
    """Their objects are served and their kinds found inside the block; afterwards what was not there before is gone.

    Parts of the API server follow a definition, each a moment after it is written or deleted: each of them is asked.
    """
    made: list[Object] = []
    try:
        for crd in crds:
            answer = api.request("POST", CUSTOM_RESOURCE_DEFINITIONS.path(), crd)
            assert answer.code in (201, 409), answer
            if answer.code == 201:
                made.append(crd)
        for crd in crds:
            _await(_is_served, api, crd, "is served")
        yield
    finally:
        for crd in made:
            api.request("DELETE", _own_path(crd))
        for crd in made:
            _await(_is_gone, api, crd, "is gone")


def _await(holds: Callable[[Api, Object], bool], api: Api, crd: Object, what: str) -> None:
    until(lambda: holds(api, crd), f"{crd['metadata']['name']} {what}")


def _is_served(api: Api, crd: Object) -> bool:
    # It says so only once an earlier definition of its name is served no more: a list alone may still be of that one.
    conditions = api.request("GET", _own_path(crd))["status.conditions"] or ()
    return (
        ("Established", "True") in [(each["type"], each["status"]) for each in conditions]
        and api.request("GET", path_of(crd)).code == 200
        and _is_found(api, crd)
    )


def _is_gone(api: Api, crd: Object) -> bool:
    paths = (_own_path(crd), path_of(crd))
    return all(api.request("GET", path).code == 404 for path in paths) and not _is_found(api, crd)


def _is_found(api: Api, crd: Object) -> bool:
    """By who asks what its version of its group has."""
    listed = api.request("GET", path_of(crd).rpartition("/")[0])["resources"] or ()
    return crd["spec"]["names"]["plural"] in [each["name"] for each in listed]


def _own_path(crd: Object) -> str:
    return CUSTOM_RESOURCE_DEFINITIONS.path("", crd["metadata"]["name"])


def path_of(crd: Object) -> str:
    """Where the objects of a definition are listed."""
    spec = crd["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
