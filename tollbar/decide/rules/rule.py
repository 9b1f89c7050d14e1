"""A compiled TolerationRule, as decisions evaluate it.

A rule that does not compile is a `Problem`, never an exception; its message is the same in conditions, at admission and
on the command line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from tollbar.api.reasons import RuleReason
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.api.selection import CelMatch, DeviceMatch, ExtendedResourceMatch, MatchMember, Selection
from tollbar.cel import DEVICE_ENV, RULE_ENV, CelEngine, CelError, Program, devices
from tollbar.model import selectors
from tollbar.model.fields import FieldError
from tollbar.model.objects import Object, key_of, labels_of, metadata

_REQUESTS: Final = "claims.spec.devices.requests"

DROPPED: Final = "the API server drops tolerations of devices (feature gate DRADeviceTaints): no claim gets any"
"""What a rule with `deviceTolerations` is told where these are not kept."""

UNKNOWN_OF_A_NEW_CLAIM: Final = frozenset(
    f"claims.metadata.{member}"
    for member in (
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "name",
        "ownerReferences",
        "resourceVersion",
        "uid",
    )
)
"""Paths of inputs that only a claim which exists has, not one that is yet to be generated."""


@dataclass(frozen=True, slots=True)
class Expression:
    """Match type CEL."""

    program: Program


@dataclass(frozen=True, slots=True)
class ExtendedResources:
    """Match type ExtendedResource: any container asks for a positive quantity of one of these."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Prototypes:
    """Match type Device: inputs of the device environment (`tollbar.cel.devices`), one per prototype."""

    devices: tuple[Mapping[str, Any], ...]


Match: TypeAlias = Expression | ExtendedResources | Prototypes


@dataclass(frozen=True)
class Rule:
    """A rule in force.  What is asked of it for every Pod is found once, for which it has no slots."""

    name: str
    generation: int
    mode: Literal["Enforce", "Audit", "Disabled"]
    when_alternatives: Literal["All", "Any", "First"]
    namespace_selector: Object
    tolerations: tuple[Object, ...]
    match: Match
    reads: frozenset[str] = field(default=frozenset({"pod"}))
    created: str = ""
    """The object's creationTimestamp; empty where it has none."""
    device_tolerations: tuple[Object, ...] = ()
    """For requests of claims that match."""

    @cached_property
    def reads_package(self) -> bool:
        """Whether the verdict may depend on claims or classes, not on the Pod and its namespace alone."""
        return self.reads_any("claims") or self.reads_any("deviceClasses")

    @cached_property
    def reads_requests(self) -> bool:
        """Whether the verdict may differ between the alternatives of a package."""
        return self.reads_any(_REQUESTS) or self.reads_any("deviceClasses")

    @cached_property
    def reads_namespace(self) -> bool:
        return bool(self.namespace_selector) or self.reads_any("namespaceObject")

    @cached_property
    def reads_tolerations(self) -> bool:
        """Whether the verdict may change when tolerations are added to the Pod."""
        return self.reads_any("pod.spec.tolerations")

    @property
    def pod_only(self) -> bool:
        """Whether the rule may be true for a Pod that wants no devices at all, by what it reads of the Pod alone."""
        return not self.reads_package and not isinstance(self.match, ExtendedResources)

    def reads_any(self, path: str) -> bool:
        """Whether the rule may read something at this path, below it, or all of what it lies in."""
        return any(f"{read}.".startswith(f"{path}.") or f"{path}.".startswith(f"{read}.") for read in self.reads)

    def in_scope(self, namespace: Object | None) -> bool:
        """Whether the rule looks at this namespace's Pods.  An unknown namespace counts as in scope."""
        return namespace is None or selectors.matches(self.namespace_selector, labels_of(namespace))


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a rule is not in force: a condition reason and one line for a person."""

    reason: str
    message: str


def compile_rule(obj: Object, engine: CelEngine) -> Rule | Problem:
    """The rule in this TolerationRule, or what is wrong with it.  Total on any JSON object."""
    parsed = parse_rule(obj)
    if not isinstance(parsed, TolerationRule):
        return problem(parsed)
    rule = compile_selection(obj, parsed.spec, engine)
    if isinstance(rule, Problem):
        return rule
    given = parsed.spec.device_tolerations
    if given and (unknown := sorted(path for path in rule.reads if _is_unknown_of_a_claim(path))):
        why = f"spec.match.cel.expression: reads {unknown[0]}, which is not known of a claim: {_SPLIT}"
        return Problem(RuleReason.INVALID_EXPRESSION, why)
    return replace(
        rule,
        tolerations=tuple(_as_stored(each.as_object()) for each in parsed.spec.tolerations),
        device_tolerations=tuple(_as_stored(each.as_object()) for each in given),
    )


def problem(errors: Sequence[FieldError]) -> Problem:
    """What these errors, of which there is one at least, make of a rule."""
    return Problem(errors[0].reason, "; ".join(f"{error.field}: {error.message}" for error in errors))


def compile_selection(obj: Object, spec: Selection, engine: CelEngine) -> Rule | Problem:
    """The rule in this object, of any kind of rule, whose parsed spec this is; it gives nothing yet."""
    match = _compile_match(spec.match.member, engine)
    if isinstance(match, Problem):
        return match
    return Rule(
        name=key_of(obj).name,
        generation=int(metadata(obj).get("generation") or 0),
        mode=spec.mode,
        when_alternatives=spec.when_alternatives,
        namespace_selector=dict((obj.get("spec") or {}).get("namespaceSelector") or {}),
        tolerations=(),
        match=match,
        reads=_reads(match),
        created=str(metadata(obj).get("creationTimestamp") or ""),
    )


_SPLIT: Final = "give deviceTolerations in a rule of their own that reads the spec of claims, or their labels"


def _is_unknown_of_a_claim(path: str) -> bool:
    """Whether this input has no value when a claim or a template is created."""
    return path.split(".", 1)[0] == "pod" or any(f"{path}.".startswith(f"{each}.") for each in UNKNOWN_OF_A_NEW_CLAIM)


def _as_stored(toleration: Object) -> Object:
    """The toleration as a Pod has it that the API server has stored: without the members that are empty."""
    return {member: value for member, value in toleration.items() if value != ""}


def _compile_match(member: MatchMember, engine: CelEngine) -> Match | Problem:
    match member:
        case ExtendedResourceMatch():
            return ExtendedResources(frozenset(member.names))
        case DeviceMatch():
            return Prototypes(tuple(devices.prepare(**prototype.as_object()) for prototype in member.prototypes))
        case CelMatch():
            try:
                return Expression(engine.compile(member.expression, RULE_ENV))
            except CelError as error:
                return Problem(
                    RuleReason.INVALID_EXPRESSION,
                    f"spec.match.cel.expression: {error.line}:{error.column}: {error.message}",
                )


def _reads(match: Match) -> frozenset[str]:
    match match:
        case Expression(program):
            return program.reads
        case Prototypes():
            return frozenset({_REQUESTS, "deviceClasses.spec.selectors"})
        case ExtendedResources():
            return frozenset({"pod.spec.containers", "pod.spec.initContainers"})


def compile_selector(source: str, engine: CelEngine) -> Program | CelError:
    """A device selector (KEP-4381) of a class or request, or its compile error."""
    try:
        return engine.compile(source, DEVICE_ENV)
    except CelError as error:
        return error
