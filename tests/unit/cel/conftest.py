"""The engines, and an environment whose variables may hold anything.

Every table about what expressions mean runs on both engines of ours.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cel.costs import Measured, measure

from tollbar.cel import CelError, Env
from tollbar.cel.engines.closures import ClosuresEngine
from tollbar.cel.engines.compiled import CompilingEngine

ANYTHING = Env(variables=(("x", "dyn"), ("y", "dyn")))

Answer = Callable[..., Any]


@pytest.fixture(scope="session", params=[CompilingEngine(), ClosuresEngine()], ids=["compiled", "closures"])
def cel(request: pytest.FixtureRequest) -> CompilingEngine | ClosuresEngine:
    engine: CompilingEngine | ClosuresEngine = request.param
    return engine


@pytest.fixture(scope="session")
def measured(cel: CompilingEngine | ClosuresEngine) -> Callable[..., Measured]:
    """Compile and evaluate: `measured("x == y", x=1, y=2)`."""

    def compiled_and_measured(source: str, **inputs: Any) -> Measured:
        try:
            return measure(cel.compile(source, ANYTHING), inputs)
        except CelError as error:
            return Measured(error, 0, 0)

    return compiled_and_measured


@pytest.fixture(scope="session")
def answer(measured: Callable[..., Measured]) -> Answer:
    """The answer alone; an error as (kind, what str() gives)."""

    def evaluate(source: str, **inputs: Any) -> Any:
        found = measured(source, **inputs).answer
        return (found.kind, str(found)) if isinstance(found, CelError) else found

    return evaluate


@pytest.fixture(scope="session")
def value(cel: CompilingEngine | ClosuresEngine) -> Answer:
    """The same for expressions that are not bool."""

    def evaluate(source: str, **inputs: Any) -> Any:
        try:
            found = cel.compile(source, replace(ANYTHING, result="dyn")).evaluate(inputs)
        except CelError as error:
            found = error
        return (found.kind, str(found)) if isinstance(found, CelError) else found

    return evaluate
