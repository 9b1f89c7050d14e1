"""The Helm chart makes, of values, the objects that overlays and components make.

It is rendered by helm where that is on PATH, and otherwise by Go's text/template (chart/render.go).
"""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from planes.parameters import unavailable
from processes.stack import ROOT

import tollbar
from tollbar.devplane.binaries import cache_directory
from tollbar.devplane.real import go
from tollbar.runtime.config import load

CHART = ROOT / "manifests" / "helm" / "tollbar"
CONFIGURATION = "tollbar-scheduler-config"
RENDERER = Path(__file__).parent / "chart" / "render.go"

Values = dict[str, Any]
Objects = dict[str, dict[str, Any]]
Template = Callable[[Values], Objects]
Render = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def plane(real_plane: Any) -> Any:
    """For its kubectl."""
    return real_plane


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """Objects by kind and name that a release `tollbar` has in the namespace `tollbar-system`, with these values."""
    directory = tmp_path_factory.mktemp("chart")
    if helm := shutil.which("helm"):
        asked = (helm, "template", "tollbar", str(CHART), "--namespace=tollbar-system", "--kube-version=1.37.0")
        return lambda values: by_name(ran(*asked, "--values=-", given=values))
    try:
        compiler = go.find((1, 21, 0), cache_directory(), print)
    except go.GoError as error:
        unavailable(str(error))
    program = str(directory / "render")
    ran(str(compiler), "build", "-o", program, str(RENDERER))
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    release = {"Name": "tollbar", "Namespace": "tollbar-system", "Service": "Helm"}
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    files = [str(path) for path in sorted((CHART / "templates").glob("*.yaml"))]

    def templated(values: Values) -> Objects:
        data = {
            "Values": merged(defaults, values),
            "Release": release,
            "Chart": {"AppVersion": chart["appVersion"]},
        }
        return by_name(ran(program, *files, given=data))

    return templated


def ran(*command: str, given: Values | None = None) -> str:
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def merged(values: Values, others: Values) -> Values:
    both = {key: merged(values.get(key) or {}, other) for key, other in others.items() if isinstance(other, dict)}
    return {**values, **others, **both}


def by_name(text: str) -> Objects:
    return alike(filter(None, yaml.safe_load_all(text)))


def alike(objects: Iterable[dict[str, Any]]) -> Objects:
    """Without what Helm does its own way: the Namespace, who manages the objects, whether definitions are kept, and how
    Pods come to know that a ConfigMap has changed."""
    found = {}
    for obj in objects:
        metadata = obj["metadata"]
        if metadata["name"].startswith(CONFIGURATION):
            metadata["name"] = CONFIGURATION
        if obj["kind"] == "Deployment" and metadata["name"] == "tollbar-scheduler":
            obj["spec"]["template"]["metadata"].pop("annotations", None)
            obj["spec"]["template"]["spec"]["volumes"][0]["configMap"]["name"] = CONFIGURATION
        pods = [obj["spec"]["template"]["metadata"]] if obj["kind"] == "Deployment" else []
        for each in (metadata, *pods):
            each["labels"].pop("app.kubernetes.io/managed-by")
        if obj["kind"] == "CustomResourceDefinition":
            metadata.pop("annotations", None)
        if obj["kind"] != "Namespace":
            found[f"{obj['kind']} {metadata['name']}"] = obj
    return found


SAME: dict[str, tuple[str, Values]] = {
    "the default": ("resources: [../default]", {}),
    "tolerations only, one replica": (
        "resources: [../minimal]",
        {"claims": "Disabled", "webhook": {"replicas": 1}, "controllers": {"replicas": 1}},
    ),
    "three Nodes and more": ("resources: [../ha]", {"highAvailability": True, "webhook": {"replicas": 3}}),
    "no webhook": ("resources: [../policy-only]", {"policyOnly": True}),
    "no webhook, with monitoring": (
        "{resources: [../default], components: [../../components/monitoring, ../../components/admission-policy]}",
        {"policyOnly": True, "monitoring": True},
    ),
    "Tollbar's claim controller": (
        "{resources: [../default], components: [../../components/claims-replace]}",
        {"claims": "Replace"},
    ),
    "a certificate of cert-manager's": (
        "{resources: [../default], components: [../../components/cert-manager]}",
        {"certManager": True},
    ),
    "Tollbar's scheduler": (
        "{resources: [../default], components: [../../components/scheduler]}",
        {"scheduler": {"enabled": True}},
    ),
    "metrics with authentication": (
        "resources: [../default]\ncomponents:\n"
        + "".join(f"- ../../components/{name}\n" for name in ("monitoring", "metrics-auth", "service-monitor")),
        {"monitoring": True, "metricsAuth": True},
    ),
    "everything at once": (
        "resources: [../default]\ncomponents:\n"
        + "".join(
            f"- ../../components/{name}\n"
            for name in (
                "cert-manager",
                "scheduler",
                "ceiling",
                "evict-unjustified",
                "monitoring",
                "network-policy",
                "pod-groups",
                "pod-rules",
                "protective-gates",
                "reserved-device-keys",
                "reserved-keys",
            )
        ),
        {
            "ceiling": True,
            "certManager": True,
            "dashboard": True,
            "evictUnjustified": True,
            "monitoring": True,
            "networkPolicy": {"enabled": True, "apiServerCIDRs": ["192.0.2.0/32"]},
            "podGroups": True,
            "podRules": True,
            "protectiveGates": True,
            "reservedDeviceKeys": ["example.com/card"],
            "reservedKeys": ["example.com/gpu"],
            "scheduler": {"enabled": True},
        },
    ),
}


