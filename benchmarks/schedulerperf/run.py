"""Runs workloads, each on a fresh control plane, with the schedulers taking turns."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from processes.stack import Stack, installed

from benchmarks import machine
from benchmarks.schedulerperf import phase
from benchmarks.schedulerperf.executor import Executor, WorkloadError
from benchmarks.schedulerperf.files import Chosen
from benchmarks.schedulerperf.operations import CreatePods
from benchmarks.schedulerperf.peers import DEFAULT, QPS, RAISED, TOLLBAR, Peer, contenders
from benchmarks.stage import Stage, clients
from benchmarks.workload import Result, Row, Sample, collect
from tollbar.devplane.binaries import Binaries
from tollbar.devplane.layout import API_SERVER, CONTROLLER_MANAGER, SCHEDULER
from tollbar.devplane.real.components import Options
from tollbar.devplane.real.launcher import RealPlane

DEFAULT_PODS: Final = 500
"""With default limits, which alone decide its rate, kube-scheduler has at most so many Pods to measure."""
OF_RATE = Row("times the rate of kube-scheduler with the same limits", "", digits=2)
OF_CPU = Row("of its CPU", "", digits=2)
OF_SERVER_CPU = Row("of the API server's CPU", "", digits=2)

_CONTROLLERS: Final = (
    "garbage-collector-controller",
    "namespace-controller",
    "resourceclaim-controller",
    "serviceaccount-controller",
)
_APIS: Final = ("v1beta2", "v1beta1", "v1alpha3")
Report = Callable[[str], None]


def options(chosen: Chosen) -> Options:
    """A control plane as upstream starts it: no admission that changes Pods, and the controllers that they need.

    Source: mustSetupCluster of scheduler_perf/util.go.
    """
    given = ",".join(f"{name}={str(value).lower()}" for name, value in sorted(chosen.feature_gates.items()))
    gates = (f"--feature-gates={given}",) if given else ()
    served = ",".join(f"resource.k8s.io/{version}=true" for version in _APIS)
    return Options(
        scheduler=False,
        raised_limits=False,
        flags={
            API_SERVER: (
                *gates,
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition,Priority",
                f"--runtime-config={served}",
                "--delete-collection-workers=8",
            ),
            CONTROLLER_MANAGER: (
                *gates,
                f"--controllers={','.join(_CONTROLLERS)}",
                f"--kube-api-qps={QPS}",
                f"--kube-api-burst={QPS}",
            ),
            SCHEDULER: gates,
        },
    )


@dataclass(frozen=True)
class Runner:
    """`columns` are the schedulers that are compared; the others of the arguments are those of the command."""

    binaries: Binaries
    columns: Sequence[str]
    repetitions: int
    live: bool
    report: Report

    def run(self, chosen: Chosen) -> Result:
        """Blocks until it is done.  Raises WorkloadError; leaves no process and no file behind."""
        with tempfile.TemporaryDirectory(prefix="tollbar-benchmark-") as directory:
            busy = machine.others()
            if busy > machine.QUIET:
                self.report(f"something else keeps {busy:.0%} of this machine busy: the figures will be wrong")
            with (
                RealPlane(self.binaries, Path(directory) / "plane", options(chosen)) as plane,
                installed(plane, Path(directory)) as stack,
            ):
                return asyncio.run(self._repeat(stack, chosen, busy))

    async def _repeat(self, stack: Stack, chosen: Chosen, busy: float) -> Result:
        peers = contenders(stack)
        samples: list[Sample] = []
        size = 0
        async with clients(stack) as stage:
            for turn in range(self.repetitions):
                first = turn % len(self.columns)
                sample: dict[tuple[str, str], float] = {}
                for column in (*self.columns[first:], *self.columns[:first]):
                    measured = await self._turn(stage, chosen, peers, column)
                    if column != DEFAULT:
                        size = max(size, len(measured.times))
                    sample |= {(row.name, column): value for row, value in phase.figures(measured).items()}
                samples.append(sample | ratios(sample))
            return Result(
                workload=chosen.name,
                date=time.strftime("%Y-%m-%d", time.gmtime()),
                machine=await machine.facts(stage, busy),
                size=size,
                repetitions=self.repetitions,
                values=collect(samples),
            )

    async def _turn(self, stage: Stage, chosen: Chosen, peers: Mapping[str, Peer], column: str) -> phase.Phase:
        began = time.monotonic()
        workload = _fewer(chosen) if column == DEFAULT else chosen
        try:
            measured = await Executor(stage, workload, peers[RAISED], peers[column], live=self.live).run()
            shown = phase.figures(measured)
        except (WorkloadError, phase.TooShortError) as error:
            raise WorkloadError(f"{column}: {error}") from error
        took = time.monotonic() - began
        self.report(
            f"{chosen.name}: {column}: {len(measured.times)} Pods, {shown[phase.RATE]:.0f} Pods/s, "
            f"{shown[phase.CPU]:.2f} ms of CPU per Pod; {took:.0f} s in all"
        )
        return measured


def ratios(sample: Sample) -> dict[tuple[str, str], float]:
    """Tollbar's figures of one repetition divided by those of kube-scheduler with the same limits."""
    found = {}
    for row, of in ((phase.RATE, OF_RATE), (phase.CPU, OF_CPU), (phase.SERVER_CPU, OF_SERVER_CPU)):
        ours, theirs = sample.get((row.name, TOLLBAR)), sample.get((row.name, RAISED))
        if ours is not None and theirs:
            found[of.name, TOLLBAR] = ours / theirs
    return found


def _fewer(chosen: Chosen) -> Chosen:
    operations = tuple(
        replace(each, count=min(each.count, DEFAULT_PODS))
        if isinstance(each, CreatePods) and each.collect_metrics and not each.steady_state
        else each
        for each in chosen.operations
    )
    return replace(chosen, operations=operations)
