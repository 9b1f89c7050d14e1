"""Devices that stay with their workload, beside kube-controller-manager's own claim controller.

Before Kubernetes 1.36 that one cannot live with it (tests/e2e/test_reservations_older.py): there the same scenarios are
played with `claims: Replace`.
"""

import pytest
from e2e.workloads import REPLACING
from processes.stack import Stack

from tollbar.devplane.background import BackgroundKubelet
from tollbar.devplane.real.launcher import RealPlane


@pytest.fixture(scope="module")
def stack(request: pytest.FixtureRequest) -> Stack:
    found: Stack = request.getfixturevalue("replaced" if REPLACING else "stack")
    return found


@pytest.fixture(scope="module")
def nodes(request: pytest.FixtureRequest) -> BackgroundKubelet:
    found: BackgroundKubelet = request.getfixturevalue("node" if REPLACING else "nodes")
    return found


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> RealPlane:
    found: RealPlane = request.getfixturevalue("replaced").plane if REPLACING else request.getfixturevalue("plane")
    return found
