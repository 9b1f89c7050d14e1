"""CustomResourceDefinitions in the embedded plane, beyond the contract: what is refused, what several versions do."""

from typing import Any

import pytest

from tollbar.devplane.embedded.definitions import kinds_of
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.model.objects import Object
from tollbar.model.resources import CUSTOM_RESOURCE_DEFINITIONS

ROOT = "spec.validation.openAPIV3Schema"


def version(name: str = "v1", *, storage: bool = True, served: bool = True, **properties: Object) -> Object:
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return {"name": name, "served": served, "storage": storage, "schema": schema}


def definition(*versions: Object, **spec: Any) -> Object:
    body = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": list(versions or (version(),)),
        **spec,
    }
    made = {"metadata": {"name": "widgets.example.com"}, "spec": body}
    Kinds().at(CUSTOM_RESOURCE_DEFINITIONS).strategy.default(made)
    return made


REFUSED: dict[str, tuple[Object, list[str]]] = {
    "a valid definition": (definition(), []),
    "no scope": (definition(scope=""), ["spec.scope: Required value"]),
    "two versions that are stored": (
        definition(version(), version("v2")),
        ['spec.versions: Invalid value: ["v1","v2"]: must have exactly one version marked as storage version'],
    ),
    "no schema": (
        definition({"name": "v1", "served": True, "storage": True}),
        [f"{ROOT}: Required value: schemas are required"],
    ),
    "items without a type": (
        definition(version(list={"type": "array", "items": {}})),
        [f"{ROOT}.properties[list].items.type: Required value: must not be empty for specified array items"],
    ),
    "values without a type": (
        definition(version(map={"type": "object", "additionalProperties": {}})),
        [
            (
                f"{ROOT}.properties[map].additionalProperties.type: Required value: must not be empty for specified"
                " object fields"
            )
        ],
    ),
    "what may be anything needs no type": (
        definition(
            version(
                any={"x-kubernetes-preserve-unknown-fields": True},
                both={"x-kubernetes-int-or-string": True},
            )
        ),
        [],
    ),
    "a pattern that RE2 does not have": (
        definition(version(text={"type": "string", "pattern": "(?=a)"})),
        [f'{ROOT}.properties[text].pattern: Invalid value: "(?=a)": must be a valid regular expression'],
    ),
}


@pytest.mark.parametrize(("given", "want"), REFUSED.values(), ids=REFUSED)
def test_refused(given: Object, want: list[str]) -> None:
    causes = Kinds().at(CUSTOM_RESOURCE_DEFINITIONS).strategy.validate(given)
    assert [f"{cause.field}: {cause.message}" for cause in causes] == want


def test_a_rule_that_does_not_compile_is_refused_with_its_place() -> None:
    ruled = {"type": "string", "x-kubernetes-validations": [{"rule": "self =="}]}
    [cause] = Kinds().at(CUSTOM_RESOURCE_DEFINITIONS).strategy.validate(definition(version(text=ruled)))
    assert (cause.field, cause.message.startswith('Invalid value: "self ==": compilation failed: 1:')) == (
        f"{ROOT}.properties[text].x-kubernetes-validations[0].rule",
        True,
    )


def test_versions_share_what_is_stored() -> None:
    given = definition(version("v1"), version("v2", storage=False), version("v3", storage=False, served=False))
    assert [(kind.resource.version, kind.stored.version) for kind in kinds_of(given)] == [("v1", "v1"), ("v2", "v1")]


def test_names_follow_from_the_kind() -> None:
    [kind] = kinds_of(definition())
    assert (kind.singular, kind.list_kind, kind.columns, kind.subresources) == (
        "widget",
        "WidgetList",
        (),
        (),
    )


def test_a_scale_is_not_served() -> None:
    scaled = {**version(), "subresources": {"status": {}, "scale": {}}}
    [kind] = kinds_of(definition(scaled))
    assert kind.subresources == ("status",)
