"""The results of scheduler_perf's workloads, as JSON in benchmarks/results and as a section of docs/performance.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from benchmarks import report
from benchmarks.schedulerperf import misses, phase, run
from benchmarks.schedulerperf.executor import RESTLESS_SECONDS
from benchmarks.schedulerperf.peers import COLUMNS, QPS, RAISED, TOLLBAR
from benchmarks.schedulerperf.sets import SETS, target
from benchmarks.workload import Result, Row, Sheet

_ROWS: Final = (
    phase.RATE,
    run.OF_RATE,
    phase.AVERAGE,
    *phase.PERCENTILES.values(),
    phase.CPU,
    run.OF_CPU,
    phase.LAST_CPU,
    phase.ALL_CPU,
    phase.SERVER_CPU,
    run.OF_SERVER_CPU,
    phase.ATTEMPT,
    phase.ATTEMPT_P50,
    phase.ATTEMPT_P99,
    phase.ALGORITHM,
    phase.ALGORITHM_P99,
    phase.WRITES,
    phase.EVENTS,
    phase.START_CPU,
    phase.RSS,
    phase.HELD_P99,
    phase.HELD,
    phase.CPU_HELD_P99,
    phase.CPU_HELD,
)
_FILE: Final = "schedule.json"
_ABOUT: Final = f"""\
Upstream measures kube-scheduler with scheduler_perf, which is a list of workloads and templates for Nodes, Pods and
claims (`test/integration/scheduler_perf` in the Go module k8s.io/kubernetes). The same files are run here, against
kube-scheduler and `tollbar scheduler`, each as a process of its own beside the same control plane, in turns. Both get
`clientConnection` with upstream's limits ({QPS:,} requests a second, as many at once). kube-scheduler is measured with
its default limits as well, with at most {run.DEFAULT_PODS} Pods, unless `--peer raised` leaves that out: these limits
alone decide its rate. Tollbar is the only scheduler then, with `exclusive: all`. kube-controller-manager makes the
claims for templates for both.

Before metrics are collected, kube-scheduler schedules for both, so that each finds the same cluster. Then it is
stopped, the Pods that are measured are created, and the measured scheduler starts with that backlog. (`--live` creates
them while it runs, as upstream does; on a small machine the rate is then that of the creation.) *Pods in one second*
are upstream's samples: the first second with a Pod is left out. CPU counts from the first binding until the scheduler
rests, that is, has written what follows from the bindings, and for {RESTLESS_SECONDS:g} s at most after the last one;
kube-scheduler records an Event for every Pod, Tollbar at most 50 a second. What a scheduler has worked out before its
first binding is in the figure *with its start and first lists*. Latencies are those of the histograms
`scheduler_scheduling_attempt_duration_seconds` and `scheduler_scheduling_algorithm_duration_seconds` of both processes;
their smallest bucket ends at 1 ms, so look at the means. Tollbar's event loop is *held* while nothing else of the
process can run, the wait for a core included; *without the wait for a core*, time that its thread waits for one in the
midst of its work does not count.

