"""The engines, and Kubernetes' own CEL environments as the oracle."""

import pytest

from tollbar.cel import CelEngine, engine
from tollbar.devplane.binaries import Binaries, BuildError
from tollbar.devplane.real.oracle import Oracle

NAMES = ("compiled", "closures")
"""The engines whose answers have to be those of Kubernetes."""


@pytest.fixture(scope="session")
def engines() -> dict[str, CelEngine]:
    return {name: engine(name) for name in NAMES}


@pytest.fixture(scope="session")
def oracle(binaries: Binaries) -> Oracle:
    """Kubernetes' own environments.  Skips with binaries that were built elsewhere."""
    try:
        return Oracle.of(binaries)
    except BuildError as error:
        pytest.skip(str(error))
