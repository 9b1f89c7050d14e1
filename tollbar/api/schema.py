"""From pydantic types to the structural OpenAPI schema of a CustomResourceDefinition.

Descriptions are the types' docstrings; keys that start with `x-kubernetes-` come from `json_schema_extra`, written with
the helpers below.
"""

from typing import Any, Final

from pydantic import BaseModel

from tollbar.model.objects import picked

INT64: Final = 2**63

_COPIED: Final = (
    "type",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minimum",
    "maximum",
    "required",
)


def validated(*rules: dict[str, str]) -> dict[str, Any]:
    """`json_schema_extra` for CEL rules, which the API server evaluates on every write."""
    return {"x-kubernetes-validations": list(rules)}


def rule(expression: str, message: str, *, field_path: str = "") -> dict[str, str]:
    """One CEL rule.  `field_path` is the field that the error names, relative to the rule's place."""
    blamed = {"fieldPath": field_path} if field_path else {}
    return {"rule": expression, "message": message, **blamed}


def named_format(name: str, *, of: str = "self", optional: bool = False) -> dict[str, str]:
    """A rule on a string: one of Kubernetes' named formats.  `optional` lets the empty string pass.

    The API server's own text for the format would need a `messageExpression`, whose estimated cost is too high.
    """
    exempt = "self == '' || " if optional else ""
    return rule(f"{exempt}!format.{name}().validate({of}).hasValue()", _FORMATS[name])


_FORMATS: Final = {
    "qualifiedName": "must be a qualified name: an optional DNS subdomain and '/', then at most 63 alphanumeric"
    " characters, '-', '_' or '.'",
    "labelValue": "must be a label value: at most 63 alphanumeric characters, '-', '_' or '.'",
    "dns1123Label": "must be a DNS label: at most 63 lower case alphanumeric characters or '-'",
    "dns1123Subdomain": "must be a DNS subdomain: alphanumeric characters, '-' or '.'",
}


def structural(model: type[BaseModel]) -> dict[str, Any]:
    """The structural schema of a top-level type: apiVersion, kind and metadata left to the API server."""
    root = model.model_json_schema(mode="validation")
    schema = _structural(root, root.get("$defs", {}))
    schema["properties"] = {
        "apiVersion": {"type": "string", "description": "Version of this representation of the object."},
        "kind": {"type": "string", "description": "The REST resource that this object represents."},
        "metadata": {"type": "object"},
        **{name: schema["properties"][name] for name in ("spec", "status")},
    }
    return schema


def _structural(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    node = _resolved(node, definitions)
    if node.get("x-kubernetes-int-or-string"):
        return {key: value for key, value in node.items() if key not in ("default", "title")}
    schema: dict[str, Any] = picked(node, _COPIED)
    if "description" in node:
        schema = {"description": _unwrapped(node["description"]), **schema}
    if schema.get("format") == "int64":
        schema = {key: value for key, value in schema.items() if abs(_number(value)) < INT64 - 1}
    if "enum" in node:
        schema["enum"] = node["enum"]
    if isinstance(node.get("default"), str | bool):
        schema["default"] = node["default"]
    if "properties" in node:
        schema["properties"] = {name: _structural(value, definitions) for name, value in node["properties"].items()}
    elif isinstance(node.get("additionalProperties"), dict):
        schema["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    if "items" in node:
        schema["items"] = _structural(node["items"], definitions)
    return schema | {key: value for key, value in sorted(node.items()) if key.startswith("x-kubernetes-")}


def _resolved(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The node with its reference followed and without `null`: an optional field is absent, not null."""
    if "anyOf" in node and not node.get("x-kubernetes-int-or-string"):
        given = [member for member in node["anyOf"] if member != {"type": "null"}]
        assert len(given) == 1, f"not structural: {node}"  # noqa: S101 - one of the types of this package, not input
        node = {**given[0], **{key: value for key, value in node.items() if key != "anyOf"}}
    if "$ref" in node:
        target = definitions[node["$ref"].removeprefix("#/$defs/")]
        node = {**target, **{key: value for key, value in node.items() if key != "$ref"}}
    return node


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0


def _unwrapped(text: str) -> str:
    """A docstring without line breaks, except between paragraphs."""
    return "\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
