"""Finds scheduler_perf's files in the module cache, and reads their test cases.

A workload is named as upstream's reports name it, `SchedulingBasic/500Nodes`; other values for its parameters follow
after commas, as in `SchedulingDaemonset/15000Nodes,initNodes=500,measurePods=1000`.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.schedulerperf.gotemplate import TemplateError
from benchmarks.schedulerperf.objects import check_templates
from benchmarks.schedulerperf.operations import Operation, Refused, plan
from tollbar.devplane.binaries import DEFAULT_VERSION, cache_directory
from tollbar.devplane.real import go
from tollbar.devplane.real.build import MODULE, module_file
from tollbar.model.objects import Object

_MODULE: Final = "k8s.io/kubernetes"
_BELOW: Final = Path("test/integration/scheduler_perf")
_HOOKS: Final = re.compile(r"perf\.(WithNodeUpdateFn|WithPrepareFn)\(")
_GATES: Final[Mapping[tuple[str, bool], str]] = {
    ("GenericWorkload", True): "Tollbar's scheduler knows no groups of Pods",
    ("DRADeviceCompatibilityGroups", True): "Tollbar's allocator takes this alpha feature as off",
    ("DRAListTypeAttributes", True): "Tollbar's allocator takes this alpha feature as off",
    ("NodeDeclaredFeatures", False): "it is locked, and needs an emulated version",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One test case: a template of operations, and workloads with parameters for it."""

    name: str
    directory: Path
    template: Sequence[Object]
    workloads: Mapping[str, Object]
    feature_gates: Mapping[str, bool]
    default_pod_template: str
    scheduler_configuration: str
    hooks: tuple[str, ...]
    """Functions of the case's Go test without which its workloads are not what upstream measures."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A workload that can be run; paths in its operations are relative to the directory."""

    name: str
    directory: Path
    operations: tuple[Operation, ...]
    feature_gates: Mapping[str, bool]
    default_pod_template: str
    configuration: Object
    """Fields of the KubeSchedulerConfiguration that it brings."""


def locate(report: go.Report) -> Path:
    """The directory of scheduler_perf; the module is downloaded if the cache has lost it.  Raises Refused."""
    try:
        toolchain = go.find(go.required(module_file(DEFAULT_VERSION).read_text()), cache_directory(), report)
    except go.GoError as error:
        raise Refused(str(error)) from error
    command = [str(toolchain), "mod", "download", "-json", _MODULE]
    done = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"cannot download {_MODULE}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"]) / _BELOW


def load(root: Path) -> dict[str, Case]:
    """All test cases below the directory, by name."""
    cases: dict[str, Case] = {}
    for file in sorted(root.rglob("performance-config.yaml")):
        tests = "".join(each.read_text() for each in sorted(file.parent.glob("*_test.go")))
        hooks = tuple(sorted(set(_HOOKS.findall(tests))))
        for raw in yaml.load(file.read_text(), Loader=yaml.CSafeLoader):
            cases[raw["name"]] = Case(
                name=raw["name"],
                directory=file.parent,
                template=raw["workloadTemplate"],
                workloads={each["name"]: each for each in raw["workloads"]},
                feature_gates=raw.get("featureGates") or {},
                default_pod_template=raw.get("defaultPodTemplatePath") or "",
                scheduler_configuration=raw.get("schedulerConfigPath") or "",
                hooks=hooks,
            )
    return cases


def choose(cases: Mapping[str, Case], wanted: str) -> Chosen:
    """The workload of this name, with its parameters replaced as the name says.  Raises Refused."""
    name, *replaced = wanted.split(",")
    case_name, _, workload_name = name.partition("/")
    case = cases.get(case_name)
    if case is None:
        raise Refused(f"there is no test case {case_name}")
    workload = case.workloads.get(workload_name)
    if workload is None:
        raise Refused(f"{case_name} has no workload {workload_name!r}, only {', '.join(case.workloads)}")
    gates = {**case.feature_gates, **(workload.get("featureGates") or {})}
    for gate, reason in _GATES.items():
        if gates.get(gate[0]) == gate[1]:
            raise Refused(f"the feature gate {gate[0]}={str(gate[1]).lower()}: {reason}")
    if case.hooks:
        raise Refused(f"its Go test runs code of its own: {', '.join(case.hooks)}")
    operations = plan(case.template, {**workload["params"], **dict(map(_replacement, replaced))})
    chosen = Chosen(
        name=wanted,
        directory=case.directory,
        operations=operations,
        feature_gates=gates,
        default_pod_template=case.default_pod_template,
        configuration=_configuration(case),
    )
    try:
        check_templates(chosen.directory, chosen.operations, chosen.default_pod_template)
    except TemplateError as error:
        raise Refused(f"a template: {error}") from error
    return chosen


def refused(cases: Mapping[str, Case]) -> dict[str, str]:
    """Every workload that cannot be run, with the reason."""
    found = {}
    for case in cases.values():
        for workload in case.workloads:
            name = f"{case.name}/{workload}"
            try:
                choose(cases, name)
            except Refused as reason:
                found[name] = str(reason)
    return found


def _replacement(text: str) -> tuple[str, Any]:
    name, is_one, value = text.partition("=")
    if not is_one:
        raise Refused(f"{text!r} is not a parameter with a value")
    return name, yaml.safe_load(value)


def _configuration(case: Case) -> Object:
    if not case.scheduler_configuration:
        return {}
    found: Object = yaml.safe_load((case.directory / case.scheduler_configuration).read_text())
    return {name: value for name, value in found.items() if name not in ("apiVersion", "kind")}
