"""CEL: the expressions of rules and device selectors are checked, compiled and evaluated within limits.

The subpackages, each of which imports only from those below it:

    engines            compiled (Python functions), closures, celpython (that library's evaluator, for comparison)
    analysis           constant folding, type check, read sets
    syntax | library   from text to tree | the functions, methods and operators
    core               interface, limits and costs, values and their equality, static types, schema of the API

Beside them stand `devices` (inputs of device selectors), `encoding` (values as JSON) and `cache` (compiled programs).
Importing this package loads no CEL library; making an engine does.
"""

from tollbar.cel.analysis.reads import project
from tollbar.cel.cache import ProgramCache
from tollbar.cel.core.interface import (
    BUDGET,
    COMPILE,
    DEVICE_ENV,
    RULE_ENV,
    RUNTIME,
    UNKNOWN,
    CelEngine,
    CelError,
    CostBudget,
    Env,
    Inputs,
    Program,
)

__all__ = [
    "BUDGET",
    "COMPILE",
    "DEVICE_ENV",
    "RULE_ENV",
    "RUNTIME",
    "UNKNOWN",
    "CelEngine",
    "CelError",
    "CostBudget",
    "Env",
    "Inputs",
    "Program",
    "ProgramCache",
    "engine",
    "failing_constants",
    "project",
    "use_engine",
]

_used = "compiled"
"""The name of the engine that this process uses."""


def failing_constants(source: str, env: Env) -> list[CelError]:
    """The parts of an expression that read no input and fail whenever they are evaluated, such as `1 / 0`.

    Kubernetes compiles such an expression, and so does this package.  Each part is the largest; parts that only a
    macro's variable makes fail are not found, and none in an expression that does not compile.
    """
    from tollbar.cel.engines.closures import failing_constants

    return failing_constants(source, env)


def use_engine(name: str) -> None:
    """Have `engine` make engines of this name where none is given, from now on and in the whole process."""
    global _used
    _used = name


def engine(name: str = "") -> CelEngine:
    """A new engine of that name, by default of the one that this process uses; ValueError if there is none.

    `compiled`, which a process uses unless told otherwise, and `closures` give the same answers and are for production;
    `cel-python` is for comparison.
    """
    match name or _used:
        case "compiled":
            from tollbar.cel.engines.compiled import CompilingEngine

            return CompilingEngine()
        case "closures":
            from tollbar.cel.engines.closures import ClosuresEngine

            return ClosuresEngine()
        case "cel-python":
            from tollbar.cel.engines.celpython import CelPythonEngine

            return CelPythonEngine()
        case _:
            raise ValueError(f"there is no CEL engine named {name or _used}")
