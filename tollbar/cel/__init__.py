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


def engine(name: str = "cel-python") -> CelEngine:
    """The engine of that name; ValueError if there is none."""
    if name != "cel-python":
        raise ValueError(f"no CEL engine is called {name}")
    from tollbar.cel.interpreter import InterpretingEngine

    return InterpretingEngine()
