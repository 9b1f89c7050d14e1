"""Which rules are true for a package: three-valued, over every alternative, within limits of cost.

Pure but for a memo: an `Evaluator` belongs to one package and prepares each alternative's inputs once for all rules.

Order of answers: in All, one false alternative decides, then unknown, then error; in Any, one true one decides, then
unknown, then error.  A rule that reads claims or classes is unknown while anything of the package is missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from itertools import chain
from typing import Any, Final

from tollbar.cel import UNKNOWN, CelEngine, CelError, CostBudget, Program
from tollbar.decide.pods import alternatives
from tollbar.decide.pods.package import Package
from tollbar.decide.pods.reasons import PodReason
from tollbar.decide.rules.rule import Expression, ExtendedResources, Prototypes, Rule
from tollbar.model import pods
from tollbar.model.claims import requests_of
from tollbar.model.objects import Object, key_of, spec
from tollbar.model.plan import Reason

SelectorCompiler = Callable[[str], Program | CelError]
"""Compiles a device selector, normally through a memo."""

_COMPILING: Final = 50_000
_COMPILING_A_CHARACTER: Final = 1_000
"""Steps for a device selector.  Claims bring as many of them as their authors like, and each has to be compiled."""

_BUILDING: Final = 150
"""Steps for one request of an alternative that is built."""


class _CostLimitExceeded(Exception):
    """Ends the evaluation of a rule from any depth; never leaves this module."""


class Truth(Enum):
    """Whether a rule is true for a package: three-valued, as inputs may be missing, and a rule may fail."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`why` names what is missing, is an error text, or is the limit that was exceeded; empty otherwise."""

    truth: Truth
    why: str = ""


TRUE: Final = Verdict(Truth.TRUE)
FALSE: Final = Verdict(Truth.FALSE)


@dataclass(frozen=True, slots=True)
class CostLimits:
    """How much one package may cost: alternatives of one rule, and steps of evaluation of all rules together.

    Where a limit is exceeded, or the package was too large to gather, the verdict is `beyond`.
    """

    alternatives: int
    steps: int
    beyond: Truth


IN_THE_CONTROLLER: Final = CostLimits(alternatives=256, steps=20_000_000, beyond=Truth.FALSE)
"""About 200 ms.  Everything shares the event loop: no Pod, however large, may keep a leader from renewing its lease."""
OR_UNKNOWN: Final = replace(IN_THE_CONTROLLER, beyond=Truth.UNKNOWN)
"""The same where a rule that is not evaluated must not count as false."""
AT_ADMISSION: Final = CostLimits(alternatives=16, steps=2_000_000, beyond=Truth.UNKNOWN)
"""About 20 ms, where an ordinary rule takes 100 steps: a Pod for which the rules take longer is gated."""


@dataclass(frozen=True, slots=True)
class Results:
    """What the rules say of one package, each group sorted by name: in force and true, in Audit and true, and the rest.

    `exceeded` are rules that count as false because they were not evaluated within the limits.
    """

    true: tuple[Rule, ...] = ()
    audited: tuple[Rule, ...] = ()
    undecided: tuple[tuple[Rule, str], ...] = ()
    failed: tuple[tuple[Rule, str], ...] = ()
    exceeded: tuple[Reason, ...] = ()

    @property
    def because(self) -> tuple[Reason, ...]:
        """The reasons of a plan that follows from these results; at least one."""
        reasons = (
            *(Reason(PodReason.MATCHED, f"rule {rule.name}") for rule in self.true),
            *(Reason(PodReason.AUDITED, f"rule {rule.name}") for rule in self.audited),
            *(Reason(PodReason.UNDECIDED, f"rule {rule.name}", why) for rule, why in self.undecided),
            *(Reason(PodReason.FAILED, f"rule {rule.name}", why) for rule, why in self.failed),
            *self.exceeded,
        )
        return reasons or (Reason(PodReason.NO_RULE_MATCHED),)

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """(rule, why) pairs."""
        return tuple((rule.name, why) for rule, why in self.failed)


