"""Finds Pods with node affinity of a PlacementRule that is not for them any more, or requires something else now.

A changed rule is found if it requires something that the Pod's affinity does not.  A rule that requires less than
before is not found, because a Pod's node affinity does not show which part of it comes from the rule.

The API does not allow removing anything from a Pod's node affinity, so the Pod has to be replaced.  The annotation of
the Pod names the rules; users who may write the Pod may also write the annotation.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tollbar import wellknown
from tollbar.cli import copies
from tollbar.decide.pods import matching
from tollbar.decide.pods.matching import Evaluator, Truth
from tollbar.decide.rules.placements import Placement, compile_placement
from tollbar.model import pods
from tollbar.model.objects import Object, annotations_of, spec
from tollbar.model.resources import PLACEMENT_RULES
from tollbar.offline import Cluster


@dataclass(frozen=True, slots=True)
class Narrowed:
    """`why` the rule of this name does not stand for what it did."""

    rule: str
    why: str


def narrowed(cluster: Cluster, pod: Object) -> Iterator[Narrowed]:
    """Nothing where PlacementRules are not in the copy, or while the Pod is held for them."""
    if PLACEMENT_RULES not in cluster.declared or not cluster.knows(PLACEMENT_RULES):
        return
    if wellknown.PLACEMENT_GATE in pods.gate_names(pod):
        return
    for name in str(annotations_of(pod).get(wellknown.ANNOTATION_PLACEMENT) or "").split(","):
        if name and (why := _why(cluster, pod, name)):
            yield Narrowed(name, why)


def _why(cluster: Cluster, pod: Object, name: str) -> str:
    """Empty while the Pod has what the rule requires, or where that cannot be told."""
    found = cluster.get(PLACEMENT_RULES, name)
    if found is None:
        return "the rule is gone"
    engine, selector = cluster.gatherer.ruleset.engine, cluster.gatherer.ruleset.selector
    placement = compile_placement(found, engine)
    if not isinstance(placement, Placement) or placement.rule.mode != "Enforce":
        return "the rule is not in force any more"
    if not _asks_for_this(placement, pod):
        return "the rule has changed"
    if not cluster.knows(*copies.read_by(placement.rule)):
        return ""
    package = cluster.package(pod)
    if not placement.rule.in_scope(package.namespace):
        return "the rule is not about its namespace any more"
    verdict = Evaluator(package, engine, selector, matching.OR_UNKNOWN).verdict(placement.rule)
    return "the rule is not true for it any more" if verdict.truth is Truth.FALSE else ""


def _asks_for_this(placement: Placement, pod: Object) -> bool:
    """Whether the Pod has all that the rule requires now."""
    affinity = (spec(pod).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = [term.get("matchExpressions") or () for term in required.get("nodeSelectorTerms") or ()]
    return all(requirement in term for requirement in placement.required for term in terms) and bool(
        terms or not placement.required
    )
