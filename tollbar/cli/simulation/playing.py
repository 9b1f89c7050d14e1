"""A simulation from its plan to its outcome, on a loop of its own."""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controllers.scheduler.cycle import Attempt
from tollbar.cli import console
from tollbar.cli.expansion import expand
from tollbar.cli.simulation import report
from tollbar.cli.simulation.cluster import End, SimulatedCluster, SimulatedPod
from tollbar.cli.simulation.loop import VirtualLoop
from tollbar.cli.simulation.plan import Plan
from tollbar.cli.simulation.records import Records
from tollbar.cli.simulation.report import Result
from tollbar.cli.simulation.verdicts import Seen
from tollbar.model.objects import Key, Object, key_of
from tollbar.scheduler.algorithm import Scheduled
from tollbar.scheduler.config.types import SchedulerConfiguration
from tollbar.scheduler.framework.diagnosis import FitError
from tollbar.scheduler.framework.status import Status

MAX_COPIES: Final = 10_000
"""Copies beyond which it is not tried how many fit."""
_BATCH: Final = 1024
"""Copies that are tried at a time, at most."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`fit` is how many copies fit, if that was asked; `snapshot` is what was tried, if that was recorded.

    `objects` are those of the simulated cluster at the end, and `seen` what was found of its Nodes, if a page is made.
    """

    results: tuple[Result, ...]
    victims: tuple[Object, ...]
    end: End
    seconds: float
    fit: int | None = None
    snapshot: Object | None = None
    objects: tuple[Object, ...] = ()
    seen: Seen | None = None

    @property
    def fitting(self) -> str:
        """How many copies fit; empty if that was not asked."""
        if self.fit is None:
            return ""
        return f"{self.fit}{' or more' if self.fit >= MAX_COPIES else ''}"


def play(
    plan: Plan,
    scheduler: SchedulerConfiguration,
    replicas: int | None = None,
    seconds: float | None = None,
    records: Records | None = None,
    *,
    for_page: bool = False,
) -> Outcome:
    """Play it.  `replicas` of 0 is as many as fit, `seconds` of None until it is settled."""
    loop = VirtualLoop()
    with (
        _without_warnings(),
        console.terminable(),
        _progress() as progress,
        asyncio.Runner(loop_factory=lambda: loop) as runner,
    ):
        return runner.run(_play(loop, plan, scheduler, replicas, seconds, records, progress, for_page=for_page))


async def _play(
    loop: VirtualLoop,
    plan: Plan,
    scheduler: SchedulerConfiguration,
    replicas: int | None,
    seconds: float | None,
    records: Records | None,
    progress: Progress | None,
    *,
    for_page: bool,
) -> Outcome:
    """On this loop, which runs."""
    task = progress.add_task("Pods with a Node", total=None) if progress is not None else None

    def on_progress() -> None:
        if progress is not None and task is not None:
            progress.update(task, advance=1, total=len(cluster.created))

    origins: dict[Key, str] = {}
    seen = Seen(origins.get) if for_page else None

    def observe(attempt: Attempt, result: Scheduled | FitError | Status) -> None:
        for each in (records, seen):
            if each is not None:
                each(attempt, result)

    cluster = SimulatedCluster(
        loop,
        start=plan.start,
        scheduler=scheduler,
        unserved=plan.unserved,
        on_progress=on_progress,
        observe=observe,
    )
    cluster.put(plan.objects)

    def create(given: Sequence[tuple[str, Object]], count: int | None, first: int = 0) -> list[SimulatedPod]:
        """The Pods of these workloads with `count` copies (None for their own number), without the `first` ones."""
        new = []
        for origin, obj in given:
            made = expand(obj, count)
            if not first:
                cluster.put(made.objects)
            for pod in made.pods[first:]:
                origins[key_of(pod)] = origin
                new.append(cluster.create(pod))
        return new

    fit: int | None = None
    async with cluster.running():
        create(plan.moved, None)
        if replicas == 0:
            copies: list[SimulatedPod] = []
            done, batch = 0, 1
            while True:
                copies += create(plan.new, done + batch, done)
                end = await cluster.settle(seconds)
                done += batch
                if done >= MAX_COPIES or not all(copy.has_node for copy in copies):
                    break
                batch = min(2 * batch, _BATCH, MAX_COPIES - done)
            fit = sum(copy.has_node for copy in copies)
        else:
            create(plan.new, replicas)
            end = await cluster.settle(seconds)
        found = tuple(report.result(cluster, each, origins[key]) for key, each in cluster.created.items())
    profiles = [each.scheduler_name for each in scheduler.profiles]
    snapshot = records.snapshot(cluster.api.all, profiles) if records is not None else None
    objects = tuple(cluster.api.everything()) if for_page else ()
    return Outcome(found, tuple(cluster.victims), end, cluster.now, fit, snapshot, objects, seen)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """What controllers warn of is in the outcome."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _progress() -> Iterator[Progress | None]:
    """On a terminal alone."""
    terminal = console.stderr()
    if not console.is_terminal(terminal):
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        yield progress
