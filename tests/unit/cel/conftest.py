"""One engine, and an environment whose variables may hold anything."""

from collections.abc import Callable
from typing import Any

import pytest

from tollbar.cel import CelError, Env
from tollbar.cel.interpreter import InterpretingEngine, Measured

ANYTHING = Env(variables=(("x", "dyn"), ("y", "dyn")))

Answer = Callable[..., Any]


@pytest.fixture(scope="session")
def cel() -> InterpretingEngine:
    return InterpretingEngine()


@pytest.fixture(scope="session")
def measured(cel: InterpretingEngine) -> Callable[..., Measured]:
    """Compile and evaluate: `measured("x == y", x=1, y=2)`."""

    def measure(source: str, **inputs: Any) -> Measured:
        try:
            return cel.compile(source, ANYTHING).measure(inputs)
        except CelError as error:
            return Measured(error, 0, 0)

    return measure


@pytest.fixture(scope="session")
def answer(measured: Callable[..., Measured]) -> Answer:
    """The answer alone; an error as (kind, what str() gives)."""

    def evaluate(source: str, **inputs: Any) -> Any:
        found = measured(source, **inputs).answer
        return (found.kind, str(found)) if isinstance(found, CelError) else found

    return evaluate
