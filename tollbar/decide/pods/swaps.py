"""Finds Pods that got tolerations by claims that were replaced before the Pod was bound.

A Pod gets its tolerations before its claims are allocated, by what they ask for.  Users who may delete and create
claims can replace them until the Pod is bound, for example by an empty claim, with which the Pod runs on the reserved
Node without a device.  Once a Pod is bound, its claims are reserved for it, immutable, and not deleted while it runs:
then they are looked at again.

A Pod is reported only if nothing but the claims can have changed what the rule reads since the Pod was created; other
reasons why a rule is not true any more are shown by `tollbar drift`.  The times of the API are whole seconds: a claim
that the Pod names, and that is replaced within the second of its creation, is not found.
"""

from collections.abc import Hashable, Iterable, Sequence
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
from tollbar.model.objects import Object, annotations_of, is_stub, key_of, metadata, uid_of
from tollbar.model.plan import Event
from tollbar.model.resources import PODS, RESOURCE_CLAIMS

_POD: Final = frozenset({"pod"})

_MUTABLE: Final = (
    "namespaceObject",
    "pod.metadata.annotations",
    "pod.metadata.deletionTimestamp",
    "pod.metadata.finalizers",
    "pod.metadata.generation",
    "pod.metadata.labels",
    "pod.metadata.managedFields",
    "pod.metadata.ownerReferences",
    "pod.metadata.resourceVersion",
    "pod.spec.activeDeadlineSeconds",
    "pod.spec.affinity",
    "pod.spec.containers.image",
    "pod.spec.containers.resources.limits",
    "pod.spec.containers.resources.requests",
    "pod.spec.ephemeralContainers",
    "pod.spec.initContainers.image",
    "pod.spec.initContainers.resources.limits",
    "pod.spec.initContainers.resources.requests",
    "pod.spec.nodeName",
    "pod.spec.nodeSelector",
    "pod.spec.resources",
    "pod.spec.schedulingGates",
    "pod.spec.terminationGracePeriodSeconds",
    "pod.spec.tolerations",
    "pod.status",
)
"""What a rule may read and somebody may change after the Pod's creation, but for claims and DeviceClasses.  Source:
ValidatePodUpdate and ValidatePodResize in k8s.io/kubernetes/pkg/apis/core/validation."""

_REQUESTS: Final = "spec.devices.requests"
_OF_A_CLAIM: Final = frozenset(
    {
        "metadata.creationTimestamp",
        "metadata.name",
        "metadata.namespace",
        "metadata.ownerReferences",
        "metadata.uid",
        "status.reservedFor",
        f"{_REQUESTS}.exactly.deviceClassName",
        f"{_REQUESTS}.firstAvailable.deviceClassName",
    }
)
"""What is read here of any claim."""


@dataclass(frozen=True, slots=True)
class SwapFacts:
    """What the Pod refers to, None where there is none: the claims that it names, and those generated for it.

    Of one that the caches have no room for it is the stub, until the API server has answered.
    `whole`: the package has the Pod as the API server has it; otherwise only what tells of its claims.
    """

    package: Package
    named: Sequence[Object | None]
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
    """The plan for a Pod; an `Ask` for claims of which the caches have only a stub, as whoever replaces one may make
    it, and for the whole Pod where a rule reads more of it than they keep."""
    return first_answer(CHAIN, facts) or NOTHING


def basis(facts: SwapFacts, classes: Iterable[Object]) -> Hashable:
    """What the plan depends on and may change: the Pod, whether these claims are reserved for it, which fixes them, the
    rules that give what it has, and DeviceClasses.  While it is equal, no claim need be read again.

    `classes` are all that there are: which of them a claim names is not known of a stub.
    """
    pod, namespace = facts.package.pod, facts.package.namespace
    used = (*facts.named, *facts.generated)
    rules = [(rule.name, rule.generation, rule.created, rule.in_scope(namespace)) for rule in _giving(facts)]
    return (
        (uid_of(pod), metadata(pod).get("resourceVersion")),
        tuple((uid_of(claim or {}), claims.is_reserved_for(claim or {}, pod)) for claim in used),
        frozenset(rules),
        frozenset((uid_of(each), metadata(each).get("generation")) for each in classes),
    )


def _not_concerned(facts: SwapFacts) -> SwapPlan | None:
    return None if is_concerned(facts.package.pod) else NOTHING


def _not_reserved(facts: SwapFacts) -> SwapPlan | None:
    pod = facts.package.pod
    used = (*facts.named, *facts.generated)
    settled = all(claim is not None and claims.is_reserved_for(claim, pod) for claim in used)
    return None if settled else NOTHING


