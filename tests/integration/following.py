"""What the API server comes to know a moment after it has answered: it follows its own objects by watches."""

import time
from collections.abc import Callable
from typing import Any

from processes.stack import eventually

from tollbar.api import crds
from tollbar.devplane.kubectl import Kubectl, KubectlError

_PATIENCE = 60.0
_KINDS = {crd["metadata"]["name"] for crd in crds.all_crds()}


def settles(ask: Callable[[], Any], want: Any) -> None:
    """Assert that this becomes the answer, before long."""
    deadline = time.monotonic() + _PATIENCE
    while (found := ask()) != want and time.monotonic() < deadline:
        time.sleep(0.02)
    assert found == want


def until_kubectl_knows(kubectl: Kubectl) -> None:
    """Wait until our kinds are discovered, which comes after their definitions are established."""
    eventually(lambda: set(_discovered(kubectl)) >= _KINDS, what="our kinds discovered")


def _discovered(kubectl: Kubectl) -> list[str]:
    try:
        return kubectl("api-resources", "--api-group=tollbar.dev", "-o", "name").split()
    except KubectlError:  # the group is on its way
        return []


def until_it_can_come_back(kubectl: Kubectl, namespace: str) -> None:
    """Wait until admission has heard that a namespace is gone: it refuses what is created in one that ends."""

    def is_unknown() -> bool:
        try:
            kubectl("create", "configmap", "tried", "-n", namespace, "--dry-run=server")
        except KubectlError as error:
            return "not found" in error.stderr
        return False

    eventually(is_unknown, what=f"namespace {namespace} forgotten")