`make bench W=schedule` runs the set for 500 Nodes, `make bench W='schedule --nodes 5000'` the one for 5,000, and
`make bench W='schedule -w SchedulingBasic/500Nodes -w TopologySpreading/500Nodes'` some workloads. A workload has
upstream's name, and after commas other values for its parameters:
`SchedulingDaemonset/15000Nodes,initNodes=500,measurePods=1000`. Results stay until their workload is measured again.
For a first impression, `python -m benchmarks schedule -w SchedulingBasic/500Nodes -n 1 --peer raised` is quick and
rewrites nothing. `python -m benchmarks schedule --list` says which workloads cannot be run."""


@dataclass
class Book:
    """All results by workload, and the workloads that cannot be run, with the reason."""

    results: dict[str, Result] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        text = json.dumps(
            {"refused": self.refused, "results": [asdict(each) for each in self.results.values()]}, indent=2
        )
        path.write_text(text + "\n")


def book() -> Book:
    """What was saved last."""
    path = _path()
    if not path.exists():
        return Book()
    found = json.loads(path.read_text())
    return Book({each["workload"]: Result(**each) for each in found["results"]}, found["refused"])


def _path() -> Path:
    return report.RESULTS / _FILE


def record(*results: Result, refused: Mapping[str, str]) -> Path:
    """Put these results in the place of those of the same workloads; where they are."""
    kept = book()
    kept.results |= {each.workload: each for each in results}
    kept.refused = dict(refused)
    kept.save(_path())
    return _path()


def sheet(result: Result) -> Sheet:
    """How the result of a workload is shown."""
    of = target(result.workload)
    aims = (*(misses.aims(of) if of is not None else ()), *misses.HELD)
    targets = {aim.row: str(aim) for aim in aims}
    return Sheet(
        name=result.workload,
        title=result.workload,
        about="",
        columns=tuple(each for each in COLUMNS if any(each in found for found in result.values.values())),
        rows=tuple(replace(row, target=targets.get(row, "")) for row in _ROWS if row.name in result.values),
        size=result.size,
        things="Pods",
    )


def section() -> str:
    """The section of docs/performance.md."""
    kept = book()
    results = [kept.results[name] for name in _in_order(kept)]
    lines = ["## Scheduling (`schedule`)", "", _ABOUT, "", *_summary(results)]
    lines += [*misses.section(results), *_not_run(kept.refused)]
    for result in results:
        lines += [f"### {result.workload}", "", *report.figures(sheet(result), result), ""]
    return "\n".join(lines)


def _in_order(kept: Book) -> list[str]:
    first = [name for each in SETS.values() for name in each if name in kept.results]
    return [*first, *sorted(kept.results.keys() - set(first))]


def _summary(results: Sequence[Result]) -> Iterator[str]:
    """One line for each workload: medians beside kube-scheduler with the same limits."""
    if not results:
        yield from ("Not measured yet.", "")
        return
    yield "Medians; details are below."
    yield ""
    if missing := [name for each in SETS.values() for name in each if name not in {of.workload for of in results}]:
        yield from (f"Not measured yet: {', '.join(missing)}.", "")
    of_each = ["kube-scheduler", "ratio", "target"]
    yield report.markdown(
        ["workload", "Pods/s", *of_each, "CPU, ms/Pod", *of_each, "API server's CPU, ms/Pod", *of_each]
    )
    yield report.markdown(["---", *["---:"] * 12])
    for result in results:
        aims = target(result.workload)
        yield report.markdown(
            [
                result.workload,
                _median(result, phase.RATE, TOLLBAR),
                _median(result, phase.RATE, RAISED),
                _median(result, run.OF_RATE, TOLLBAR),
                f"{aims.rate:g}" if aims else "",
                _median(result, phase.CPU, TOLLBAR),
                _median(result, phase.CPU, RAISED),
                _median(result, run.OF_CPU, TOLLBAR),
                f"{aims.cpu:g}" if aims else "",
                _median(result, phase.SERVER_CPU, TOLLBAR),
                _median(result, phase.SERVER_CPU, RAISED),
                _median(result, run.OF_SERVER_CPU, TOLLBAR),
                f"{aims.server_cpu:g}" if aims else "",
            ]
        )
    yield ""


def _median(result: Result, row: Row, column: str) -> str:
    median = result.median(row, column)
    return report.NOTHING if median is None else f"{median:,.{row.digits}f}"


def _not_run(refused: Mapping[str, str]) -> Iterator[str]:
    """Reasons, each with the workloads that it concerns, by test case."""
    if not refused:
        return
    yield "Not run, and why:"
    yield ""
    reasons: dict[str, dict[str, list[str]]] = {}
    for name, reason in refused.items():
        case, _, workload = name.partition("/")
        reasons.setdefault(reason, {}).setdefault(case, []).append(workload)
    for reason, cases in reasons.items():
        named = "; ".join(f"{case} ({', '.join(workloads)})" for case, workloads in cases.items())
        yield f"- {reason}: {named}."
    yield ""
