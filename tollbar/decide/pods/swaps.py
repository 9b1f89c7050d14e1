"""Whether a Pod runs with tolerations that it got by other claims than it runs with.

A Pod is decided about before its claims are allocated, by what they ask for.  Whoever may delete and create claims can
put others in their place until the Pod is bound: an empty one, which gets the Pod to the reserved Node without a
device.  Then the claims are fixed: they are reserved for the Pod, immutable, and not deleted while it runs.  So the
claims are looked at again once they are reserved for a Pod that is bound.

Only what the claims have changed is an offence.  A rule that was edited or deleted, and a Pod whose claims and
templates were all there before it, are not: those are for administrators (`tollbar drift`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tollbar import wellknown
from tollbar.cel import CelEngine
from tollbar.decide.chain import Chain, first_answer
from tollbar.decide.pods import events, justification
from tollbar.decide.pods.justification import Given, Standing
from tollbar.decide.pods.matching import SelectorCompiler
from tollbar.decide.pods.package import Package
from tollbar.decide.rules.rule import Rule
from tollbar.model import claims, pods
from tollbar.model.ask import Ask, Get
from tollbar.model.objects import Object, annotations_of, key_of, metadata
from tollbar.model.plan import Event
from tollbar.model.resources import PODS

_POD: Final = frozenset({"pod"})


@dataclass(frozen=True, slots=True)
class SwapFacts:
    """What the Pod refers to, None where there is none: the claims that it names, the templates that it names, and the
    claims that were made from these.

    `whole`: the package has the Pod as the API server has it; otherwise only what tells of its claims.
    """

    package: Package
    named: Sequence[Object | None]
    templates: Sequence[Object | None]
    generated: Sequence[Object | None]
    rules: tuple[Rule, ...]
    engine: CelEngine
    selector: SelectorCompiler
    whole: bool = False


@dataclass(frozen=True, slots=True)
class SwapPlan:
    """What the Pod has without justification, and what to say of it: nothing while nothing is wrong, or known."""

    unjustified: tuple[Given, ...] = ()
    events: tuple[Event, ...] = ()


NOTHING: Final = SwapPlan()


def is_concerned(pod: Object) -> bool:
    """Whether the Pod has a Node and, by its record, tolerations of Tollbar's."""
    return (
        pods.is_bound(pod)
        and wellknown.ANNOTATION_PROVENANCE in annotations_of(pod)
        and not pods.is_deleting(pod)
        and not pods.is_terminal(pod)
    )


def decide(facts: SwapFacts) -> SwapPlan | Ask:
    """The plan for a Pod; an `Ask` for the whole Pod where a rule reads more of it than the caches keep."""
    return first_answer(CHAIN, facts) or NOTHING


def _not_concerned(facts: SwapFacts) -> SwapPlan | None:
    return None if is_concerned(facts.package.pod) else NOTHING


def _not_reserved(facts: SwapFacts) -> SwapPlan | None:
    pod = facts.package.pod
    used = (*facts.named, *facts.generated)
    settled = all(claim is not None and claims.is_reserved_for(claim, pod) for claim in used)
    return None if settled else NOTHING


def _as_created(facts: SwapFacts) -> SwapPlan | None:
    """What the claims were made of is older than the Pod.  The times of the API are in order as texts, too."""
    created = metadata(facts.package.pod).get("creationTimestamp") or ""
    origins = (*facts.named, *facts.templates)
    if all(each is not None and metadata(each)["creationTimestamp"] < created for each in origins):
        return NOTHING
    return None


def _judged(facts: SwapFacts) -> SwapPlan | Ask:
    package = facts.package
    if not facts.whole:
        package = replace(package, unknown=package.unknown | _POD)
    judged = justification.judge(package, facts.rules, facts.engine, facts.selector)
    if not facts.whole and not package.missing and any(each.standing is Standing.UNDECIDED for each in judged):
        return Ask((Get(PODS, key_of(package.pod)),))
    unjustified = tuple(each for each in judged if each.standing is Standing.UNTRUE)
    return SwapPlan(unjustified, (events.toleration_unjustified(unjustified),)) if unjustified else NOTHING


CHAIN: Final[Chain[SwapFacts, SwapPlan | Ask]] = (  # order is the specification
    _not_concerned,  # without a Node or a record, or ending -> nothing
    _not_reserved,  # a claim is not reserved for the Pod -> nothing yet, the reservation tells
    _as_created,  # its claims and templates were there before it -> nothing
    _judged,  # else -> what unchanged rules gave and would not give now
)
