"""The interface of the CEL engines: environments, programs, errors and cost budgets.

An engine compiles an expression for an environment into a program; a program says which inputs it may read and
evaluates to true, false or an error.  Errors are values: evaluation never raises, and compiling raises CelError alone.
No CEL library is imported here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal, NewType, Protocol, TypeAlias

COMPILE: Final = "COMPILE"
RUNTIME: Final = "RUNTIME"
BUDGET: Final = "BUDGET"
Kind: TypeAlias = Literal["COMPILE", "RUNTIME", "BUDGET"]


class CelError(Exception):
    """Why an expression has no value: an exception of `compile`, a value of `evaluate`.

    `line` and `column` are 1-based and point into the expression; `message` is one short line that never contains
    input data.  `kind` is COMPILE (the expression is wrong), RUNTIME (it failed on this input) or BUDGET (it exceeded
    a limit of one evaluation).  Equal by value.
    """

    def __init__(self, message: str, line: int, column: int, kind: Kind) -> None:
        # `args` are set already, by BaseException.__new__.
        self.message = message
        self.line = line
        self.column = column
        self.kind: Kind = kind

    def __str__(self) -> str:
        return f"{self.line}:{self.column}: {self.message}"

    def __eq__(self, other: object) -> bool:
        return self.args == other.args if isinstance(other, CelError) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.args)


class Unknown(Enum):
    """The type of UNKNOWN, so that `answer is UNKNOWN` narrows."""

    UNKNOWN = "UNKNOWN"


UNKNOWN: Final = Unknown.UNKNOWN
"""A result that depends, or may depend, on an input that is not known yet."""

Inputs = NewType("Inputs", Mapping[str, Any])
"""Variables prepared for any number of evaluations; opaque outside of this package."""


@dataclass(frozen=True, slots=True)
class Env:
    """The variables of an expression with their types, and the type that the expression itself must have.

    Types are written as in schema.json: `string`, `int`, `bool`, `double`, `quantity`, `semver`, `dyn`, `list<T>`,
    `map<T>` (keys are strings), or the name of an API type.  Variables hold plain JSON values.  A program whose result
    is not `bool` evaluates to the value itself; `dyn` allows any.
    """

    variables: tuple[tuple[str, str], ...]
    result: str = "bool"


RULE_ENV: Final = Env(
    variables=(
        ("pod", "Pod"),
        ("claims", "list<ResourceClaim>"),
        ("deviceClasses", "map<DeviceClass>"),
        ("namespaceObject", "Namespace"),
    )
)
"""The variables of a TolerationRule: the Pod, its claims, the DeviceClasses that they name, the Namespace."""

DEVICE_ENV: Final = Env(variables=(("device", "Device"),))
"""The variable of a device selector; its value comes from `tollbar.cel.devices.prepare`."""


@dataclass(slots=True)
class CostBudget:
    """The cost, in steps, that a series of evaluations may still have together; each is charged against it.

    One evaluation has a cost limit of its own (`tollbar.cel.core.limits`), so the last one may leave less than zero.
    With nothing left, the caller should not start another one.
    """

    steps: int


class Program(Protocol):
    """A compiled expression.  Immutable, may be shared between threads."""

    @property
    def source(self) -> str: ...

    @property
    def reads(self) -> frozenset[str]:
        """Dotted input paths that the value can depend on; never too few.

        `claims.spec.devices` means that field of every claim, `deviceClasses.metadata.labels` that field of every
        class: paths have no step for elements of lists and of the map of classes.  A path covers everything below it.
        """
        ...

    def evaluate(self, inputs: Inputs | Mapping[str, Any], budget: CostBudget | None = None) -> bool | CelError:
        """True, false (the value, if the environment's result is not bool), or an error.

        Never raises; bounded in time and memory whatever the inputs are.
        """
        ...

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], budget: CostBudget | None = None
    ) -> bool | CelError | Literal[Unknown.UNKNOWN]:
        """Like evaluate, while what is at, above or below a path of `unknown` is not known yet.

        UNKNOWN if the answer can depend on it, or was not found within the cost limit, in which nodes cost more than in
        `evaluate`.  Any other answer is the one that evaluate gives whatever the unknown
        values turn out to be, unless evaluation then exceeds its cost limit.
        """
        ...


class CelEngine(Protocol):
    """Compiles expressions.  Stateless."""

    def compile(self, source: str, env: Env) -> Program:
        """Raises CelError of kind COMPILE, and nothing else, for any string."""
        ...

    def prepare(self, inputs: Mapping[str, Any]) -> Inputs:
        """Does whatever can be done once for all programs that are evaluated with these inputs.

        By default that is nothing: evaluation reads JSON in place.
        """
        return Inputs(dict(inputs))
