"""scheduler_perf's workloads: all can be read, and small ones come to their end with every scheduler.

The figures are none of a test's business.
"""

from collections.abc import Iterator

import pytest
from planes.parameters import since, unavailable
from processes.stack import Stack, installed

from benchmarks.schedulerperf import files, phase
from benchmarks.schedulerperf.executor import Executor
from benchmarks.schedulerperf.files import Case
from benchmarks.schedulerperf.operations import Refused
from benchmarks.schedulerperf.peers import RAISED, TOLLBAR, contenders
from benchmarks.schedulerperf.run import options
from benchmarks.schedulerperf.sets import SETS
from benchmarks.stage import clients
from tollbar.devplane.binaries import DEFAULT_VERSION, Binaries
from tollbar.devplane.real.launcher import RealPlane
from tollbar.model.resources import NODES, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES

pytestmark = since(DEFAULT_VERSION, "the workloads are of that version")

BASIC = "SchedulingBasic/5Nodes,initNodes=20,initPods=10,measurePods=50"
CLAIMS = "SchedulingWithResourceClaimTemplate/fast,nodesWithDRA=2,initClaims=5"


@pytest.fixture(scope="module")
def cases(binaries: Binaries) -> dict[str, Case]:
    try:
        return files.load(files.locate(lambda _line: None))
    except Refused as error:
        unavailable(f"no workloads: {error}")


@pytest.fixture(scope="module")
def plane(binaries: Binaries, cases: dict[str, Case], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealPlane]:
    directory = tmp_path_factory.mktemp("schedulerperf")
    with RealPlane(binaries, directory / "plane", options(files.choose(cases, CLAIMS))) as running:
        yield running


@pytest.fixture(scope="module")
def stack(plane: RealPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with installed(plane, tmp_path_factory.mktemp("stack")) as running:
        yield running


def test_every_workload_that_is_measured_can_be_planned(cases: dict[str, Case]) -> None:
    for name in (*SETS["500"], *SETS["5000"]):
        files.choose(cases, name)


def test_what_is_refused_is_what_tollbar_does_not_have(cases: dict[str, Case]) -> None:
    """A workload that a newer Kubernetes adds, or a template that it writes otherwise, is not left out unnoticed."""
    assert {reason.partition(":")[0] for reason in files.refused(cases).values()} == {
        "the feature gate GenericWorkload=true",
        "the feature gate DRADeviceCompatibilityGroups=true",
        "the feature gate DRAListTypeAttributes=true",
        "the feature gate NodeDeclaredFeatures=false",
        "its Go test runs code of its own",
        "no Pod is scheduled while it collects metrics",
        "the parameter measurePods is not given",
    }


RUNS = {
    "a backlog, kube-scheduler": (BASIC, RAISED, False, 50),
    "a backlog, Tollbar": (BASIC, TOLLBAR, False, 50),
    "Pods that come while it runs": (BASIC, TOLLBAR, True, 50),
    "gates, a barrier and deletions": ("SchedulingWhileGated/1Node_10GatedPods", TOLLBAR, False, 10),
    "claims of which some are allocated": (f"{CLAIMS},measurePods=10", TOLLBAR, False, 10),
    "a steady state": (f"{CLAIMS},measurePods=2,steadyState=true,duration=4s", TOLLBAR, False, 2),
    "updates, and a phase of its own": ("EventHandlingNodeUpdate/2Nodes_20Pods", TOLLBAR, False, 20),
}


@pytest.mark.parametrize(("name", "peer", "live", "least"), RUNS.values(), ids=RUNS)
async def test_a_workload_is_measured_and_leaves_nothing_behind(
    plane: RealPlane, stack: Stack, cases: dict[str, Case], name: str, peer: str, live: bool, least: int
) -> None:
    peers = contenders(stack)
    async with clients(stack) as stage:
        measured = await Executor(
            stage, files.choose(cases, name), peers[RAISED], peers[peer], live=live, patience=60.0
        ).run()
        left = [await stage.admin.list(each) for each in (PODS, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES)]
    assert [each["items"] for each in left] == [[]] * len(left)
    assert len(measured.times) >= least
    assert measured.attempts.count >= least
    assert measured.algorithm.count >= least
    assert len(measured.writes["pods/binding"]) >= least
    assert [bool(each) for each in measured.stalls] == [peer == TOLLBAR] * 2
    found = phase.figures(measured)
    assert found.keys() >= {phase.RATE, phase.CPU, phase.SERVER_CPU, phase.RSS, phase.ATTEMPT, phase.ALGORITHM}
    assert found[phase.RSS] > 10
