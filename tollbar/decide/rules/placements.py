"""A compiled PlacementRule: for which Pods it is, and what it adds to their node affinity."""

from collections.abc import Iterable
from dataclasses import dataclass

from tollbar.api.placements import PlacementRule, parse_placement
from tollbar.cel import CelEngine
from tollbar.decide.gates.answers import Mutation
from tollbar.decide.rules.rule import Problem, Rule, compile_selection, problem
from tollbar.model.objects import Object


@dataclass(frozen=True, slots=True)
class Placement:
    """`rule` says for which Pods; `required` and `preferred` are members of a Pod's node affinity."""

    rule: Rule
    required: tuple[Object, ...]
    preferred: tuple[Object, ...]


def compile_placement(obj: Object, engine: CelEngine) -> Placement | Problem:
    """The placement in this PlacementRule, or what is wrong with it.  Total on any JSON object."""
    parsed = parse_placement(obj)
    if not isinstance(parsed, PlacementRule):
        return problem(parsed)
    rule = compile_selection(obj, parsed.spec, engine)
    if isinstance(rule, Problem):
        return rule
    required = tuple(each.as_stored() for each in parsed.spec.required)
    return Placement(rule, required, tuple(each.as_stored() for each in parsed.spec.preferred))


def narrowing(placements: Iterable[Placement]) -> Mutation:
    """What all of these together ask for, each requirement and each preference once."""
    required: list[Object] = []
    preferred: list[Object] = []
    for placement in placements:
        required += (each for each in placement.required if each not in required)
        preferred += (each for each in placement.preferred if each not in preferred)
    return Mutation(required=tuple(required), preferred=tuple(preferred))
