"""`tollbar demo` as a newcomer runs it: to its end, interrupted, and where it cannot work; never a trace is left."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tollbar.model.resources import PODS
from tollbar.runtime.client import Client
from tollbar.runtime.metrics import Metrics

pytestmark = pytest.mark.timeout(240)

REAL = pytest.mark.real
GONE = "and gone with the WorkloadClaim that it was made for"
"""Which takes kube-controller-manager up to 30 seconds, so the story does not wait for it there."""
PROVEN = [
    "a ",
    "two nodes: plain, and gpu with 2 devices and taint example.com/gpu=true:NoSchedule",
    "Tollbar: webhook",
    "checked, compiled and in force: condition Ready",
    "created with the toleration in it, added at admission by rule gpu-nodes",
    "Tollbar's writes to it since: none",
    "held: scheduling gate tollbar.dev/tolerations, label tollbar.dev/gate=held",
    'it says why, in an event: "waiting for DeviceClass large-gpu.example.com',
    "released with the toleration, added by rule gpu-nodes",
    "Tollbar's writes to it: 1 patch",
    "created as it was written",
    "the scheduler bound it to node plain",
    "Tollbar's writes to it: none",
    "rejected: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
    "it got the toleration after all, added by rule gpu-node-agents",
    "which woke it: tried again at once, and bound to node gpu",
    "the scheduler, ",
    "Tollbar's writes to it: 1 patch with toleration and record together",
    "refused: spec.match.cel.expression, line 2, column ",
    "pod-a: claim pod-a-gpu-",
    "the scheduler gave it device gpu-",
    "pod-b: claim pod-b-gpu-",
    "the scheduler gave it device gpu-",
    "device gpu-",
    "and so is claim pod-a-gpu-",
    "claim analysis-gpu has device gpu-",
    "the Pod is gone; the Notebook keeps the claim, and device gpu-",
    "Pod A comes back, and finds no device: 0/2 nodes are available: ",
    "claim analysis-gpu is deallocated with its last reservation",
    GONE,
    "Pod A runs on node gpu, with device gpu-",
]
POD, NOTEBOOK = "pods/analysis", "notebooks.example.com/analysis"
SCHEDULERS = {"embedded": "tollbar.dev/scheduler", "real": "default-scheduler"}
MAKERS = {"embedded": "tollbar-controllers", "real": "kube-controller-manager"}


class Run:
    """A demonstration in a temporary directory of its own, and its traces."""

    def __init__(self, directory: Path) -> None:
        self.mark = uuid.uuid4().hex
        self.files = directory
        self.environment = {
            **os.environ,
            "TMPDIR": str(directory),
            "TOLLBAR_TEST_RUN": self.mark,
            "PYTHONIOENCODING": "utf-8",
            "COLUMNS": "200",
        }

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tollbar.cli", "demo", *arguments],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def traces(self) -> tuple[list[str], list[str]]:
        """Command lines of processes of this run, and files that it left."""
        lines = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (process / "environ").read_bytes():
                    lines.append((process / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return lines, sorted(path.name for path in self.files.iterdir())


@pytest.fixture
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    if request.node.get_closest_marker("real"):
        request.getfixturevalue("binaries")
    return Run(tmp_path)


def until(process: subprocess.Popen[str], text: str) -> str:
    """What the process printed up to and with the first line that has the text."""
    assert process.stdout is not None
    printed = ""
    for line in process.stdout:
        printed += line
        if text in line:
            return printed
    raise AssertionError(f"it ended without {text!r}:\n{printed}")


async def nodes_of_pods(kubeconfig: str) -> list[str]:
    client = await Client.connect(kubeconfig=kubeconfig, metrics=Metrics(), user_agent="tollbar-tests")
    try:
        return [pod["spec"]["nodeName"] for pod in (await client.list(PODS, "default"))["items"]]
    finally:
        await client.close()


@pytest.mark.parametrize("plane", ["embedded", pytest.param("real", marks=REAL)])
def test_every_step_is_shown_to_have_happened_and_nothing_is_left(run: Run, plane: str) -> None:
    process = run.start("--plane", plane)
    story, errors = process.communicate()

    proofs = [line.strip().removeprefix("✓ ") for line in story.splitlines() if line.strip().startswith("✓")]
    wanted = [want for want in PROVEN if (plane, want) != ("real", GONE)]
    missing = [want for want, proof in zip(wanted, proofs, strict=False) if not proof.startswith(want)]
    assert (process.returncode, missing, len(proofs), "\x1b" in story) == (0, [], len(wanted), False), story + errors
    assert run.traces() == ([], [])
    makers = re.findall(r"made from template \S+ by (\S+)", story)
    assert makers == [MAKERS[plane]] * 2
    assert f'the scheduler, {SCHEDULERS[plane]}, says so: "Successfully assigned default/pod-d to gpu"' in story
    assert re.findall(r"^ {7}(\S+/analysis)$", story, re.MULTILINE) == [NOTEBOOK, POD, NOTEBOOK]
    pointed = re.search(r"line 2, column .*\n(?: {5}\S.*\n)?(?: {7}.*\n) {7}(?P<line>.*)\n {7}(?P<mark> +)\^", story)
    assert pointed is not None
    assert pointed["line"][len(pointed["mark"])] == "="


OF_GATES = [
    "in force for the namespaces with label tollbar.dev/quota=example: condition Ready",
    "train-a fits, and is let go",
    "train-b fits, and is let go",
    'train-c is held: "tollbar.dev/quota: waiting for cpu in PodQuota example"',
    "one ends, and it is let go",
    "compiled and in force: condition Ready",
    "created with the node affinity of batch-pool in it:",
    'train has a claim that nobody knows yet, and is held: "tollbar.dev/placement: waiting for',
    "let go and narrowed in one patch:",
]
OF_ORDINALS = [
    "old-1 is Ready, and so is old-0 before it",
    'new-0 is held: "tollbar.dev/ordinal: waiting for Pod default/old-0 to be gone"',
    "new-0 was let go when old-0 was gone, and new-1 when new-0 was Ready",
]


@pytest.mark.parametrize("plane", ["embedded", pytest.param("real", marks=REAL)])
def test_the_gate_classes_have_chapters_of_their_own(run: Run, plane: str) -> None:
    process = run.start("--gates", "--plane", plane)
    story, errors = process.communicate()

    proofs = [line.strip().removeprefix("✓ ") for line in story.splitlines() if line.strip().startswith("✓")]
    wanted = [*OF_GATES, *(OF_ORDINALS if plane == "real" else [])]
    told = proofs[-len(wanted) :]
    missing = [want for want, proof in zip(wanted, told, strict=False) if not proof.startswith(want)]
    assert (process.returncode, missing) == (0, []), story + errors
    assert run.traces() == ([], [])


@pytest.mark.parametrize(
    ("plane", "moment", "number"),
    [
        pytest.param("real", "The stage", signal.SIGINT, marks=REAL),
        pytest.param("real", "etcd is ready", signal.SIGTERM, marks=REAL),
        ("embedded", "two nodes", signal.SIGINT),
        ("embedded", "Pod B asks", signal.SIGTERM),
    ],
)
def test_interrupted_at_any_moment_it_cleans_up(run: Run, plane: str, moment: str, number: signal.Signals) -> None:
    process = run.start("--plane", plane)
    until(process, moment)
    process.send_signal(number)
    _, errors = process.communicate()

    assert (process.returncode, "Traceback" in errors, run.traces()) == (130, False, ([], [])), errors


def test_kept_it_stays_until_it_is_interrupted(run: Run) -> None:
    process = run.start("--keep")
    story = until(process, "Ctrl-C")
    exported = re.search(r"export KUBECONFIG=(\S+)", story)
    assert exported is not None
    nodes = asyncio.run(nodes_of_pods(exported[1]))
    process.send_signal(signal.SIGINT)
    process.communicate()

    assert (nodes, process.returncode, run.traces()) == (["gpu", "gpu", "plain", "gpu"], 0, ([], []))


@REAL
def test_without_a_control_plane_it_says_so_in_one_line(run: Run, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    process = run.start("--plane", "real", KUBEBUILDER_ASSETS=str(empty))
    story, errors = process.communicate()

    assert (process.returncode, errors) == (1, "Error: the demonstration did not come to its end\n")
    assert "FAILED KUBEBUILDER_ASSETS has no" in story.replace("✗", "FAILED")
    assert run.traces() == ([], ["empty"])


def test_a_process_of_ours_that_dies_ends_the_story(run: Run) -> None:
    process = run.start()
    story = until(process, "Tollbar: webhook")
    pid = re.search(r"webhook \(pid (\d+)\)", story)
    assert pid is not None
    os.kill(int(pid[1]), signal.SIGKILL)
    story, errors = process.communicate()

    processes, files = run.traces()
    [kept] = [name for name in files if name.startswith("tollbar-")]  # a killed process leaves files of its libraries
    assert (process.returncode, errors, processes) == (1, "Error: the demonstration did not come to its end\n", [])
    assert "✗ webhook was ended by SIGKILL\n" in story
    assert (run.files / kept / "logs" / "webhook.log").stat().st_size > 0
