"""What `tollbar simulate` says of Pods beside what becomes of them in a cluster, by kube-scheduler or ours.

The simulation begins with a dump of the very cluster, taken just before the Pods are created.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from planes.objects import Cluster, is_compiled
from processes.stack import eventually_is

from tollbar import wellknown
from tollbar.decide.pods import tolerations
from tollbar.model import conditions
from tollbar.model import tolerations as texts
from tollbar.model.objects import Object, key_of, labels_of

EXAMPLES = Path(__file__).parents[2] / "manifests" / "examples"
NEEDS = {"notebook": ("device-class.yaml", "claim-templates.yaml", "rule.yaml")}
"""Of the quickstart."""
LEFT_OUT = {
    "broken-rule.yaml": "it is refused",
    "pod-agent.yaml": "its ServiceAccount decides, of which a simulation knows nothing",
    "pod-helps-itself.yaml": "a policy of the API server refuses it, of which a simulation knows nothing",
    "scheduler.yaml": "the configuration of a scheduler",
    "small-node.yaml": "it comes after the Pods, which is what they are about",
    "three-classes.yaml": "its Pods are there before their Node",
}
MAKERS = ("Pod", "Deployment")


def documents(file: Path) -> list[Object]:
    return list(yaml.safe_load_all(file.read_text()))


def manifests(name: str) -> tuple[list[Path], list[Path]]:
    """The files with Pods or what makes them, and the others; definitions come first."""
    files = [file for file in sorted((EXAMPLES / name).glob("*.yaml")) if file.name not in LEFT_OUT]
    with_pods = [file for file in files if any(obj["kind"] in MAKERS for obj in documents(file))]
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


def is_simulated_as_it_becomes(cluster: Cluster, name: str, directory: Path, options: Sequence[str] = ()) -> None:
    """Apply an example, simulate its Pods with these `options`, create them, and wait until they are as simulated.

    The first decision about a Pod is not always the last: one that shares a claim is unschedulable while kube-scheduler
    allocates the claim for another one.
    """
    with_pods, others = manifests(name)
    for file in others:
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", str(file))
        for obj in documents(file):
            _is_ready(cluster, file, obj)
    dump = directory / "dump.json"
    taken = tollbar("dump", "-o", str(dump), cluster=cluster)
    assert taken.returncode == 0, taken.stderr

    files = [argument for file in with_pods for argument in ("-f", str(file))]
    done = tollbar(
        *("simulate", *files, "-n", cluster.namespace, "--cluster", str(dump), "-o", "json", *options), cluster=cluster
    )
    assert done.stdout, done.stderr
    simulated = in_order(map(outlined, json.loads(done.stdout)["pods"]))
    for file in with_pods:
        cluster.kubectl("apply", "-n", cluster.namespace, "-f", str(file))

    def become() -> list[Object]:
        """What has become of the Pods, once all are decided."""
        pods = [decided(cluster, key_of(pod).name) for pod in cluster.pods()]
        return in_order(real(cluster, pod) for pod in pods if pod) if len(pods) == len(simulated) and all(pods) else []

    eventually_is(simulated, become)
    for file in (*with_pods, *others):
        cluster.kubectl("delete", "--ignore-not-found", "--wait=false", "-n", cluster.namespace, "-f", str(file))


def _is_ready(cluster: Cluster, file: Path, obj: Object) -> None:
    """What follows from the object is there."""
    match obj["kind"]:
        case "TolerationRule":
            is_compiled(cluster, obj)
        case "CustomResourceDefinition":
            cluster.kubectl("wait", "--for=condition=Established", "-f", str(file), "--timeout=60s")
        case "WorkloadClaim" if "podGroup" in obj["spec"]:
            name = f"workloadclaim/{key_of(obj).name}"
            cluster.kubectl("wait", "-n", cluster.namespace, "--for=condition=PodGroupReady", name, "--timeout=60s")


def in_order(outlines: Iterable[Object]) -> list[Object]:
    """Pods of a Deployment have other names each time."""
    return sorted(outlines, key=lambda each: json.dumps(each, sort_keys=True))


def decided(cluster: Cluster, name: str) -> Object | None:
    """The Pod, once its scheduler has found a Node for it, or none."""
    pod = cluster.get(name)
    found = conditions.of(pod, "PodScheduled")
    return pod if found.get("status") == "True" or found.get("reason") == "Unschedulable" else None


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
