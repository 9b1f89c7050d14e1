"""KubeSchedulerConfiguration with its defaults filled in.  Times are in seconds.

Source: types.go of k8s.io/kube-scheduler/config/v1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tollbar.scheduler.framework.interface import Arguments


@dataclass(frozen=True, slots=True)
class EnabledPlugin:
    """A weight of 0 stands for 1."""

    name: str
    weight: int = 0


@dataclass(frozen=True, slots=True)
class PluginSet:
    """The plugins of one extension point; `*` disables all that are enabled by default."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """How Pods with this `schedulerName` are scheduled.

    `plugins` are by the field of the extension point (`multiPoint`, `preFilter`), `args` by plugin.
    """

    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None
    """None for that of the configuration."""
    plugins: Mapping[str, PluginSet] = field(default_factory=dict)
    args: Mapping[str, Arguments] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LeaderElection:
    leader_elect: bool
    lease_duration: float
    renew_deadline: float
    retry_period: float
    resource_lock: str
    resource_name: str
    resource_namespace: str


@dataclass(frozen=True, slots=True)
class ClientConnection:
    kubeconfig: str
    accept_content_types: str
    content_type: str
    qps: float
    burst: int


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
    parallelism: int
    leader_election: LeaderElection
    client_connection: ClientConnection
    enable_profiling: bool
    enable_contention_profiling: bool
    percentage_of_nodes_to_score: int
    """0 for a number of Nodes that suits the size of the cluster."""
    pod_initial_backoff_seconds: int
    pod_max_backoff_seconds: int
    delay_cache_until_active: bool
    profiles: tuple[Profile, ...]
