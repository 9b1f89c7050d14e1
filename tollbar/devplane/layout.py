"""The directory of a control plane: where its files are, and the names of its components and identities.

An embedded plane and a real one share it, so that either can be stopped by whoever knows the directory.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ETCD: Final = "etcd"
API_SERVER: Final = "kube-apiserver"
CONTROLLER_MANAGER: Final = "kube-controller-manager"
SCHEDULER: Final = "kube-scheduler"
EMBEDDED: Final = "embedded"
"""The one process of an embedded control plane, which shares layout and state file with a real one."""
START_ORDER: Final = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER)

IDENTITIES: Final = {
    "admin": ("tollbar:admin", "system:masters"),
    CONTROLLER_MANAGER: ("system:kube-controller-manager", ""),
    SCHEDULER: ("system:kube-scheduler", ""),
}
"""User name and group behind each token of the token file."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a plane keeps its files, all below one directory of its own."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "state.json"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        return self.root / "bin" / "kubectl"

    @property
    def kubectl_cache(self) -> Path:
        return self.root / "kubectl-cache"

    @property
    def etcd_data(self) -> Path:
        return self.root / "etcd"

    @property
    def tokens(self) -> Path:
        return self.root / "pki" / "tokens.csv"

    @property
    def account_key(self) -> Path:
        return self.root / "pki" / "service-accounts.key"

    @property
    def authority(self) -> Path:
        """Certificate of the API server and of the authority that signed it, made by the API server itself."""
        return self.certificates(API_SERVER) / "apiserver.crt"

    @property
    def audit_policy(self) -> Path:
        return self.root / "audit-policy.json"

    @property
    def audit_log(self) -> Path:
        return self.root / "logs" / "audit.log"

    def certificates(self, component: str) -> Path:
        return self.root / "pki" / component

    def identity(self, component: str) -> Path:
        """The kubeconfig that a component uses."""
        return self.root / "pki" / f"{component}.kubeconfig"

    def log(self, component: str) -> Path:
        return self.root / "logs" / f"{component}.log"
