"""Writes tollbar/cel/core/schema.json: the fields and types of what rules see of API objects.

The source is the Kubernetes client's generated models.  `--check` writes nothing and fails when the file is not what
would be written.  The file is data of tollbar.cel, which imports no Kubernetes client.
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
"""What a package has of its objects (tollbar.decide.pods.package): more of them is not there, or not everywhere."""
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
    raise SystemExit(main({"tollbar/cel/core/schema.json": generate()}, __doc__ or ""))
