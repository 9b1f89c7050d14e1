"""Simulations of a few objects, without files and without a command line."""

import json
from collections.abc import Iterable
from typing import Any, Final

import yaml
from objects.builders import Built, pod

from tollbar.cli.simulation.plan import Plan
from tollbar.cli.simulation.playing import Outcome, play
from tollbar.model.objects import Object, key_of
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.plugins import registry

NOW: Final = 1_800_000_000.0
MAIN: Final = {"name": "main", "image": "x"}


def new(name: str = "web") -> Any:
    """A Pod as a file has it."""
    return pod(name).but("metadata.uid", None).but("metadata.creationTimestamp", None)


def in_file(name: str = "web") -> Any:
    """One with all that a file needs."""
    return new(name).but("spec.containers", [MAIN])


def node(name: str, *taints: Object, cpu: str = "4") -> Built:
    return Built(
        apiVersion="v1",
        kind="Node",
        metadata={"name": name, "labels": {"kubernetes.io/hostname": name}},
        spec={"taints": list(taints)} if taints else {},
        status={"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    )


def configuration() -> SchedulerConfiguration:
    return registry.configuration(registry.ONLY_SCHEDULER)


def planned(objects: Iterable[Object], *pods: Object) -> Plan:
    """These objects are there, and these Pods are created then."""
    return Plan(list(objects), [(f"Pod {key_of(each)}", each) for each in pods], NOW)


def outcome(objects: Iterable[Object], *pods: Object, **how: Any) -> Outcome:
    """`how` is that of `play`."""
    return play(planned(objects, *pods), configuration(), **how)


def written(*objects: Any) -> str:
    """As a file has them."""
    return yaml.safe_dump_all([json.loads(json.dumps(each)) for each in objects], sort_keys=False)
