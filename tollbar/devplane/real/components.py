"""The components of a real control plane: which of them run, with which flags and ports.

Pure: everything here is a function of its arguments.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, ETCD, IDENTITIES, SCHEDULER, START_ORDER, Layout
from tollbar.devplane.ports import HOST

ISSUER: Final = "https://kubernetes.default.svc.cluster.local"

_RAISED_LIMITS: Final = ("--kube-api-qps=1000", "--kube-api-burst=2000")
_HUGE_MEGABYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """Which components run, and with which flags; the defaults are a whole control plane."""

    controller_manager: bool = True
    scheduler: bool = True
    raised_limits: bool = True
    """Lift the client rate limits of controller manager and scheduler; off where the defaults are measured."""
    node_grace: str = "24h"
    """How long a Node without heartbeats stays Ready; the components' own default is 50s."""
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Additional flags by component; they come last, so they override."""

    @property
    def components(self) -> tuple[str, ...]:
        """The components to run, in start order."""
        left_out = {
            CONTROLLER_MANAGER: not self.controller_manager,
            SCHEDULER: not self.scheduler,
        }
        return tuple(name for name in START_ORDER if not left_out.get(name))


@dataclass(frozen=True, slots=True)
class Ports:
    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


def arguments(component: str, layout: Layout, ports: Ports, options: Options) -> list[str]:
    """The flags of a component, without the executable."""
    build = {
        ETCD: _etcd,
        API_SERVER: _api_server,
        CONTROLLER_MANAGER: _controller_manager,
        SCHEDULER: _scheduler,
    }[component]
    return [*build(layout, ports, options), *options.flags.get(component, ())]


def _etcd(layout: Layout, ports: Ports, _options: Options) -> list[str]:
    client, peer = f"http://{HOST}:{ports.etcd}", f"http://{HOST}:{ports.etcd_peer}"
    return [
        f"--data-dir={layout.etcd_data}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
    ]


def _api_server(layout: Layout, ports: Ports, _options: Options) -> list[str]:
    return [
        f"--etcd-servers=http://{HOST}:{ports.etcd}",
        f"--bind-address={HOST}",
        f"--secure-port={ports.api_server}",
        f"--cert-dir={layout.certificates(API_SERVER)}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=RBAC",
        "--allow-privileged=true",
        f"--service-account-issuer={ISSUER}",
        f"--service-account-key-file={layout.account_key}",
        f"--service-account-signing-key-file={layout.account_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        # A loopback address may not appear in Endpoints; nobody reads the kubernetes Service here.
        "--endpoint-reconciler-type=none",
        f"--audit-policy-file={layout.audit_policy}",
        f"--audit-log-path={layout.audit_log}",
        f"--audit-log-maxsize={_HUGE_MEGABYTES}",  # rotation would lose a reader's position
    ]


def _controller_manager(layout: Layout, ports: Ports, options: Options) -> list[str]:
    return [
        *_client(CONTROLLER_MANAGER, layout, ports.controller_manager, options),
        # With its own identity alone RBAC refuses nearly everything that its controllers do.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.account_key}",
        f"--root-ca-file={layout.authority}",
        f"--node-monitor-grace-period={options.node_grace}",
    ]


def _scheduler(layout: Layout, ports: Ports, options: Options) -> list[str]:
    return _client(SCHEDULER, layout, ports.scheduler, options)


def _client(component: str, layout: Layout, port: int, options: Options) -> list[str]:
    identity = layout.identity(component)
    return [
        f"--kubeconfig={identity}",
        f"--authentication-kubeconfig={identity}",
        f"--authorization-kubeconfig={identity}",
        "--leader-elect=false",
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--cert-dir={layout.certificates(component)}",
        *(_RAISED_LIMITS if options.raised_limits else ()),
    ]


def audit_policy() -> dict[str, Any]:
    """Every write, with the body where it concerns Pods; reads only of users whose grants a test may compare."""
    reads = ["get", "list", "watch"]
    writes = ["create", "update", "patch", "delete", "deletecollection"]
    return {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "nonResourceURLs": ["*"]},
            {
                "level": "None",
                "verbs": reads,
                "userGroups": ["system:masters", "system:serviceaccounts:kube-system"],
            },
            {
                "level": "None",
                "verbs": reads,
                "users": [user for user, group in IDENTITIES.values() if not group],
            },
            {
                "level": "Request",
                "verbs": writes,
                "resources": [{"group": "", "resources": ["pods", "pods/*"]}],
            },
            {"level": "Metadata"},
        ],
    }
