"""What misses its target: by how much, where the time goes, and what was tried."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks import report
from benchmarks.schedulerperf import phase, run
from benchmarks.schedulerperf.peers import TOLLBAR
from benchmarks.schedulerperf.sets import HELD_LONGEST, HELD_P99, Target, target
from benchmarks.workload import Result, Row


@dataclass(frozen=True, slots=True)
class Aim:
    """What a figure of Tollbar should be at most, or at least; `of` says what is divided by kube-scheduler's."""

    row: Row
    value: float
    of: str = ""
    at_least: bool = False

    def __str__(self) -> str:
        return f"at {'least' if self.at_least else 'most'} {self.value:g}"

    def missed_by(self, result: Result) -> float:
        """The share of the target by which the median misses it, as it is shown; 0 if it does not."""
        median = self.median(result)
        if median is None:
            return 0.0
        off = round(median, self.row.digits) / self.value - 1
        return max(0.0, -off if self.at_least else off)

    def median(self, result: Result) -> float | None:
        """None if it was not measured."""
        return result.median(self.row, TOLLBAR)


def aims(of: Target) -> tuple[Aim, ...]:
    """Of figures that are divided by those of kube-scheduler with the same limits."""
    return (
        Aim(run.OF_RATE, of.rate, "Pods/s", at_least=True),
        Aim(run.OF_CPU, of.cpu, "CPU of the scheduler"),
        Aim(run.OF_SERVER_CPU, of.server_cpu, "CPU of the API server"),
    )


HELD: Final = (Aim(phase.HELD_P99, HELD_P99), Aim(phase.HELD, HELD_LONGEST))
"""How long the event loop may be held, of every workload."""
_HELD_ROWS: Final = (phase.HELD_P99, phase.HELD, phase.CPU_HELD_P99, phase.CPU_HELD)

WHY: Final[Mapping[str, str]] = {
    "SchedulingDaemonset": """\
PreFilter leaves one Node for these Pods, so that in both schedulers most of the work is to read Pods and to bind
them. The ratio depends on the machine: on an AMD EPYC (2026-11-28) it was 0.47. Of Tollbar's 0.82 ms of CPU for a Pod
(Intel Xeon, 2026-11-29) 11 % came after the last binding, where Events go on. In a sampled run (py-spy, 4,000 Pods)
35 % were turns of the event loop, the wait for connections in them, 19 scheduling cycles, 12 each bindings and events
of watches, 9 reading from connections, 6 the queue. Tried and kept: Events up to eight at a time.""",
    "Unschedulable": """\
The ratio depends on the machine: on an AMD EPYC (2026-11-27) it was 0.44. Every 200 ms a Pod comes that fits nowhere.
Of Tollbar's 1.54 ms of CPU for a Pod (Intel Xeon, 2026-11-29) 22 % came after the last binding, where Events go on and
Pods that fit nowhere still come. In a sampled run (py-spy, 4,000 Pods) 31 % were turns of the event loop, the wait for
connections in them, 26 scheduling cycles, 12 events of watches, 11 bindings, 9 reading from connections, and 7 the
queue, conditions and Events. Tried and kept: what SchedulingBasic and PreemptionAsync have.""",
    "SchedulingWhileGated": """\
The ratio depends on the machine: on an AMD EPYC (2026-11-27) it was 0.41 (0.40 to 0.61). Of Tollbar's 1.40 ms of CPU
for a Pod (Intel Xeon, 2026-11-28) 34 % came after the last binding: Events, at most 50 a second, while Pods that were
bound before go on being deleted, as many a second, each of which is an event of a watch. The gated Pods stay. The
rest, 0.93 ms, is less than half of what kube-scheduler took, all of it until its last binding: it binds for four times
as long.""",
    "TopologySpreading": """\
The ratio depends on the machine: on an AMD EPYC (2026-11-27) it was 0.38 (0.34 to 0.40), on an Intel Xeon
(2026-11-28) 0.48 (0.43 to 0.48) in one hour and 0.54 in another, in which kube-scheduler took a third more as well.
Of 0.78 ms of CPU for a Pod (AMD EPYC) a scheduling cycle is 25 %, of which the constraint itself is 4 (the table of
cycles has both kinds of Pods). The rest is as for Pods without constraints: to read each Pod twice, as it comes and
as it is bound, the binding, and Events, which went on after the last binding. Tried and kept: counts by domain that
follow the Pods, answers that are kept from Pod to Pod of a spec, the labels that a binding copies, and Events up to
eight at a time.""",
    "PreferredTopologySpreading": """\
As for TopologySpreading; here a cycle is 30 % of 0.81 ms, of which the constraints are 10: scores of all Nodes that
fit are computed anew for each Pod, since each Pod changes them. What kube-scheduler takes for these Pods is a tenth
less than for those that may not go elsewhere, so that the same CPU is a larger share of it. On an AMD EPYC (2026-11-28)
the ratio was 0.42.""",
    "SchedulingPodAntiAffinity": """\
Upstream's workload has 400 Pods, which are bound within a second, and most of what follows are Events. The ratio
depends on the machine: on an AMD EPYC (2026-11-27), where a cycle takes seven tenths of the time, it was 0.43 (0.38
to 0.48). Tried and kept: a burst makes few connections, each of which takes a TLS handshake of 2 ms of CPU here and
as much at the API server; before, on an Intel Xeon (2026-11-28), it was 0.64 (0.62 to 0.73), and of the API server's
CPU 1.28.""",
    "PreemptionAsync": """\
Nearly all CPU of both schedulers comes after the last binding. For as long as is measured, a Pod of high priority
comes every 200 ms and preempts all Pods of a Node. Those of the measured Pods among them have 30 s to terminate, and
no kubelet, so that it waits to the end. Each Pod that goes from another Node wakes all that wait, in both schedulers
(the hint of NodeResourcesFit), for an attempt in vain. With 120 such Pods on 500 Nodes one took 0.99 ms of CPU; by
what its parts took when they were gone, 59 % asked anew about Nodes to which Pods are nominated, and 19 % counted
Nodes for the text. Tried and kept: Pods that wait share what is known of these Nodes, and Nodes are counted as they
change, which makes it 0.22 ms; Events up to eight at a time.""",
    "SchedulingWithResourceClaim": """\
Before status writes were 16 at a time, 21 % of the CPU was the reservation of the claim, 21 % reading from
connections, 19 % watches, and 11 % conditions of Pods that wait for the first one (a sampled run on a busy machine,
2026-11-27). Tried and kept: Filter is asked about the one Node of an allocated claim, and a condition is written only
of Pods that still wait when it is their turn.""",
}
"""By test case: where the scheduler's time goes, in percent of its CPU, and what was tried."""
WHY_HELD: Final = """\
Most of it is the wait for a core: API server, etcd, kube-controller-manager and benchmark share the two with it.
Without that wait, a turn of the event loop is what many steps take that are ready together. Of SchedulingBasic with
2,000 Pods (before what follows, Intel Xeon, one run, each step timed by the CPU of the thread) no step took more than
5 ms, and the longest turns, of 9 to 14 ms, were events of a watch for 4.4 ms, bindings that begin or go on for 3.5
(40 of them), scheduling cycles for 2.3, and answers of up to 34 connections for 1 to 3. What takes longest are
requests for metrics, about 15 ms each.

Tried and kept: others run after 10 events of a watch (20 before) and after 1 ms of scheduling cycles (2 before),
which made the p99 without the wait 6.8 and 8.9 ms where it had been 11.6, and with it 12 where it had been 23
(SchedulingBasic, two runs after it, three before), at the same CPU for a Pod within the spread. The garbage collector
looks at 10,000 objects at a time, and at all young ones after 20 events of a watch, which takes a microsecond of CPU
for an event, since they are still in its cache: by itself it counts what is made less what is freed, so that Pods
which replace others in the caches put a collection off until there are 50,000 young objects and more to look at. With
that and the first snapshot, which is taken in steps, the longest turn of
SchedulingWithResourceClaimTemplate/5000pods_500nodes was 29 ms on the slower machine, where it had been 171, and with
5,000 Nodes 44 where it had been 162. What is left of SchedulingWhileGated with 10,000 Pods is the first snapshot
(found by the stack, in turns of more than 30 ms of CPU): the one Node of that workload has 10,000 Pods when the
scheduler begins, and a Node is one step, of some 9 µs for each of its Pods. The kubelet takes 110 by default. Where
devices provide extended resources, it is kept from Pod to Pod on which Nodes they fit: a cycle with 25 classes takes
half the CPU, and the longest turn of ExtendedResource was 48 ms where it had been 511. Of the rows above, those without
figures for the time without the wait are of 27 and 28 November, of the code before all this."""


