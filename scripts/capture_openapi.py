"""Writes tollbar/devplane/embedded/openapi.json: the schemas of the kinds that the embedded API server has.

The source is /openapi/v3 of a real API server, without descriptions.  Run it when a kind is added or the Kubernetes
version changes.  It starts the real control plane, so `make generate` does not run it; a test marked `real` compares
the file.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from generating import main

from tollbar.devplane.embedded.builtin import BUILTIN, SENT
from tollbar.devplane.kubectl import Kubectl
from tollbar.devplane.real.build import locate
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

PREFIX = "#/components/schemas/"
KINDS = {
    *((res.group, res.version, res.kind) for res, *_ in BUILTIN),
    *((group, version, kind) for kind, (group, version) in SENT.items()),
}
KEPT = (
    "type",
    "format",
    "oneOf",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-group-version-kind",
)


def served(kubectl: Kubectl) -> dict[str, Any]:
    """Every schema of the group versions of KINDS, by name."""
    found: dict[str, Any] = {}
    for version in sorted({f"{group}/{version}".removeprefix("/") for group, version, _ in KINDS}):
        path = f"/openapi/v3/{'apis' if '/' in version else 'api'}/{version}"
        found |= json.loads(kubectl("get", "--raw", path))["components"]["schemas"]
    return found


def stripped(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without descriptions, defaults and rules."""
    if "allOf" in schema:
        schema = schema["allOf"][0]
    if "$ref" in schema:
        return {"$ref": schema["$ref"]}
    kept = {key: schema[key] for key in KEPT if key in schema}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            kept[key] = stripped(schema[key])
    if "properties" in schema:
        kept["properties"] = {name: stripped(each) for name, each in sorted(schema["properties"].items())}
    return kept


def is_root(schema: dict[str, Any]) -> bool:
    said = schema.get("x-kubernetes-group-version-kind") or ()
    return any((each["group"], each["version"], each["kind"]) in KINDS for each in said)


def references(schema: Any) -> set[str]:
    """The schemas that a schema refers to; a property may be called $ref too."""
    if not isinstance(schema, dict):
        return set()
    target = schema.get("$ref")
    own = {target.removeprefix(PREFIX)} if isinstance(target, str) else set()
    return own.union(*map(references, schema.values()))


def generate(kubectl: Kubectl) -> str:
    """The text of the file: one line for each schema."""
    schemas = {name: stripped(schema) for name, schema in served(kubectl).items()}
    wanted: set[str] = set()
    following = {name for name, schema in schemas.items() if is_root(schema)}
    while following:
        wanted |= following
        following = set().union(*(references(schemas[name]) for name in following)) - wanted
    lines = [f"{json.dumps(name)}: {json.dumps(schemas[name], sort_keys=True)}" for name in sorted(wanted)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        with RealPlane(locate(), Path(directory, "plane"), Options(scheduler=False)) as plane:
            text = generate(plane.kubectl)
    raise SystemExit(main({"tollbar/devplane/embedded/openapi.json": text}))