def evaluate(
    rules: Iterable[Rule], package: Package, engine: CelEngine, selector: SelectorCompiler, limits: CostLimits
) -> Results:
    """What every rule in scope says of this package.  The order of `rules` does not matter.

    Rules in Audit come last, so that they cost only what those in force leave.
    """
    evaluator = Evaluator(package, engine, selector, limits)
    true: list[Rule] = []
    audited: list[Rule] = []
    undecided: list[tuple[Rule, str]] = []
    failed: list[tuple[Rule, str]] = []
    exceeded: list[Reason] = []
    for rule in sorted(rules, key=lambda rule: (rule.mode != "Enforce", rule.name)):
        if rule.mode == "Disabled" or not rule.in_scope(package.namespace):
            continue
        match evaluator.verdict(rule):
            case Verdict(Truth.TRUE):
                (true if rule.mode == "Enforce" else audited).append(rule)
            case Verdict(Truth.UNKNOWN, why) if rule.mode == "Enforce":
                undecided.append((rule, why))
            case Verdict(Truth.ERROR, why):
                failed.append((rule, why))
            case Verdict(Truth.FALSE, PodReason() as limit):
                exceeded.append(Reason(limit, f"rule {rule.name}"))
    return Results(tuple(true), tuple(audited), tuple(undecided), tuple(failed), tuple(exceeded))


