"""CustomResourceDefinitions: names, versions, and schemas that are structural.

Source: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation.
"""

from collections.abc import Iterator
from typing import Final

from tollbar import cel
from tollbar.devplane.embedded import rules, schemas
from tollbar.devplane.embedded.errors import not_implemented
from tollbar.devplane.embedded.validation.texts import members, unchanged, wrong
from tollbar.model.fields import FieldError, required
from tollbar.model.objects import Object, metadata, spec, text_at

_NO_FIELD_TYPE: Final = "must not be empty for specified object fields"


def validate(definition: Object) -> list[FieldError]:
    body = spec(definition)
    names, versions = body.get("names") or {}, body.get("versions") or []
    errors = members("spec", body, "group", "scope") + members("spec.names", names, "plural", "kind")
    if (body.get("conversion") or {}).get("strategy") == "Webhook":
        raise not_implemented("conversion webhooks")
    name = metadata(definition).get("name")
    if name != f"{names.get('plural')}.{body.get('group')}":
        errors.append(wrong("metadata.name", name, 'must be spec.names.plural+"."+spec.group'))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        errors.append(wrong("spec.versions", [version.get("name") for version in versions], detail))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}].schema" if len(versions) > 1 else "spec.validation"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        where = f"spec.versions[{index}]"
        errors += members(where, version, "name")
        for at, column in enumerate(version.get("additionalPrinterColumns") or ()):
            errors += members(f"{where}.additionalPrinterColumns[{at}]", column, "name", "type", "jsonPath")
        for at, each in enumerate(version.get("selectableFields") or ()):
            errors += members(f"{where}.selectableFields[{at}]", each, "jsonPath")
        if schema is None:
            errors.append(required(f"{path}.openAPIV3Schema", "schemas are required"))
        else:
            errors += _structural(schema, f"{path}.openAPIV3Schema", "must not be empty at the root")
    return errors


def validate_update(new: Object, old: Object) -> list[FieldError]:
    """The fields that are immutable."""
    errors: list[FieldError] = []
    for path in ("group", "scope", "names.kind", "names.plural"):
        errors += unchanged(f"spec.{path}", *(text_at(spec(each), path) for each in (new, old)))
    return errors


def _structural(schema: Object, path: str, typeless: str) -> Iterator[FieldError]:
    """A type everywhere, patterns and rules that compile."""
    if not schema.get("type") and not schema.get(schemas.INT_OR_STRING) and not schema.get(schemas.PRESERVE):
        yield required(f"{path}.type", typeless)
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        try:
            rules.compiled(rule.get("rule") or "")
        except cel.CelError as error:
            where = f"{path}.x-kubernetes-validations[{index}].rule"
            yield wrong(where, rule.get("rule"), f"compilation failed: {error}")
    if not schemas.is_pattern(schema.get("pattern", "")):
        yield wrong(f"{path}.pattern", schema["pattern"], "must be a valid regular expression")
    for name, inner in (schema.get("properties") or {}).items():
        yield from _structural(inner, f"{path}.properties[{name}]", _NO_FIELD_TYPE)
    if isinstance(values := schema.get("additionalProperties"), dict):
        yield from _structural(values, f"{path}.additionalProperties", _NO_FIELD_TYPE)
    if "items" in schema:
        yield from _structural(schema["items"], f"{path}.items", "must not be empty for specified array items")
