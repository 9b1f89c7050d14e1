"""The seam of the CEL engine: what the rest of the suite may know about it.

An engine compiles an expression for an environment into a program; a program says what it may read and answers
true, false or an error.  Errors are values here: nothing in this package raises at evaluation, and compiling raises
CelError alone.  No library is imported, so that decisions can name these types at no cost.
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
    """Why an expression has no value: both an exception (from compile) and a value (from evaluate).

    `line` and `column` are 1-based and point into the expression; `message` is one short line that never contains
    input data.  `kind` is COMPILE (the expression is wrong), RUNTIME (it failed on this input) or BUDGET (it needed
    more work than one evaluation may do).  Equal by value.
    """

    def __init__(self, message: str, line: int, column: int, kind: Kind) -> None:
        super().__init__(message, line, column, kind)
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
"""Variables ready for any number of evaluations; made by `CelEngine.prepare`, read by nobody else."""


@dataclass(frozen=True, slots=True)
class Env:
    """The variables of an expression, with their types, and the type that the expression itself must have.

    Types are written as in schema.json: `string`, `int`, `bool`, `double`, `quantity`, `semver`, `dyn`, `list<T>`,
    `map<T>` (keys are strings), or the name of an API type.  Variables hold plain JSON values.  A program whose result
    is not `bool` answers with the value itself; `dyn` takes any.
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
"""What a TolerationRule sees: the Pod, its claims, the classes that they name, the namespace."""

DEVICE_ENV: Final = Env(variables=(("device", "Device"),))
"""What a device selector sees; the value comes from `tollbar.cel.devices.prepare`."""


@dataclass(slots=True)
class Purse:
    """What a series of evaluations may cost together, in steps (`tollbar.cel.limits`); each takes out what it took.

    One evaluation is bounded by itself; a purse that is empty, or below, says that there should not be another one.
    """

    steps: int


class Program(Protocol):
    """A compiled expression.  Immutable, shareable between threads."""

    @property
    def source(self) -> str: ...

    @property
    def reads(self) -> frozenset[str]:
        """Dotted input paths that the value can depend on; never too few.

        `claims.spec.devices` means that field of every claim, `deviceClasses.metadata.labels` that field of every
        class: lists and the map of classes are transparent.  A path stands for everything below it.
        """
        ...

    def evaluate(self, inputs: Inputs | Mapping[str, Any], purse: Purse | None = None) -> bool | CelError:
        """True, false (the value, if the environment's result is not bool), or why not.

        Never raises; bounded in time and memory whatever the inputs are.
        """
        ...

    def evaluate_partial(
        self, inputs: Inputs | Mapping[str, Any], unknown: frozenset[str], purse: Purse | None = None
    ) -> bool | CelError | Literal[Unknown.UNKNOWN]:
        """Like evaluate, while what is at, above or below a path of `unknown` is not known yet.

        UNKNOWN if the answer can depend on it; any other answer is the one that evaluate gives whatever the values
        turn out to be, but for a budget that they spend.
        """
        ...


class CelEngine(Protocol):
    """Compiles expressions.  Holds no state that an evaluation changes."""

    def compile(self, source: str, env: Env) -> Program:
        """Raises CelError of kind COMPILE, and nothing else, for any string."""
        ...

    def prepare(self, inputs: Mapping[str, Any]) -> Inputs:
        """Whatever can be done once for all programs that will see these inputs."""
        ...
