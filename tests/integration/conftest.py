"""Integration tests run on both control planes; a file or a test that needs the real one says why."""

from typing import Any

import pytest
from planes import PLANES, unavailable


@pytest.fixture(scope="session", params=PLANES)
def plane(request: pytest.FixtureRequest) -> Any:
    found = request.getfixturevalue(request.param)
    if request.param == "embedded" and not found.has_kubectl:
        unavailable("no kubectl: build the real control plane once, or put one on the PATH")
    return found
