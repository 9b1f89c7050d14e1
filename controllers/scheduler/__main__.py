"""The scheduler process: `python -m controllers.scheduler`, or `tollbar scheduler`.

Its configuration file is kube-scheduler's, a KubeSchedulerConfiguration; flags replace single fields.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from controllers.scheduler import profiles_of, setup
from tollbar.runtime import config, options, process
from tollbar.runtime.config import Configuration
from tollbar.runtime.manager import Manager
from tollbar.scheduler.cache.snapshot import Snapshot
from tollbar.scheduler.config.document import ConfigError
from tollbar.scheduler.config.load import API_VERSION, KIND
from tollbar.scheduler.config.profiles import check_queue_sort
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.framework.handle import Handle
from tollbar.scheduler.plugins import registry
from tollbar.scheduler.queue import NominatedPods, Settings

_NAME: Final = "tollbar-scheduler"
_WITHOUT_FILE: Final = f"""
apiVersion: {API_VERSION}
kind: {KIND}
leaderElection: {{resourceName: {_NAME}}}
profiles: [{{schedulerName: {_NAME}}}]
"""
_IN_FLIGHT: Final = 1024
"""Calls under way at one time: bindings that are not answered may not use up those of other Pods."""
_STATUS_DELAY: Final = 0.25
"""Seconds: most bindings take less, and whoever adds Nodes for Pods that find none takes longer."""
_NO_CALLS: Final[Any] = None
_UNCONNECTED: Final = Handle(
    snapshot=Snapshot(),
    nominator=NominatedPods(lambda _key: None),
    dra=None,
    calls=_NO_CALLS,
    now=float,
    monotonic=float,
)
"""With it plugins are made once, to find out whether their arguments are right before anything is connected."""


@dataclass(frozen=True, slots=True)
class _Configured:
    """What the process needs as every process does, and how it schedules."""

    process: Configuration
    scheduler: SchedulerConfiguration


def _load(path: str | None, overrides: Mapping[str, object]) -> _Configured:
    """Raises `tollbar.runtime.config.ConfigError`, with the place in the file."""
    try:
        scheduler = registry.configuration(_WITHOUT_FILE if path is None else Path(path).read_text(encoding="utf-8"))
        available = registry.available()
        profiles = {each.scheduler_name: each for each in scheduler.profiles}
        check_queue_sort(
            profiles, {name: registry.plugins(each, available, _UNCONNECTED) for name, each in profiles.items()}
        )
    except (OSError, UnicodeDecodeError) as error:
        raise config.ConfigError((("", f"cannot read {path}: {error}"),)) from None
    except ConfigError as error:
        raise config.ConfigError(tuple(("", f"{path}: {line}") for line in str(error).splitlines())) from None
    election, limits = scheduler.leader_election, scheduler.client_connection
    given = {
        "leaderElection.enabled": election.leader_elect,
        "leaderElection.leaseName": election.resource_name,
        "leaderElection.leaseDuration": f"{election.lease_duration:g}s",
        "leaderElection.renewDeadline": f"{election.renew_deadline:g}s",
        "leaderElection.retryPeriod": f"{election.retry_period:g}s",
        "clientConnection.qps": limits.qps,
        "clientConnection.burst": limits.burst,
        "clientConnection.inFlight": _IN_FLIGHT,
    }
    flags = {field: value for field, value in overrides.items() if value is not None}
    return _Configured(config.load(None, given | flags), scheduler)


def _run(configured: _Configured, kubeconfig: str | None) -> int:
    kubeconfig = kubeconfig or configured.scheduler.client_connection.kubeconfig or None
    return process.run("scheduler", partial(_setup, configured.scheduler), configured.process, kubeconfig)


async def _setup(configuration: SchedulerConfiguration, manager: Manager) -> None:
    settings = Settings(
        initial_backoff=configuration.pod_initial_backoff_seconds,
        max_backoff=configuration.pod_max_backoff_seconds,
    )
    setup(manager, profiles_of(configuration, registry.available()), settings, status_delay=_STATUS_DELAY)


command = options.command(
    "scheduler",
    _run,
    load=_load,
    help="Schedule Pods as kube-scheduler does: those with schedulerName tollbar-scheduler, or as the file says.",
    flags=(*options.ELECTING, *options.LIMITS, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
