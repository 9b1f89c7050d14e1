"""PlacementRule: which Nodes the Pods of a rule are kept to; its type, and its validation.

Expressions are not compiled here (see `tollbar.decide.rules`).  Of the Pod's spec a rule can narrow the node affinity
and nothing else, because that is what the API server lets change while a Pod is gated (KEP-3838).
"""

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from tollbar.api import texts
from tollbar.api.base import ATOMIC, ApiType, Conditions, Count, ObjectMeta
from tollbar.api.parse import parse
from tollbar.api.schema import named_format, rule, validated
from tollbar.api.selection import Selection, match_reason, selection_problems
from tollbar.model import nodeaffinity
from tollbar.model.fields import FieldError, invalid, required
from tollbar.model.objects import Object

__all__ = ["PlacementRule", "parse_placement"]

_MOST: Final = 8
_ENOUGH: Final = "has(self.values) && size(self.values)"


class NodeRequirement(ApiType):
    """A requirement on one label of the Node (v1.NodeSelectorRequirement)."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                f"!(self.operator in ['In', 'NotIn']) || ({_ENOUGH} > 0)",
                nodeaffinity.NEEDS_VALUES,
                field_path=".values",
            ),
            rule(
                "!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",
                nodeaffinity.HAS_NO_VALUES,
                field_path=".values",
            ),
            rule(
                f"!(self.operator in ['Gt', 'Lt']) || ({_ENOUGH} == 1 && self.values[0].matches('^[0-9]{{1,18}}$'))",
                texts.NOT_A_BOUND,
                field_path=".values",
            ),
        )
    )

    key: Annotated[str, Field(max_length=317, json_schema_extra=validated(named_format("qualifiedName")))]
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the value of the label has to relate to `values`."""
    values: Annotated[
        tuple[Annotated[str, Field(max_length=63)], ...], Field(strict=False, max_length=64, json_schema_extra=ATOMIC)
    ] = ()
    """The values for In and NotIn, of which one is enough; the one number for Gt and Lt."""

    def as_stored(self) -> Object:
        """As the API server stores it in a Pod: without an empty list."""
        return {member: value for member, value in self.as_object().items() if value != []}


class NodePreference(ApiType):
    """The Nodes that are preferred: those that meet all of these requirements."""

    match_expressions: Annotated[
        tuple[NodeRequirement, ...], Field(strict=False, min_length=1, max_length=_MOST, json_schema_extra=ATOMIC)
    ]
    """Requirements on the Node's labels."""


class WeightedPreference(ApiType):
    """A preference for Nodes and its weight (v1.PreferredSchedulingTerm)."""

    weight: Annotated[int, Field(ge=1, le=100, json_schema_extra={"format": "int32"})]
    """From 1 to 100: the weight of this preference among all preferences of the Pod."""
    preference: NodePreference
    """Which Nodes are preferred."""

    def as_stored(self) -> Object:
        expressions = [each.as_stored() for each in self.preference.match_expressions]
        return {"weight": self.weight, "preference": {"matchExpressions": expressions}}


class PlacementRuleSpec(Selection):
    """Which Pods are kept to which Nodes."""

    model_config = ConfigDict(
        json_schema_extra=validated(
            rule(
                "(has(self.required) && size(self.required) > 0) || (has(self.preferred) && size(self.preferred) > 0)",
                texts.NO_PLACEMENT,
            )
        )
    )

    required: Annotated[
        tuple[NodeRequirement, ...], Field(strict=False, max_length=_MOST, json_schema_extra=ATOMIC)
    ] = ()
    """Requirements that the labels of a Node must meet for the Pod to run there.  Added to every term of the Pod's
    required node affinity, so that the Pod's own requirements stay in force."""
    preferred: Annotated[
        tuple[WeightedPreference, ...], Field(strict=False, max_length=_MOST, json_schema_extra=ATOMIC)
    ] = ()
    """Which Nodes are preferred.  Added to the Pod's own preferences."""


class PlacementRuleStatus(ApiType):
    """What Tollbar found about the rule."""

    observed_generation: Count = 0
    """The generation of the spec that this status is about."""
    conditions: Conditions = ()
    """Ready says whether the rule is in force, and if not, why."""


class PlacementRule(ApiType):
    """Keeps Pods to certain Nodes: adds to their node affinity before they are scheduled (KEP-3838).

    In force where the gate class `placement` is enabled.
    """

    api_version: Literal["tollbar.dev/v1alpha1"] = "tollbar.dev/v1alpha1"
    kind: Literal["PlacementRule"] = "PlacementRule"
    metadata: ObjectMeta = ObjectMeta()
    spec: PlacementRuleSpec
    """Which Pods are kept to which Nodes."""
    status: PlacementRuleStatus = PlacementRuleStatus()
    """What Tollbar found about the rule.  Written by the controllers; never read by a decision."""


def parse_placement(obj: Any) -> PlacementRule | list[FieldError]:
    """The rule, or the errors in it, at most 16.  Each error's `reason` is one for the condition Ready=False.

    Never raises, for any JSON.
    """
    return parse(PlacementRule, obj, lambda each: _problems(each.spec), match_reason)


def _problems(spec: PlacementRuleSpec) -> Iterator[FieldError]:
    yield from selection_problems(spec)
    if not spec.required and not spec.preferred:
        yield required("spec", texts.NO_PLACEMENT)
    for index, each in enumerate(spec.required):
        yield from _requirement_problems(each, f"spec.required[{index}]")
    for index, preference in enumerate(spec.preferred):
        for place, each in enumerate(preference.preference.match_expressions):
            path = f"spec.preferred[{index}].preference.matchExpressions[{place}]"
            yield from _requirement_problems(each, path)


def _requirement_problems(requirement: NodeRequirement, path: str) -> Iterator[FieldError]:
    """What the API server would refuse in a Pod, and a bound that is no number, which it takes and no Node meets."""
    found = nodeaffinity.validate(requirement.as_stored(), path=path)
    yield from found
    if not found and requirement.operator in ("Gt", "Lt") and not nodeaffinity.is_comparable(requirement.values[0]):
        yield invalid(f"{path}.values[0]", requirement.values[0], texts.NOT_A_BOUND)
