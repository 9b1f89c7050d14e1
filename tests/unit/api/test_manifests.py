"""The manifests, read as files: up to date with the code, safe defaults, and no right too many."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tollbar import wellknown
from tollbar.api.gates import parse_gate
from tollbar.api.quotas import PodQuota, parse_quota
from tollbar.api.rules import TolerationRule, parse_rule
from tollbar.api.workloads import WorkloadClaim, parse_workload_claim
from tollbar.runtime import options

ROOT = Path(__file__).parents[3]
MANIFESTS = ROOT / "manifests"


def documents(folder: str) -> Iterator[dict[str, Any]]:
    for path in sorted((MANIFESTS / folder).rglob("*.yaml")):
        yield from (document for document in yaml.safe_load_all(path.read_text()) if isinstance(document, dict))


def of_kind(folder: str, kind: str) -> dict[str, dict[str, Any]]:
    return {found["metadata"]["name"]: found for found in documents(folder) if found.get("kind") == kind}


def test_generated_files_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts/generate_crds.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_rights_of_the_processes() -> None:
    rights = {
        name: sorted(
            f"{verb} {group or 'core'}/{resource}"
            for rule in role["rules"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        )
        for name, role in of_kind("base/rbac", "ClusterRole").items()
        if name in ("tollbar-webhook", "tollbar-controllers")
    }
    watched = sorted(
        f"{verb} {resource}"
        for verb in ("list", "watch")
        for resource in (
            "core/namespaces",
            "resource.k8s.io/deviceclasses",
            "resource.k8s.io/resourceclaims",
            "resource.k8s.io/resourceclaimtemplates",
            "tollbar.dev/schedulinggates",
            "tollbar.dev/tolerationrules",
        )
    )
    assert rights == {
        "tollbar-webhook": watched,
        "tollbar-controllers": sorted(
            [
                *watched,
                "list core/pods",
                "watch core/pods",
                "patch core/pods",
                "create events.k8s.io/events",
                "patch events.k8s.io/events",
                "create tollbar.dev/schedulinggates",
                "patch tollbar.dev/schedulinggates/status",
                "patch tollbar.dev/tolerationrules/status",
                "list admissionregistration.k8s.io/mutatingwebhookconfigurations",
                "watch admissionregistration.k8s.io/mutatingwebhookconfigurations",
            ]
        ),
    }


def test_rights_for_reservations() -> None:
    """What is written, and which kinds of workloads are read; nothing but PodGroups is deleted."""
    roles = of_kind("base/rbac", "ClusterRole")
    verbs = {
        name: {
            f"{group or 'core'}/{resource}": sorted(rule["verbs"])
            for rule in roles[name].get("rules", [])
            for group in rule["apiGroups"]
            for resource in rule["resources"]
        }
        for name in ("tollbar-reservations", "tollbar-workloads-common", "tollbar-workloads")
    }
    read, written = ["get", "list", "watch"], ["patch", "update"]
    assert verbs == {
        "tollbar-reservations": {
            "resource.k8s.io/resourceclaims": ["create", "get", "patch"],
            "resource.k8s.io/resourceclaimtemplates": ["get"],
            "resource.k8s.io/resourceclaims/status": written,
            "resource.k8s.io/resourceclaims/binding": written,
            "core/pods": ["get"],
            "tollbar.dev/workloadclaims": read,
            "tollbar.dev/workloadclaims/status": ["patch"],
            "scheduling.k8s.io/podgroups": ["create", "delete", "list", "watch"],
        },
        "tollbar-workloads-common": {
            "core/replicationcontrollers": read,
            "apps/deployments": read,
            "apps/replicasets": read,
            "apps/statefulsets": read,
            "apps/daemonsets": read,
            "batch/jobs": read,
            "batch/cronjobs": read,
            "jobset.x-k8s.io/jobsets": read,
        },
        "tollbar-workloads": {},
    }
    assert roles["tollbar-workloads"]["aggregationRule"]["clusterRoleSelectors"] == [
        {"matchLabels": {wellknown.LABEL_AGGREGATE: "true"}}
    ]


def test_rights_for_certificates() -> None:
    """The two configurations are written under their names alone, which kustomize changes together with theirs."""
    kinds = {"mutatingwebhookconfigurations": "tollbar-pods", "validatingwebhookconfigurations": "tollbar-rules"}
    group = {"apiGroups": ["admissionregistration.k8s.io"]}
    assert of_kind("base/rbac", "ClusterRole")["tollbar-certificates"]["rules"] == [
        {**group, "resources": ["validatingwebhookconfigurations"], "verbs": ["list", "watch"]},
        *({**group, "resources": [kind], "resourceNames": [name], "verbs": ["patch"]} for kind, name in kinds.items()),
    ]


def test_outside_the_cluster_roles_there_are_only_the_lease_a_claim_that_is_tried_and_the_authority() -> None:
    secret = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tollbar-webhook-ca"]}
    assert [found["rules"] for found in of_kind("base/rbac", "Role").values()] == [
        [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {**secret, "verbs": ["list", "watch", "patch"]},
        ],
        [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["tollbar-controllers"],
                "verbs": ["get", "update"],
            },
            {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["create"]},
        ],
        [
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["tollbar-controllers"],
                "verbs": ["list", "watch"],
            },
            {**secret, "verbs": ["list", "watch"]},
        ],
    ]


DEPLOYMENTS = of_kind("base", "Deployment")


@pytest.mark.parametrize("name", ["tollbar-controllers", "tollbar-webhook"])
def test_pods_of_ours(name: str) -> None:
    """Two of each, apart from one another, restricted, probed, bounded, and never gated by ourselves."""
    spec = DEPLOYMENTS[name]["spec"]
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    pod_security = {key: pod["securityContext"][key] for key in ("runAsNonRoot", "runAsUser", "seccompProfile")}
    assert {
        "replicas": spec["replicas"],
        "priority": pod["priorityClassName"],
        "apart": [(each["topologyKey"], each["labelSelector"]) for each in pod["topologySpreadConstraints"]],
        "account": pod["serviceAccountName"],
        "skipped": spec["template"]["metadata"]["labels"]["tollbar.dev/skip"],
        "selector": spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items(),
        "pod": pod_security,
        "container": container["securityContext"],
        "probes": {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")},
        "bounded": "memory" in container["resources"]["limits"],
        "environment": [variable["name"] for variable in container["env"]],
        "longer than the shutdown": pod["terminationGracePeriodSeconds"] > 30,
    } == {
        "replicas": 2,
        "priority": "system-cluster-critical",
        "apart": [(key, spec["selector"]) for key in ("kubernetes.io/hostname", "topology.kubernetes.io/zone")],
        "account": name,
        "skipped": "true",
        "selector": True,
        "pod": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "container": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "probes": {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"},
        "bounded": True,
        "environment": ["POD_NAME", "POD_NAMESPACE"],
        "longer than the shutdown": True,
    }


@pytest.mark.parametrize(
    ("name", "flags"), [("tollbar-webhook", options.SERVING), ("tollbar-controllers", options.LEADING)]
)
def test_the_arguments_are_the_commands(name: str, flags: tuple[options.Flag, ...]) -> None:
    (container,) = DEPLOYMENTS[name]["spec"]["template"]["spec"]["containers"]
    known = {
        text
        for flag in (*options.COMMON, *flags)
        for declared in flag.declaration
        for text in declared.split("/")
        if text.startswith("--")
    }
    subcommand, *arguments = container["args"]
    assert (subcommand, [each for each in arguments if each.split("=")[0] not in known]) == (name.split("-")[1], [])


def test_every_object_has_the_label_by_which_drain_finds_what_is_ours() -> None:
    bare = [
        f"{found['kind']} {found['metadata']['name']}"
        for folder in ("base", "components")
        for found in documents(folder)
        if "metadata" in found and found["metadata"].get("labels", {}).get("app.kubernetes.io/name") != "tollbar"
    ]
    assert bare == []


EXAMPLES = {
    f"{path.parent.name}/{path.name} {document.get('metadata', {}).get('name', '')}".strip(): document
    for path in sorted((MANIFESTS / "examples").rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
}


def test_examples_of_our_kinds_are_valid() -> None:
    """Expressions are not looked at here: the broken one is refused by the compiler."""
    parsers: dict[str, Callable[[Any], Any]] = {
        "TolerationRule": parse_rule,
        "SchedulingGate": parse_gate,
        "WorkloadClaim": parse_workload_claim,
        "PodQuota": parse_quota,
    }
    found = {name: parsers[obj["kind"]](obj) for name, obj in EXAMPLES.items() if obj["kind"] in parsers}
    assert {name: result for name, result in found.items() if isinstance(result, list)} == {}
    assert {TolerationRule, WorkloadClaim, PodQuota} <= {type(result) for result in found.values()}


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in (MANIFESTS / "examples").glob("*/README.md")))
def test_every_example_says_in_which_order_its_files_are_applied(folder: str) -> None:
    directory = MANIFESTS / "examples" / folder
    text = (directory / "README.md").read_text()
    assert [path.name for path in sorted(directory.glob("*.yaml")) if path.name not in text] == []
