"""CustomResourceDefinitions of the suite's own, and how to install one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from contract.api import Api, until
from contract.objects import WIDGETS

from tollbar.model.objects import Object
from tollbar.runtime.resources import CUSTOM_RESOURCE_DEFINITIONS, Resource

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
    """Their objects can be written inside the block; afterwards those that were not there before are gone.

    Gone is a definition when nothing serves its objects any more: the API server notices a moment after the deletion.
    """
    made: list[Object] = []
    try:
        for crd in crds:
            answer = api.request("POST", CUSTOM_RESOURCE_DEFINITIONS.path(), crd)
            assert answer.code in (201, 409), answer
            if answer.code == 201:
                made.append(crd)
        for crd in crds:
            _await(api, path_of(crd), 200)
        yield
    finally:
        for crd in made:
            api.request("DELETE", CUSTOM_RESOURCE_DEFINITIONS.path("", crd["metadata"]["name"]))
        for crd in made:
            _await(api, CUSTOM_RESOURCE_DEFINITIONS.path("", crd["metadata"]["name"]), 404)
            _await(api, path_of(crd), 404)


def _await(api: Api, path: str, code: int) -> None:
    until(lambda: api.request("GET", path).code == code, f"{path} answers {code}")


def path_of(crd: Object) -> str:
    """Where the objects of a definition are listed."""
    spec = crd["spec"]
    return f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
