"""The control planes that a lane can run on, as parameters: each is the name of a fixture that offers a `Plane`."""

import os
from typing import NoReturn

import pytest

EMBEDDED = pytest.param("embedded", id="embedded")
REAL = pytest.param("real_plane", id="real", marks=pytest.mark.real)
PLANES = (EMBEDDED, REAL)


def only_real(why: str) -> pytest.MarkDecorator:
    """For a test of a lane that runs on both, and what it needs that the embedded control plane has not."""
    return pytest.mark.parametrize("plane", [REAL], indirect=True, scope="session")


def unavailable(why: str) -> NoReturn:
    """Skip what cannot be tried here; where everything has to be tried (TOLLBAR_REQUIRE_REAL=1), fail."""
    if os.environ.get("TOLLBAR_REQUIRE_REAL") == "1":
        pytest.fail(why)
    pytest.skip(why)
