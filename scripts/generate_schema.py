"""Writes tollbar/cel/core/schema.json: the fields of API objects that expressions are given, with their types.

The source are the generated models of the Kubernetes client, which tollbar.cel does not import.
"""

import json
import re
from typing import Any

from generating import main
from kubernetes.client import models

ROOTS = {
    "Pod": "V1Pod",
    "ResourceClaim": "ResourceV1ResourceClaim",
    "DeviceClass": "V1DeviceClass",
    "Namespace": "V1Namespace",
}
SEEN = {
    "Pod": ("metadata", "spec", "status"),
    "ResourceClaim": ("metadata", "spec"),
    "DeviceClass": ("metadata", "spec"),
    "Namespace": ("metadata",),
}
"""The top-level fields that expressions are given."""
UNSEEN = {"ObjectMeta": {"managedFields"}}
SCALARS = {"str": "string", "datetime": "string", "int": "int", "float": "double", "bool": "bool", "object": "dyn"}
DEVICE = {
    "allowMultipleAllocations": "bool",
    "attributes": "map<map<dyn>>",
    "capacity": "map<map<quantity>>",
    "driver": "string",
}


def short(model: str) -> str:
    """V1Pod -> Pod; the core group's ResourceClaim is a container's reference, not a root."""
    for name, root in ROOTS.items():
        if model == root:
            return name
    return re.sub(r"\A(?:CoreV1(?=ResourceClaim)|V1)", lambda m: "Container" if m[0] == "CoreV1" else "", model)


def collect(model: str, types: dict[str, dict[str, str]]) -> None:
    """Add the model and everything that its fields refer to."""
    name = short(model)
    if name in types:
        return
    cls: Any = getattr(models, model)
    types[name] = fields = {}
    for attribute, declared in cls.openapi_types.items():
        field = cls.attribute_map[attribute]
        if field in SEEN.get(name, (field,)) and field not in UNSEEN.get(name, ()):
            fields[field] = convert(declared, types)


def convert(declared: str, types: dict[str, dict[str, str]]) -> str:
    if declared in SCALARS:
        return SCALARS[declared]
    if inner := re.fullmatch(r"List\[(.+)\]", declared, re.IGNORECASE):
        return f"list<{convert(inner[1], types)}>"
    if inner := re.fullmatch(r"Dict\[str, (.+)\]", declared, re.IGNORECASE):
        return f"map<{convert(inner[1], types)}>"
    collect(declared, types)
    return short(declared)


def generate() -> str:
    """The text of the file: one line for each type."""
    types: dict[str, dict[str, str]] = {"Device": DEVICE}
    for model in ROOTS.values():
        collect(model, types)
    lines = [f"{json.dumps(name)}: {json.dumps(types[name], sort_keys=True)}" for name in sorted(types)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    raise SystemExit(main({"tollbar/cel/core/schema.json": generate()}))