def _as_created(facts: SwapFacts) -> SwapPlan | None:
    """No claim can be another one than at the Pod's creation.  One that is generated can always: it is made afterwards,
    of a template that may have been replaced by then, or by somebody who says that it was.
    """
    created = _created(facts.package.pod)
    if not facts.generated and all(each is not None and _created(each) <= created for each in facts.named):
        return NOTHING
    return None


def _of_no_rule(facts: SwapFacts) -> SwapPlan | None:
    return None if _counting(facts) else NOTHING


def _left_out(facts: SwapFacts) -> Ask | None:
    stubs = [claim for claim in (*facts.named, *facts.generated) if claim is not None and is_stub(claim)]
    if not stubs:
        return None
    keep = _read_of_claims(_giving(facts))
    return Ask(tuple(Get(RESOURCE_CLAIMS, key_of(claim), keep) for claim in stubs))


def _giving(facts: SwapFacts) -> list[Rule]:
    """The rules that say how what the Pod was given stands."""
    return justification.those_that_give(justification.given(facts.package.pod), facts.rules)


def _counting(facts: SwapFacts) -> set[str]:
    """Names of the rules by which the Pod may be reported; fewer, once it is known which classes its claims name."""
    return {rule.name for rule in _giving(facts) if _only_claims_can_have_changed(rule, facts.package)}


def _read_of_claims(rules: Sequence[Rule]) -> frozenset[str]:
    """Paths of what these rules read of a claim, and of what is read here.

    A rule reads an entry of `firstAvailable` as `exactly` (`tollbar.decide.pods.alternatives`).
    """
    paths = set(_OF_A_CLAIM)
    for read in (read for rule in rules for read in rule.reads):
        if read == "claims":
            paths |= {"metadata", "spec"}
        elif read.startswith("claims."):
            path = read.removeprefix("claims.")
            paths |= {path, path.replace(f"{_REQUESTS}.exactly", f"{_REQUESTS}.firstAvailable")}
    return frozenset(paths)


def _judged(facts: SwapFacts) -> SwapPlan | Ask:
    package = facts.package
    if not facts.whole:
        package = replace(package, unknown=package.unknown | _POD)
    counting = _counting(facts)
    if not counting:
        return NOTHING
    everything = justification.judge(package, facts.rules, facts.engine, facts.selector)
    judged = tuple(each for each in everything if each.rule in counting)
    if not facts.whole and not package.missing and any(each.standing is Standing.UNDECIDED for each in judged):
        return Ask((Get(PODS, key_of(package.pod)),))
    unjustified = tuple(each for each in judged if each.standing is Standing.UNTRUE)
    return SwapPlan(unjustified, (events.toleration_unjustified(unjustified),)) if unjustified else NOTHING


def _only_claims_can_have_changed(rule: Rule, package: Package) -> bool:
    """Of all that decides whether the rule is true: itself, its scope, and what it reads.  Of claims that is the spec:
    metadata may be changed without putting another claim in the place of one.

    Which claims stand for extended resources is a matter of DeviceClasses that need not be there any more.
    """
    return (
        rule.reads_package
        and rule.in_scope(package.namespace)
        and rule.created < _created(package.pod)
        and not any(map(rule.reads_any, _MUTABLE))
        and not any(f"{read}.".startswith("claims.metadata.") for read in rule.reads)
        and not any(pods.extended_resources(package.pod))
        and (not rule.reads_any("deviceClasses") or _classes_are_as_they_were(rule, package))
    )


def _classes_are_as_they_were(rule: Rule, package: Package) -> bool:
    """The specs of DeviceClasses, whose generation is 1 until the first change; nothing tells of their metadata."""
    created, classes = _created(package.pod), package.classes.values()
    return not classes or (
        not rule.reads_any("deviceClasses.metadata")
        and all(_created(each) < created and metadata(each).get("generation") == 1 for each in classes)
    )


def _created(obj: Object) -> str:
    """The times of the API are in order as texts, too."""
    return metadata(obj).get("creationTimestamp") or ""


CHAIN: Final[Chain[SwapFacts, SwapPlan | Ask]] = (  # order is the specification
    _not_concerned,  # without a Node or a record, or ending -> nothing
    _not_reserved,  # a claim is not reserved for the Pod -> nothing yet, the reservation tells
    _as_created,  # its claims were there when it was created -> nothing
    _of_no_rule,  # there is no rule of which only the claims can have changed -> nothing
    _left_out,  # else -> ask for those claims
    _judged,  # else -> what rules gave that are not true now, and of which only the claims can have changed
)
