"""What `tollbar simulate` says of the examples is what becomes of them, beside kube-scheduler; and `tollbar drift`.

The simulation begins with a dump of the very cluster, taken just before the Pods are created.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cluster import Cluster, as_written, is_compiled
from planes import since
from stack import Stack, eventually
from transcripts import Terminal, steps

from tollbar import wellknown
from tollbar.decide.pods import tolerations
from tollbar.model import tolerations as texts
from tollbar.model.objects import Object, key_of, labels_of

pytestmark = [pytest.mark.timeout(400), pytest.mark.real]

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "manifests" / "examples"
PAGE = (ROOT / "docs" / "tasks" / "find-drift.md").read_text()
RESERVING = since("1.36", "reservations need claims: Replace")
NEEDS = {"notebook": ("device-class.yaml", "claim-templates.yaml", "rule.yaml")}
"""Of the quickstart."""
NAMES = [
    "alternatives",
    "device-prototypes",
    "extended-resource",
    pytest.param("notebook", marks=RESERVING),
    "quickstart",
    pytest.param("workload-claim", marks=RESERVING),
]
"""The other one brings plugins, and nodes of its own for their scheduler."""
REFUSED = "broken-rule.yaml"
MAKERS = ("Pod", "Deployment")
NAME = re.compile(r"night-\w{5}")
"""Drawn by chance."""


def manifests(name: str) -> tuple[list[Path], list[Path]]:
    """The files with Pods or what makes them, and the others; definitions come first."""
    files = [file for file in sorted((EXAMPLES / name).glob("*.yaml")) if file.name != REFUSED]
    with_pods = [file for file in files if any(obj["kind"] in MAKERS for obj in yaml.safe_load_all(file.read_text()))]
    needed = [EXAMPLES / "quickstart" / each for each in NEEDS.get(name, ())]
    return with_pods, [*needed, *(file for file in files if file not in with_pods)]


def tollbar(*arguments: str, cluster: Cluster) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tollbar.cli", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env=cluster.kubectl.environment() | {"KUBECONFIG": str(cluster.kubectl.kubeconfig)},
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_simulation_of_an_example_is_what_becomes_of_it(cluster: Cluster, tmp_path: Path, name: str) -> None:
    with_pods, others = manifests(name)
    for file in others:
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", str(file))
        for obj in yaml.safe_load_all(file.read_text()):
            if obj["kind"] == "TolerationRule":
                is_compiled(cluster, obj)
            elif obj["kind"] == "CustomResourceDefinition":
                cluster.kubectl("wait", "--for=condition=Established", "-f", str(file), "--timeout=60s")
    dump = tmp_path / "dump.json"
    taken = tollbar("dump", "-o", str(dump), cluster=cluster)
    assert taken.returncode == 0, taken.stderr

    files = [argument for file in with_pods for argument in ("-f", str(file))]
    done = tollbar(
        *("simulate", *files, "-n", cluster.namespace, "--cluster", str(dump), "-o", "json"), cluster=cluster
    )
    simulated = in_order(map(outlined, json.loads(done.stdout)["pods"]))
    for file in with_pods:
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", str(file))

    def become() -> list[Object]:
        """What has become of the Pods, once all are decided."""
        pods = [decided(cluster, key_of(pod).name) for pod in cluster.pods()]
        return in_order(real(cluster, pod) for pod in pods if pod) if len(pods) == len(simulated) and all(pods) else []

    assert eventually(become, what="all Pods are decided") == simulated
    for file in others:
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-n", cluster.namespace, "-f", str(file))


def test_a_live_cluster_is_copied_for_the_simulation(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(as_written(cluster.pod("web"))))
    done = tollbar("simulate", "-f", str(file), "--live", "-o", "json", cluster=cluster)
    (found,) = json.loads(done.stdout)["pods"]
    assert (done.returncode, found["node"], cluster.pods()) == (0, "plain", [])


def in_order(outlines: Iterable[Object]) -> list[Object]:
    """Pods of a Deployment have other names each time."""
    return sorted(outlines, key=lambda each: json.dumps(each, sort_keys=True))


def decided(cluster: Cluster, name: str) -> Object | None:
    """The Pod, once kube-scheduler has found a Node for it, or none."""
    pod = cluster.get(name)
    conditions = {each["type"]: each for each in pod["status"].get("conditions") or ()}
    scheduled = conditions.get("PodScheduled") or {}
    return pod if scheduled.get("status") == "True" or scheduled.get("reason") == "Unschedulable" else None


def outlined(found: Object) -> Object:
    """What is compared of a simulated Pod: chance is in the names of claims."""
    return {
        "decision": found["admission"]["decision"].replace("not asked", "ignored"),
        "added": found["tolerationsAdded"],
        "claims": [(each["reference"], each["name"][:-5]) for each in found["claims"]],
        "devices": [(each["request"], each["driver"], each["pool"], each["device"]) for each in found["devices"]],
        "node": found["node"],
    }


def real(cluster: Cluster, pod: Object) -> Object:
    """The same of a Pod of the cluster."""
    entries = tolerations.provenance_of(pod)
    added = [
        {"toleration": texts.text(each), "rule": entry["rule"], "via": entry["via"]}
        for entry in entries
        for each in entry["added"]
    ]
    gated = wellknown.LABEL_GATE in labels_of(pod)
    named = [(each["name"], each["resourceClaimName"]) for each in pod["status"].get("resourceClaimStatuses") or ()]
    named += [
        (each["name"], each["resourceClaimName"])
        for each in pod["spec"].get("resourceClaims") or ()
        if "resourceClaimName" in each
    ]
    return {
        "decision": "gated" if gated else "tolerated" if "admission" in {e["via"] for e in entries} else "ignored",
        "added": added,
        "claims": [(reference, name[:-5]) for reference, name in named],
        "devices": [device for _, name in named for device in devices(cluster, name)],
        "node": pod["spec"].get("nodeName"),
    }


def devices(cluster: Cluster, claim: str) -> list[Any]:
    found = cluster.kubectl.json("get", "resourceclaim", claim, "-n", cluster.namespace)
    results = ((found.get("status") or {}).get("allocation") or {}).get("devices", {}).get("results") or []
    return [tuple(each[member] for member in ("request", "driver", "pool", "device")) for each in results]


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
