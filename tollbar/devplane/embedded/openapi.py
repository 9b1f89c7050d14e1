"""OpenAPI v3 as far as kubectl reads it: schemas for `kubectl explain` and merging, and the patch types of a path.

The schemas are those of `shapes`, without descriptions.
"""

from collections.abc import Iterator
from typing import Any, Final

from tollbar.devplane.embedded import shapes
from tollbar.devplane.embedded.kinds import Kind, Kinds
from tollbar.model.objects import Object
from tollbar.runtime.client import PatchType

V2_TYPE: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Of `/openapi/v2`, which is empty: kubectl reads it for kinds that v3 lacks, and fails if it is absent."""
_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation", "force")


def answer(kinds: Kinds, path: str) -> Object | None:
    """What is below `/openapi/`; None where nothing is."""
    if path == "/openapi/v3":
        return _index(kinds)
    return _document(kinds, path.removeprefix("/openapi/v3/").partition("/")[2])


def _index(kinds: Kinds) -> Object:
    """`/openapi/v3`: the address of each group version's document, which changes with what is served."""
    versions = sorted({kind.resource.api_version for kind in kinds})
    found = {}
    for version in versions:
        path = f"apis/{version}" if "/" in version else f"api/{version}"
        found[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={kinds.generation}"}
    return {"paths": found}


def _document(kinds: Kinds, api_version: str) -> Object | None:
    """The document of a group version; None when that is not served."""
    served = [kind for kind in kinds if kind.resource.api_version == api_version]
    if not served:
        return None
    custom = {
        ".".join([*reversed(kind.resource.group.split(".")), kind.resource.version, kind.resource.kind]): {
            **shapes.whole(kind.schema),
            shapes.GVK: [_gvk(kind)],
        }
        for kind in served
        if kind.schema is not None
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.37.0"},
        "paths": {path: item for kind in served for path, item in _paths(kind)},
        "components": {"schemas": {**shapes.definitions(), **custom}},
    }


def media_types(kind: Kind) -> list[str]:
    """The media types of patches that a kind takes, in the API server's order."""
    order = (PatchType.JSON, PatchType.MERGE, PatchType.STRATEGIC, PatchType.APPLY)
    return [each.value for each in order if not (kind.custom and each is PatchType.STRATEGIC)]


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.resource.group, "version": kind.resource.version, "kind": kind.resource.kind}


def _paths(kind: Kind) -> Iterator[tuple[str, Object]]:
    res = kind.resource
    prefix = f"/apis/{res.api_version}" if res.group else f"/api/{res.api_version}"
    collection = f"{prefix}/namespaces/{{namespace}}/{res.plural}" if res.namespaced else f"{prefix}/{res.plural}"
    parameters = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS]
    content: dict[str, Any] = {media: {"schema": {"type": "object"}} for media in media_types(kind)}
    write: Object = {"parameters": parameters, "responses": {"200": {"description": "OK"}}, shapes.GVK: _gvk(kind)}
    yield collection, {"post": {**write, "x-kubernetes-action": "post"}}
    yield (
        f"{collection}/{{name}}",
        {
            "put": {**write, "x-kubernetes-action": "put"},
            "patch": {**write, "x-kubernetes-action": "patch", "requestBody": {"content": content}},
        },
    )
