"""CEL: the expressions of rules and device selectors, compiled, checked and evaluated within bounds.

Used by decisions through the names below.  Importing this package loads no CEL library; making an engine does.
Hazard: expressions and objects both come from users, so every limit here protects the process (see limits).
"""

from tollbar.cel.interface import (
    BUDGET,
    COMPILE,
    DEVICE_ENV,
    RULE_ENV,
    RUNTIME,
    UNKNOWN,
    CelEngine,
    CelError,
    Env,
    Inputs,
    Program,
    Purse,
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
    "Env",
    "Inputs",
    "Program",
    "Purse",
    "engine",
]


def engine(name: str = "compiled") -> CelEngine:
    """The engine of that name; ValueError if there is none.

    `compiled` and `closures` answer the same and are for production; `cel-python` is a second opinion, for one
    expression at a time (`tollbar.cel.upstream`).
    """
    match name:
        case "compiled":
            from tollbar.cel.compiled import CompilingEngine

            return CompilingEngine()
        case "closures":
            from tollbar.cel.program import ClosuresEngine

            return ClosuresEngine()
        case "cel-python":
            from tollbar.cel.upstream import UpstreamEngine

            return UpstreamEngine()
        case _:
            raise ValueError(f"no CEL engine is called {name}")