class Evaluator:
    """Evaluates rules against one package."""

    def __init__(self, package: Package, engine: CelEngine, selector: SelectorCompiler, limits: CostLimits) -> None:
        self._package = package
        self._pod = pods.without_ours(package.pod)
        self._engine = engine
        self._selector = selector
        self._limits = limits
        self._budget = CostBudget(limits.steps)
        self._prepared: dict[int, Any] = {}
        self._selectors: dict[str, Program | CelError] = {}
        self._selected: dict[tuple[str, int], bool] = {}
        self._missing: dict[tuple[bool, bool], str] = {}

    def about(self, package: Package) -> "Evaluator":
        """For another package, at the cost of the same budget; selectors that were paid for once are not paid again."""
        other = Evaluator(package, self._engine, self._selector, self._limits)
        other._budget, other._selectors, other._selected = self._budget, self._selectors, self._selected
        return other

    @property
    def spent(self) -> int:
        """The steps of evaluation so far."""
        return self._limits.steps - self._budget.steps

    def verdict(self, rule: Rule) -> Verdict:
        """What this rule says of the package.  Total; the rule's mode and scope are the caller's business.

        Nothing is true in a namespace that is not known: it may be one that opts out.
        """
        if self._package.missing and (why := self._missing_for(rule)):
            return Verdict(Truth.UNKNOWN, why)
        if self._package.too_large and not rule.pod_only:
            return Verdict(self._limits.beyond, PodReason.PACKAGE_TOO_LARGE)
        verdict = self._match(rule)
        if verdict.truth is Truth.TRUE and self._package.namespace is None:
            return Verdict(Truth.UNKNOWN, f"Namespace {key_of(self._package.pod).namespace}")
        return verdict

    def _match(self, rule: Rule) -> Verdict:
        try:
            match rule.match:
                case ExtendedResources(names):
                    return FALSE if names.isdisjoint(self._extended_resources) else TRUE
                case Prototypes(devices):
                    return self._devices(devices, rule.when_alternatives)
                case Expression(program):
                    return self._expression(program, rule)
        except _CostLimitExceeded:
            return Verdict(self._limits.beyond, PodReason.COST_LIMIT_EXCEEDED)

    def _pay(self, steps: int) -> None:
        """Take the cost of what is about to be done from the budget."""
        if self._budget.steps < steps:
            raise _CostLimitExceeded
        self._budget.steps -= steps

    def _missing_for(self, rule: Rule) -> str:
        """What is missing of all that such a rule reads; found once for all rules that read the same."""
        namespace, others = rule.reads_namespace, rule.reads_package
        if (namespace, others) not in self._missing:
            relevant = (
                str(missing)
                for missing in self._package.missing
                if (namespace if missing.kind == "Namespace" else others)
            )
            self._missing[namespace, others] = ", ".join(relevant)
        return self._missing[namespace, others]

    @cached_property
    def _extended_resources(self) -> frozenset[str]:
        return frozenset(request.resource for request in pods.extended_resources(self._pod))

    @cached_property
    def _alternatives(self) -> int:
        """How many there are; if that is more than the limit, some number above the limit."""
        return alternatives.count(self._package.claims, self._limits.alternatives)

    @cached_property
    def _cost_of_building(self) -> int:
        return _BUILDING * sum(map(alternatives.size, self._package.claims))

    def _expression(self, program: Program, rule: Rule) -> Verdict:
        if not rule.reads_requests or rule.when_alternatives == "First":
            return self._evaluate(program, 0)
        if self._alternatives > self._limits.alternatives:
            return Verdict(self._limits.beyond, PodReason.TOO_MANY_ALTERNATIVES)
        verdicts = (self._evaluate(program, index) for index in range(self._alternatives))
        return _combine(verdicts, Truth.FALSE if rule.when_alternatives == "All" else Truth.TRUE)

    def _inputs(self, index: int) -> Any:
        """The inputs of one alternative, built for the first rule that needs them: few do."""
        if index not in self._prepared:
            self._pay(self._cost_of_building)
            alternative = alternatives.nth(self._package.claims, self._package.classes, index)
            self._prepared[index] = self._engine.prepare(
                {
                    "pod": self._pod,
                    "claims": list(alternative.claims),
                    "deviceClasses": dict(alternative.classes),
                    "namespaceObject": self._package.namespace or {},
                }
            )
        return self._prepared[index]

    def _evaluate(self, program: Program, index: int) -> Verdict:
        self._pay(1)
        result = program.evaluate_partial(self._inputs(index), self._package.unknown, self._budget)
        if result is UNKNOWN:
            return Verdict(Truth.UNKNOWN, self._unknown_to(program))
        if isinstance(result, CelError):
            return Verdict(Truth.ERROR, str(result))
        return TRUE if result else FALSE

    def _unknown_to(self, program: Program) -> str:
        reads_claims = any(path.split(".", 1)[0] == "claims" for path in program.reads)
        if reads_claims and self._package.pending:
            return self._pending
        return "what the Pod gets only after its admission"

    @cached_property
    def _pending(self) -> str:
        return ", ".join(map(str, self._package.pending))

    def _devices(self, devices: Sequence[Mapping[str, Any]], when: str) -> Verdict:
        """Could a device like one of these be allocated to a request of the Pod?

        It holds in all alternatives when every choice of some request could get such a device, and in any when one
        choice could: the same answers as over the product of all lists, without building it.
        """
        for claim in self._package.claims:
            for request in requests_of(claim):
                answers = (self._could_get(devices, choice) for choice in alternatives.choices(request))
                if next(answers) if when == "First" else all(answers) if when == "All" else any(answers):
                    return TRUE
        return FALSE

    def _could_get(self, devices: Sequence[Mapping[str, Any]], request: Object) -> bool:
        """A selector that fails on a device would abort the allocation (KEP-4381), which counts as false here."""
        self._pay(_BUILDING)
        exactly = request.get("exactly") or {}
        device_class = self._package.classes.get(str(exactly.get("deviceClassName")))
        if device_class is None:
            return False
        of_class, of_request = spec(device_class).get("selectors") or (), exactly.get("selectors") or ()
        return any(all(self._selects(each, device) for each in chain(of_class, of_request)) for device in devices)

    def _selects(self, selector: Object, device: Mapping[str, Any]) -> bool:
        self._pay(1)
        source = str((selector.get("cel") or {}).get("expression"))
        key = (source, id(device))
        if key not in self._selected:
            program = self._compiled(source)
            self._selected[key] = not isinstance(program, CelError) and program.evaluate(device, self._budget) is True
        return self._selected[key]

    def _compiled(self, source: str) -> Program | CelError:
        """Costs the same whether or not it was compiled before: the same package must cost the same everywhere."""
        if source not in self._selectors:
            self._pay(_COMPILING + _COMPILING_A_CHARACTER * len(source))
            self._selectors[source] = self._selector(source)
        return self._selectors[source]


def _combine(verdicts: Iterable[Verdict], decisive: Truth) -> Verdict:
    """The first decisive verdict, else an unknown one, else an error, else the other plain answer."""
    unknown = error = None
    for verdict in verdicts:
        if verdict.truth is decisive:
            return verdict
        if verdict.truth is Truth.UNKNOWN:
            unknown = unknown or verdict
        elif verdict.truth is Truth.ERROR:
            error = error or verdict
    return unknown or error or (TRUE if decisive is Truth.FALSE else FALSE)