def section(results: Sequence[Result]) -> Iterator[str]:
    """Lines of Markdown."""
    rows, cases = [], dict[str, None]()
    for result in results:
        of = target(result.workload)
        for aim in aims(of) if of is not None else ():
            if off := aim.missed_by(result):
                figure = f"{aim.median(result):.{aim.row.digits}f}"
                rows.append([result.workload, aim.of, figure, str(aim), f"{off:.0%}"])
                cases[result.workload.partition("/")[0]] = None
    if rows:
        yield from ("These miss their targets:", "")
        yield report.markdown(["workload", "ratio of", "median", "target", "off by"])
        yield report.markdown(["---", "---", "---:", "---", "---:"])
        yield from map(report.markdown, rows)
        yield ""
    for case in cases:
        yield from why(case)
    yield from _held(results)


def why(case: str) -> list[str]:
    """The explanation of a test case, none if there is none."""
    return [f"*{case}*: {WHY[case]}", ""] if case in WHY else []


def _held(results: Sequence[Result]) -> Iterator[str]:
    late = [each for each in results if any(aim.missed_by(each) for aim in HELD)]
    if not late:
        return
    yield (
        f"The event loop should be held for {HELD_P99:g} ms at most in 99 of 100 readings, and never for more than "
        f"{HELD_LONGEST:g} ms. {len(late)} of {len(results)} workloads miss that:"
    )
    yield ""
    yield report.markdown(["workload", *(f"{row.name.removeprefix('event loop held, ')} (ms)" for row in _HELD_ROWS)])
    yield report.markdown(["---", *["---:"] * len(_HELD_ROWS)])
    for each in late:
        medians = (each.median(row, TOLLBAR) for row in _HELD_ROWS)
        figures = (report.NOTHING if median is None else f"{median:.1f}" for median in medians)
        yield report.markdown([each.workload, *figures])
    yield from ("", WHY_HELD, "")