@pytest.mark.parametrize(("kustomization", "values"), SAME.values(), ids=SAME)
def test_values_make_what_an_overlay_makes(
    render: Render, template: Template, kustomization: str, values: Values
) -> None:
    rendered = alike(render(kustomization))
    if not values.get("dashboard"):
        rendered.pop("ConfigMap tollbar-dashboard", None)  # it is imported by hand
    assert template(values) == rendered


def test_what_is_not_in_the_manifests(template: Template) -> None:
    places = [{"key": "dedicated", "operator": "Exists"}]
    found = template(
        {
            "image": {"repository": "registry.example.com/tollbar", "tag": "dev", "pullPolicy": "Always"},
            "imagePullSecrets": [{"name": "registry"}],
            "priorityClassName": "high",
            "webhook": {
                "extraArgs": ["--v=4"],
                "tolerations": places,
                "nodeSelector": {"pool": "system"},
                "affinity": {"nodeAffinity": {}},
                "resources": {"limits": {"memory": "1Gi"}},
            },
        }
    )
    pods = found["Deployment tollbar-webhook"]["spec"]["template"]["spec"]
    (container,) = pods["containers"]
    assert (
        container["image"],
        container["imagePullPolicy"],
        container["args"][-1],
        container["resources"]["limits"],
        pods["imagePullSecrets"],
        pods["priorityClassName"],
        pods["tolerations"],
        pods["nodeSelector"],
        pods["affinity"],
    ) == (
        "registry.example.com/tollbar:dev",
        "Always",
        "--v=4",
        {"memory": "1Gi"},
        [{"name": "registry"}],
        "high",
        places,
        {"kubernetes.io/os": "linux", "pool": "system"},
        {"nodeAffinity": {}},
    )


@pytest.mark.parametrize("certificates", [False, True])
def test_both_processes_read_the_configuration_that_is_given(
    template: Template, tmp_path: Path, certificates: bool
) -> None:
    """Where the flag says that it is; and their Pods are replaced when it changes."""
    selector = {"matchLabels": {"devices": "shared"}}
    found, other = (
        template({"certManager": certificates, "config": {"managedNamespaceSelector": selector, "workers": workers}})
        for workers in (8, 9)
    )
    (tmp_path / "config.yaml").write_text(found["ConfigMap tollbar-config"]["data"]["config.yaml"])
    configuration = load(tmp_path / "config.yaml", {})
    assert (configuration.managed_namespace_selector, configuration.workers) == (selector, 8)
    for process in ("webhook", "controllers"):
        pods, others = (each[f"Deployment tollbar-{process}"]["spec"]["template"] for each in (found, other))
        (container,) = pods["spec"]["containers"]
        (path,) = (each.removeprefix("--config=") for each in container["args"] if each.startswith("--config="))
        mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
        (volume,) = (each for each in pods["spec"]["volumes"] if each.get("configMap"))
        assert (path, volume["configMap"]) == (f"{mounts[volume['name']]}/config.yaml", {"name": "tollbar-config"})
        assert pods["metadata"]["annotations"] != others["metadata"]["annotations"]


def test_the_scheduler_gets_the_configuration_that_is_given(template: Template) -> None:
    given = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 3\n"
    found = template({"scheduler": {"enabled": True, "config": given}})
    assert yaml.safe_load(found[f"ConfigMap {CONFIGURATION}"]["data"]["config.yaml"]) == yaml.safe_load(given)


def test_definitions_are_kept_unless_one_says_otherwise(template: Template) -> None:
    written = [path.read_text() for path in (CHART / "templates").glob("crds.yaml")]
    without = template({"crds": {"enabled": False}})
    assert (written[0].count("helm.sh/resource-policy: keep"), [name for name in without if "Definition" in name]) == (
        5,
        [],
    )


def test_every_value_has_a_schema_and_the_version_is_ours() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (values.keys() - schema["properties"].keys(), chart["version"], chart["appVersion"]) == (
        set(),
        tollbar.__version__,
        tollbar.__version__,
    )
