"""A plane whose ServiceAccounts reach it through the proxy: what a Stack is given so that its processes meet faults."""

from pathlib import Path
from typing import Any

from faultproxy.server import FaultProxy


class ProxiedPlane:
    """Everything else, kubectl and the administrator's kubeconfig included, is the plane's own: tests see the truth."""

    def __init__(self, plane: Any, proxy: FaultProxy) -> None:
        self._plane = plane
        self._proxy = proxy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plane, name)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        return self._proxy.kubeconfig(self._plane.service_account_kubeconfig(namespace, name))
