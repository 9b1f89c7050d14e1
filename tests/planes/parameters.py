"""The control planes that a lane can run on, as parameters: each is the name of a fixture that offers a `Plane`.

The real one is of the Kubernetes minor that TOLLBAR_KUBERNETES names, such as 1.35.
"""

import os
from typing import Any, NoReturn

import pytest

from tollbar.devplane.binaries import DEFAULT_VERSION

KUBERNETES = os.environ.get("TOLLBAR_KUBERNETES") or DEFAULT_VERSION
EMBEDDED = pytest.param("embedded", id="embedded")
REAL = pytest.param("real_plane", id="real", marks=pytest.mark.real)
PLANES = (EMBEDDED, REAL)


def only_real(why: str) -> pytest.MarkDecorator:
    """For a test of a lane that runs on both, and what it needs that the embedded control plane has not."""
    return pytest.mark.parametrize("plane", [REAL], indirect=True, scope="session")


def real_too(wanted: bool, why: str) -> pytest.MarkDecorator:
    """For a test of a lane that runs on both and takes long: on the real one only where that is `wanted`."""
    real = pytest.param("real_plane", id="real", marks=[pytest.mark.real, pytest.mark.skipif(not wanted, reason=why)])
    return pytest.mark.parametrize("plane", [EMBEDDED, real], indirect=True, scope="session")


def since(minor: str, why: str) -> pytest.MarkDecorator:
    """For what holds of this Kubernetes and newer ones."""
    return pytest.mark.skipif(is_before(minor), reason=f"Kubernetes before {minor}: {why}")


def before(minor: str, why: str) -> pytest.MarkDecorator:
    """For what holds of Kubernetes older than this."""
    return pytest.mark.skipif(not is_before(minor), reason=f"Kubernetes {minor} and newer: {why}")


def is_before(minor: str) -> bool:
    """Whether the real control plane is older than this."""
    own, other = (tuple(map(int, version.split("."))) for version in (KUBERNETES, minor))
    return own < other


def needs_kubectl(plane: Any) -> None:
    """For what types kubectl: the embedded plane brings none, and can do without."""
    if not getattr(plane, "has_kubectl", True):
        unavailable("no kubectl: build the real control plane once, or put one on the PATH")


def unavailable(why: str) -> NoReturn:
    """Skip what cannot be tried here; where everything has to be tried (TOLLBAR_REQUIRE_REAL=1), fail."""
    if os.environ.get("TOLLBAR_REQUIRE_REAL") == "1":
        pytest.fail(why)
    pytest.skip(why)
