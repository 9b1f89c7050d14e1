"""The engines whose answers are compared."""

import pytest

from tollbar.cel import CelEngine, engine

NAMES = ("compiled", "closures")
"""The engines whose answers have to be those of Kubernetes."""


@pytest.fixture(scope="session")
def engines() -> dict[str, CelEngine]:
    return {name: engine(name) for name in NAMES}
