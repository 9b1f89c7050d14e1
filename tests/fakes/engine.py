"""Stand-ins for what decisions are given: a CEL engine whose programs are Python functions, and rules for it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from objects.builders import toleration

from tollbar.cel import COMPILE, RUNTIME, UNKNOWN, CelError, CostBudget, Env
from tollbar.decide.rules.rule import Expression, Match, Rule
from tollbar.model import claims
from tollbar.model.objects import Object

Says = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class FakeProgram:
    """Says what `says` answers; a Python exception is a run-time error."""

    says: Says
    reads: frozenset[str]
    source: str = ""
    steps: int = 1

    def evaluate(self, inputs: Mapping[str, Any], budget: CostBudget | None = None) -> Any:
        if budget is not None:
            budget.steps -= self.steps
        try:
            return self.says(inputs)
        except Exception as error:
            return CelError(str(error), 1, 1, RUNTIME)

    def evaluate_partial(
        self, inputs: Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> Any:
        return (
            UNKNOWN
            if any(_overlap(path, read) for path in unknown for read in self.reads)
            else self.evaluate(inputs, budget)
        )


@dataclass(frozen=True, slots=True)
class FakeEngine:
    """Compiles the sources that it has programs for, and counts what it is asked to compile."""

    programs: Mapping[str, FakeProgram] = field(default_factory=dict)
    compiled: Counter[str] = field(default_factory=Counter)

    def compile(self, source: str, _env: Env) -> FakeProgram:
        self.compiled[source] += 1
        if source not in self.programs:
            raise CelError("undeclared reference", 1, 7, COMPILE)
        return self.programs[source]

    def prepare(self, inputs: Mapping[str, Any]) -> Any:
        return inputs


class Watched(list[Any]):
    """A list that counts how often somebody walks it."""

    walks = 0

    def __iter__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        self.walks += 1
        return super().__reversed__()


def expression(says: Says, *reads: str, steps: int = 1) -> Expression:
    """A match of type CEL; `steps` is what an evaluation costs."""
    return Expression(FakeProgram(says, frozenset(reads), steps=steps))


def rule(
    name: str,
    match: Match,
    *,
    tolerations: Iterable[Object] = (),
    reads: Iterable[str] | None = None,
    mode: Literal["Enforce", "Audit", "Disabled"] = "Enforce",
    when: Literal["All", "Any", "First"] = "All",
    namespaces: Object | None = None,
) -> Rule:
    """A compiled rule; tolerates example.com/NAME unless told what."""
    if reads is None:
        reads = match.program.reads if isinstance(match, Expression) else {"claims", "deviceClasses", "pod.spec"}
    return Rule(
        name=name,
        generation=1,
        mode=mode,
        when_alternatives=when,
        namespace_selector=namespaces or {},
        tolerations=tuple(tolerations) or (toleration(f"example.com/{name}"),),
        match=match,
        reads=frozenset(reads),
    )


def wants_class(*names: str) -> Expression:
    """True when a request asks for exactly one of these classes."""

    def says(inputs: Mapping[str, Any]) -> bool:
        requests = (request for each in inputs["claims"] for request in claims.requests_of(each))
        return any(request["exactly"]["deviceClassName"] in names for request in requests)

    return expression(says, "claims.spec.devices.requests.exactly.deviceClassName")


def has_label(name: str) -> Expression:
    """True when the Pod has this label."""
    return expression(lambda inputs: name in inputs["pod"]["metadata"].get("labels", {}), "pod.metadata.labels")


def failing(*reads: str) -> Expression:
    """Fails on every input."""

    def says(_inputs: Mapping[str, Any]) -> bool:
        raise ValueError("no such key")

    return expression(says, *(reads or ("pod.metadata.labels",)))


def no_selector(_source: str) -> CelError:
    """For cases in which no device selector may be compiled."""
    return CelError("not expected", 1, 1, COMPILE)


def in_words(plan: Any) -> Any:
    """The plan for a Pod with its reasons as the log shows them."""
    return replace(plan, because=tuple(map(str, plan.because)))


def _overlap(path: str, other: str) -> bool:
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")
