"""CEL: the expressions of rules and device selectors, compiled, checked and evaluated within bounds.

How an expression travels from its text to an answer, by the modules that it passes:

    text      lexing      limits of the source; strings are taken out and decoded
              parser      cel-python's grammar, then our tree (syntax); macros are resolved
              constants   quantities, times, patterns of literals alone are computed
              check       types against schema, with hints; schema.json is the Kubernetes API
              reads       the paths that it depends on, and where it does
    program   program     all of the above in order, and evaluation by closures, also when inputs are unknown
              compiled    evaluation by a Python function (emit, loops, writer, pycode), closures where that fails
    answer    operations, values    what selection, ==, `in` and literals do to values, and what values there are
              library     the table of functions: functions says how one is declared; operators, conversions (numbers),
                          strings, formatting, patterns, lists, optionals, times, kubernetes, network, urls, formats

Beside the way: interface is what others may know, limits what an evaluation may spend, devices makes the input of
selectors, encoding prints values, memo keeps programs, upstream is cel-python's evaluator for comparison.

Used by decisions through the names below.  Importing this package loads no CEL library; making an engine does.
Hazard: expressions and objects both come from users, so every limit here protects the process (see limits).
"""

from tollbar.cel.core.interface import (
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
            from tollbar.cel.engines.compiled import CompilingEngine

            return CompilingEngine()
        case "closures":
            from tollbar.cel.engines.program import ClosuresEngine

            return ClosuresEngine()
        case "cel-python":
            from tollbar.cel.engines.celpython import UpstreamEngine

            return UpstreamEngine()
        case _:
            raise ValueError(f"no CEL engine is called {name}")
