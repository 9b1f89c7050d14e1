"""What `tollbar simulate` says of the examples is what becomes of them, beside kube-scheduler; and `tollbar drift`."""

import json
import re
import sys
from pathlib import Path

import pytest
import yaml
from e2e.simulated import EXAMPLES, is_simulated_as_it_becomes, tollbar
from planes.objects import Cluster, as_written
from planes.parameters import since
from plugins import samples
from processes.stack import Stack
from processes.transcripts import Terminal, steps

pytestmark = [pytest.mark.timeout(400), pytest.mark.real]

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tasks" / "find-drift.md").read_text()
RESERVING = since("1.36", "reservations need claims: Replace")
NEWER = {
    "notebook": RESERVING,
    "reserved-keys": since("1.36", "it serves no MutatingAdmissionPolicy"),
    "workload-claim": RESERVING,
}
PLAYED = {
    "alternatives": (),
    "device-prototypes": (),
    "extended-resource": (),
    "notebook": (),
    "quickstart": (),
    "reserved-keys": (),
    "scheduler-plugins": ("--scheduler-config", str(EXAMPLES / "scheduler-plugins" / "scheduler.yaml")),
    "workload-claim": (),
}
"""The examples with their options."""
NOT_PLAYED = {
    "device-quota": ("the gate class quota decides", 1, "1 PodQuota passed over: no gate class decides"),
    "device-tolerations": ("it has no Pod", 2, "no Pod, and no workload"),
    "gate-controller": ("it is a package, without manifests", 2, "no manifest"),
    "kueue": ("Kueue decides, by kinds of its own", 2, 'no kind "ResourceFlavor" of kueue.x-k8s.io/v1beta2 is known'),
    "ordered-migration": ("the gate class ordinal decides, by annotations", 1, "no nodes available"),
    "placement": ("the gate class placement decides", 1, "PlacementRules passed over: no gate class decides"),
    "pod-quota": ("the gate class quota decides", 1, "1 PodQuota passed over: no gate class decides"),
    "reserved-device-keys": ("it has no Pod", 2, "no Pod, and no workload"),
}
"""Why a simulation cannot play an example; its exit code and a part of what it says without a cluster."""
ELSEWHERE = {"pod-group"}
"""In tests/e2e/test_many_consumers.py, on a plane that serves PodGroups."""
AS_THE_SIMULATOR = (
    *("apply", "--server-side", "--force-conflicts", "--field-manager=simulator"),
    *("--dry-run=server", "-o", "json", "-f", "-"),
)
NAME = re.compile(r"night-\w{5}")
"""Drawn by chance."""


def test_every_example_is_simulated_or_has_a_reason() -> None:
    folders = {each.name for each in EXAMPLES.iterdir() if each.is_dir()}
    assert folders == PLAYED.keys() | NOT_PLAYED.keys() | ELSEWHERE


@pytest.mark.parametrize("name", [pytest.param(name, marks=NEWER.get(name, ())) for name in PLAYED])
def test_the_simulation_of_an_example_is_what_becomes_of_it(
    cluster: Cluster, tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    if name == samples.EXAMPLE.name:
        request.getfixturevalue("sample_scheduler")
    policies = EXAMPLES / name / "policies"
    if policies.exists():
        cluster.kubectl("apply", "-k", str(policies))
    is_simulated_as_it_becomes(cluster, name, tmp_path, PLAYED[name])
    if policies.exists():
        cluster.kubectl("delete", "-k", str(policies))


@pytest.mark.parametrize("name", NOT_PLAYED)
def test_what_a_simulation_says_of_an_example_that_it_cannot_play(cluster: Cluster, name: str) -> None:
    _, code, said = NOT_PLAYED[name]
    files = [file for file in (EXAMPLES / name).glob("*.yaml") if file.name != "broken-rule.yaml"]
    names = [argument for file in files or [EXAMPLES / name] for argument in ("-f", str(file))]
    done = tollbar("simulate", *names, cluster=cluster)
    assert (done.returncode, said in done.stdout + done.stderr) == (code, True), done.stderr


def test_a_live_cluster_is_copied_for_the_simulation(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(as_written(cluster.pod("web"))))
    done = tollbar("simulate", "-f", str(file), "--live", "-o", "json", cluster=cluster)
    (found,) = json.loads(done.stdout)["pods"]
    assert (done.returncode, found["node"], cluster.pods()) == (0, "plain", [])


def test_a_record_is_taken_as_kube_scheduler_simulator_imports_it(cluster: Cluster, tmp_path: Path) -> None:
    """Its backend applies every object, without its uid, as the field manager `simulator`.  Nothing is stored here."""
    files, record = tmp_path / "files.yaml", tmp_path / "record.yml"
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": cluster.unique("recorded")}, "status": status}
    files.write_text(yaml.safe_dump_all([node, json.loads(json.dumps(as_written(cluster.pod("web"))))]))
    done = tollbar("simulate", "-f", str(files), "--explain", str(record), cluster=cluster)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(record.read_text())
    (pod,) = found["pods"]
    imported = []
    for obj in (*found["nodes"], pod):
        del obj["metadata"]["uid"]
        imported.append(json.loads(cluster.kubectl(*AS_THE_SIMULATOR, stdin=json.dumps(obj))))
    assert pod["metadata"]["annotations"].items() <= imported[-1]["metadata"]["annotations"].items()
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]


def test_what_the_page_about_drift_says_is_what_happens(cluster: Cluster, stack: Stack, tmp_path: Path) -> None:
    reader = Terminal(cluster.kubectl, cluster.namespace, tmp_path, tmp_path)
    program = tmp_path / "bin" / "tollbar"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m tollbar.cli "$@"\n')
    program.chmod(0o755)

    def told(said: str) -> str:
        return NAME.sub("night-NAME", reader.told(said))

    for step in steps(
        PAGE.replace("-n default", f"-n {cluster.namespace}").replace("default/", f"{cluster.namespace}/")
    ):
        said = reader.types(step.commands)
        assert told(step.output) in told(said), f"{step.output}\nafter\n{step.commands}\nnot\n{said}"
