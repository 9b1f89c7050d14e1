"""scheduler_perf's files: how operations are planned, what they create, and what is computed from a run."""

import math
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from benchmarks.processes.watched import Stalls
from benchmarks.schedulerperf import files, misses, objects, phase
from benchmarks.schedulerperf.allocating import allocations
from benchmarks.schedulerperf.figures import Histogram, Series, histogram, throughput
from benchmarks.schedulerperf.files import choose
from benchmarks.schedulerperf.observer import Observer
from benchmarks.schedulerperf.operations import (
    Barrier,
    Churn,
    CreateAny,
    CreateNamespaces,
    CreateNodes,
    CreatePods,
    NodeAllocatable,
    NodeLabel,
    Operation,
    Refused,
    Sleep,
    StartCollectingMetrics,
    StopCollectingMetrics,
    plan,
    seconds,
)
from benchmarks.schedulerperf.peers import RAISED, TOLLBAR, profiles
from benchmarks.schedulerperf.run import OF_CPU, OF_RATE, OF_SERVER_CPU, options, ratios
from benchmarks.schedulerperf.sets import SETS
from benchmarks.workload import Result
from tollbar.devplane.audit import AuditLog
from tollbar.devplane.layout import API_SERVER
from tollbar.model.objects import Object

HERE = Path("/nowhere")
MEASURED = {"opcode": "createPods", "count": 1, "collectMetrics": True}
ONE = CreatePods(count=1, collect_metrics=True)

PLANS: dict[str, tuple[list[Object], dict[str, Any], tuple[Operation, ...]]] = {
    "a count by parameter": (
        [{**MEASURED, "countParam": "$n"}],
        {"n": 7},
        (CreatePods(count=7, collect_metrics=True),),
    ),
    "a count that is multiplied": (
        [{**MEASURED, "countParam": "$n", "countMultiplierParam": "$m"}],
        {"n": 7, "m": 3},
        (CreatePods(count=21, collect_metrics=True),),
    ),
    "a steady state": (
        [{**MEASURED, "steadyStateParam": "$s", "durationParam": "$d"}],
        {"s": True, "d": "1m30s"},
        (CreatePods(count=1, collect_metrics=True, steady_state=True, duration=90.0),),
    ),
    "template parameters: given, with a default that is used, and one that is not": (
        [
            {
                "opcode": "createAny",
                "templatePath": "a.yaml",
                "templateParams": {"x": "$x", "y": "$y|2", "z": "$z|", "w": 1},
            },
            MEASURED,
        ],
        {"x": ["a"]},
        (CreateAny(template_path="a.yaml", template_params={"x": ["a"], "y": 2, "z": None, "w": 1}), ONE),
    ),
    "sets of Pods are one operation for each namespace": (
        [
            {
                "opcode": "createPodSets",
                "countParam": "$n",
                "namespacePrefix": "init",
                "createPodsOp": {"opcode": "createPods", "countParam": "$p"},
            },
            MEASURED,
        ],
        {"n": 2, "p": 4},
        (CreatePods(count=4, namespace="init-0"), CreatePods(count=4, namespace="init-1"), ONE),
    ),
    "strategies for Nodes": (
        [
            {
                "opcode": "createNodes",
                "count": 1,
                "labelNodePrepareStrategy": {"labelKey": "zone", "labelValues": ["a"]},
            },
            {
                "opcode": "createNodes",
                "count": 1,
                "nodeAllocatableStrategy": {"csiNodeAllocatable": {"d": {"count": 2}}},
            },
            MEASURED,
        ],
        {},
        (
            CreateNodes(count=1, label_node_prepare_strategy=NodeLabel("zone", ["a"])),
            CreateNodes(count=1, node_allocatable_strategy=NodeAllocatable(csi_node_allocatable={"d": {"count": 2}})),
            ONE,
        ),
    ),
    "what goes on beside and between": (
        [
            {"opcode": "churn", "mode": "create", "templatePaths": ["a.yaml"], "intervalMilliseconds": 200},
            {"opcode": "barrier", "stageRequirement": "Attempted"},
            {"opcode": "sleep", "duration": "500ms"},
            {"opcode": "startCollectingMetrics", "namespaces": ["a"]},
            {"opcode": "createPods", "count": 1},
            {"opcode": "stopCollectingMetrics"},
        ],
        {},
        (
            Churn(mode="create", template_paths=["a.yaml"], interval_milliseconds=200),
            Barrier(stage_requirement="Attempted"),
            Sleep(duration=0.5),
            StartCollectingMetrics(namespaces=["a"]),
            CreatePods(count=1),
            StopCollectingMetrics(),
        ),
    ),
}


@pytest.mark.parametrize(("template", "values", "want"), PLANS.values(), ids=PLANS)
def test_planned(template: list[Object], values: dict[str, Any], want: tuple[Operation, ...]) -> None:
    assert plan(template, values) == want


REFUSED: dict[str, tuple[list[Object], dict[str, Any], str]] = {
    "groups of Pods": ([{"opcode": "createPodGroups"}, MEASURED], {}, "createPodGroups: Tollbar's scheduler knows no"),
    "an unknown operation": ([{"opcode": "createMoons"}], {}, "the operation createMoons is not known"),
    "an unknown member": ([{**MEASURED, "colour": "red"}], {}, "createPods: colour is not known"),
    "a member that is missing": ([{"opcode": "createAny"}, MEASURED], {}, "createAny: template_path is missing"),
    "a parameter that is not given": ([{**MEASURED, "countParam": "$n"}], {}, "the parameter n is not given"),
    "a parameter that is misspelt": ([MEASURED], {"mesurePods": 3}, "no operation uses the parameters mesurePods"),
    "a count that is none": ([{**MEASURED, "countParam": "$n"}], {"n": "3"}, "the count '3' is not a number"),
    "a mode of churn": ([{"opcode": "churn", "mode": "wild", "templatePaths": []}], {}, "the mode 'wild' is not known"),
    "a stage": ([{"opcode": "barrier", "stageRequirement": "Dreamt"}], {}, "the stage 'Dreamt' is not known"),
    "a duration": ([{"opcode": "sleep", "duration": "soon"}], {}, "the duration 'soon' is not understood"),
    "a steady state without end": ([{**MEASURED, "steadyState": True}], {}, "the steady state needs a duration"),
    "nothing is measured": ([{"opcode": "createPods", "count": 1}], {}, "it collects metrics 0 times"),
    "two phases": ([MEASURED, MEASURED], {}, "it collects metrics 2 times"),
    "a phase without Pods": (
        [{"opcode": "startCollectingMetrics", "namespaces": ["a"]}, {"opcode": "stopCollectingMetrics"}],
        {},
        "no Pod is scheduled while it collects metrics",
    ),
}


@pytest.mark.parametrize(("template", "values", "why"), REFUSED.values(), ids=REFUSED)
def test_refused(template: list[Object], values: dict[str, Any], why: str) -> None:
    with pytest.raises(Refused) as refused:
        plan(template, values)
    assert why in str(refused.value)


def test_durations() -> None:
    assert [seconds(each) for each in ("10s", "0s", "1h2m", "1.5s", 3)] == [10.0, 0.0, 3720.0, 1.5, 3.0]


# Files and names.

CONFIG = """\
- name: Basic
  featureGates: {Gate: true}
  defaultPodTemplatePath: pod.yaml
  schedulerConfigPath: scheduler.yaml
  workloadTemplate:
  - {opcode: createNodes, countParam: $nodes}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - name: 5Nodes/10Pods
    featureGates: {Other: false}
    params: {nodes: 5, pods: 10}
  - name: Groups
    featureGates: {GenericWorkload: true}
    params: {nodes: 5, pods: 10}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "topic").mkdir()
    (tmp_path / "topic/performance-config.yaml").write_text(CONFIG)
    (tmp_path / "topic/pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {generateName: 'p{{.Index}}-'}, spec: {}}"
    )
    (tmp_path / "topic/scheduler.yaml").write_text("{apiVersion: a, kind: b, podMaxBackoffSeconds: 3}")
    return tmp_path


def test_a_workload_and_other_values_for_its_parameters(root: Path) -> None:
    chosen = choose(files.load(root), "Basic/5Nodes/10Pods,nodes=2")
    assert chosen.operations == (CreateNodes(count=2), CreatePods(count=10, collect_metrics=True))
    assert (chosen.feature_gates, chosen.configuration) == ({"Gate": True, "Other": False}, {"podMaxBackoffSeconds": 3})
    flags = options(chosen).flags[API_SERVER]
    assert "--feature-gates=Gate=true,Other=false" in flags


NAMES = {
    "a case": ("Basics/5Nodes", "no test case Basics"),
    "a workload": ("Basic/6Nodes", "only 5Nodes/10Pods, Groups"),
    "a parameter": ("Basic/5Nodes/10Pods,moons=2", "no operation uses the parameters moons"),
    "a parameter without a value": ("Basic/5Nodes/10Pods,nodes", "'nodes' is not a parameter with a value"),
    "a feature that Tollbar lacks": ("Basic/Groups", "the feature gate GenericWorkload=true"),
}


@pytest.mark.parametrize(("name", "why"), NAMES.values(), ids=NAMES)
def test_a_name_that_is_refused(root: Path, name: str, why: str) -> None:
    with pytest.raises(Refused) as refused:
        choose(files.load(root), name)
    assert why in str(refused.value)


def test_what_cannot_be_run_is_listed_with_the_reason(root: Path) -> None:
    assert list(files.refused(files.load(root))) == ["Basic/Groups"]
    (root / "topic/pod.yaml").write_text("{{template}}")
    assert "the function template is not supported" in files.refused(files.load(root))["Basic/5Nodes/10Pods"]


def test_a_go_test_with_code_of_its_own_refuses_its_workloads(root: Path) -> None:
    (root / "topic/topic_test.go").write_text("perf.Run(t, perf.WithNodeUpdateFn(update))")
    assert "WithNodeUpdateFn" in files.refused(files.load(root))["Basic/5Nodes/10Pods"]


# Objects.


def test_nodes_have_a_name_its_label_and_labels_in_turn() -> None:
    operation = CreateNodes(count=3, label_node_prepare_strategy=NodeLabel("zone", ["a", "b"]))
    nodes = [node for node, _ in objects.nodes(HERE, operation, 4)]
    names = [each["metadata"]["name"] for each in nodes]
    assert len(set(names)) == 3
    assert [each["metadata"]["labels"] for each in nodes] == [
        {"kubernetes.io/hostname": name, "zone": zone} for name, zone in zip(names, "aba", strict=True)
    ]
    assert nodes[0]["status"]["allocatable"] == {"pods": "110", "cpu": "4", "memory": "32Gi"}


def test_limits_for_volumes_are_on_the_csi_node() -> None:
    operation = CreateNodes(count=1, node_allocatable_strategy=NodeAllocatable({}, {"ebs": {"count": 2}}, ["aws"]))
    ((node, csi_node),) = objects.nodes(HERE, operation, 0)
    name = node["metadata"]["name"]
    assert csi_node is not None
    assert csi_node["metadata"]["annotations"] == {"storage.alpha.kubernetes.io/migrated-plugins": "aws"}
    assert csi_node["spec"]["drivers"] == [{"name": "ebs", "nodeID": name, "allocatable": {"count": 2}}]


def test_pods_of_a_template_are_signed_in_batches(root: Path) -> None:
    operation = CreatePods(count=3, pod_template_path="pod.yaml", signature_batch_size=2)
    pods = list(objects.pods(root / "topic", operation, ""))
    assert [each["metadata"] for each in pods] == [
        {"generateName": f"p{index}-", "labels": {"signature": f"signature-label-{index // 2}"}} for index in range(3)
    ]


def test_pods_of_a_steady_state_go_on_with_the_first(root: Path) -> None:
    operation = CreatePods(count=2, steady_state=True, duration=1.0)
    pods = objects.pods(root / "topic", operation, "pod.yaml")
    assert [next(pods)["metadata"]["generateName"] for _ in range(4)] == ["p0-", "p1-", "p0-", "p0-"]


def test_a_pod_without_a_template_is_upstreams() -> None:
    (pod,) = objects.pods(HERE, CreatePods(count=1), "")
    assert pod["metadata"] == {"generateName": "pod-"}
    assert pod["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "100m", "memory": "500Mi"}


def test_namespaces_are_numbered() -> None:
    made = objects.namespaces(HERE, CreateNamespaces(prefix="sched", count=2))
    assert [each["metadata"]["name"] for each in made] == ["sched-0", "sched-1"]


def test_a_claim_for_each_pod_is_bound_to_its_volume(tmp_path: Path) -> None:
    (tmp_path / "pv.yaml").write_text("{apiVersion: v1, kind: PersistentVolume, spec: {csi: {driver: ebs}}}")
    (tmp_path / "pvc.yaml").write_text("{apiVersion: v1, kind: PersistentVolumeClaim, spec: {accessModes: []}}")
    operation = CreatePods(
        count=2, persistent_volume_template_path="pv.yaml", persistent_volume_claim_template_path="pvc.yaml"
    )
    claims, volumes = zip(*objects.volumes(tmp_path, operation, "a"), strict=True)
    assert [each["spec"]["volumeName"] for each in claims] == [each["metadata"]["name"] for each in volumes]
    assert [each["spec"]["claimRef"]["name"] for each in volumes] == ["pvc-0", "pvc-1"]
    assert volumes[1]["spec"]["csi"]["volumeHandle"] == "a-vol-1"
    pods = list(objects.pods(tmp_path, operation, ""))
    assert pods[1]["spec"]["volumes"] == [{"name": "vol", "persistentVolumeClaim": {"claimName": "pvc-1"}}]


def a_slice(node: str, devices: int) -> Object:
    return {
        "metadata": {"name": node, "uid": node},
        "spec": {
            "driver": "d.example.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(devices)],
        },
    }


def a_claim(name: str) -> Object:
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
    return {"metadata": {"name": name, "namespace": "a", "uid": name}, "spec": {"devices": {"requests": requests}}}


def test_claims_get_devices_of_nodes_until_none_is_left() -> None:
    slices = [a_slice("one", 2), a_slice("two", 1)]
    nodes: list[Object] = [{"metadata": {"name": name}} for name in ("one", "two")]
    classes: list[Object] = [{"metadata": {"name": "gpu"}, "spec": {}}]
    claims = [a_claim(f"c{number}") for number in range(4)]
    taken = list(allocations(claims[:3], slices, classes, nodes, Random(1)))
    (results,) = zip(*(each["status"]["allocation"]["devices"]["results"] for each in taken), strict=True)
    assert {(each["pool"], each["device"]) for each in results} == {
        ("one", "gpu-0"),
        ("one", "gpu-1"),
        ("two", "gpu-0"),
    }
    with pytest.raises(ValueError, match="no Node has devices left for the claim c3"):
        list(allocations([*taken, claims[3]], slices, classes, nodes, Random(1)))


# Figures.

SAMPLES: dict[str, tuple[float, list[float], list[float]]] = {
    "the first second with a Pod is left out": (3.0, [0.5, 1.5, 1.6, 2.5], [2.0, 1.0]),
    "seconds before it do not count": (4.0, [2.5, 3.1, 3.2], [2.0]),
    "a second without a Pod has the rate of both": (3.0, [0.5, 2.1, 2.2], [1.0, 1.0]),
    "seconds at the end without a Pod do not count": (9.0, [0.5, 1.5], [1.0]),
    "a part of a second is no sample": (2.9, [0.5, 1.5, 2.5], [1.0]),
    "too short": (1.9, [0.5, 1.5], []),
    "no Pod": (9.0, [], []),
}


@pytest.mark.parametrize(("end", "times", "want"), SAMPLES.values(), ids=SAMPLES)
def test_throughput(end: float, times: list[float], want: list[float]) -> None:
    begin = 1e9
    assert throughput(begin, begin + end, [begin + each for each in times]) == pytest.approx(want)


EXPOSED = """\
# HELP latency of it
# TYPE latency histogram
latency_bucket{result="scheduled",le="0.001"} 2
latency_bucket{result="scheduled",le="0.002"} 3
latency_bucket{result="scheduled",le="+Inf"} 3
latency_sum{result="scheduled"} 0.004
latency_count{result="scheduled"} 3
latency_bucket{result="error",le="0.001"} 0
latency_bucket{result="error",le="0.002"} 0
latency_bucket{result="error",le="+Inf"} 1
latency_sum{result="error"} 0.5
latency_count{result="error"} 1
"""


def test_a_histogram_is_the_sum_of_its_label_sets() -> None:
    found = histogram(EXPOSED, "latency")
    assert found == Histogram({0.001: 2.0, 0.002: 3.0, math.inf: 4.0}, 0.504)
    assert (found.count, found.mean) == (4.0, pytest.approx(0.126))
    assert [found.quantile(share) for share in (0.25, 0.75, 1.0)] == pytest.approx([0.0005, 0.002, 0.002])
    assert histogram(EXPOSED, "other").count == 0


def test_readings_between_two_moments() -> None:
    series = Series((1.0, 2.0, 4.0), (0.0, 1.0, 2.0))
    assert [series.at(moment) for moment in (0.0, 1.5, 3.0, 9.0)] == [0.0, 0.5, 1.5, 2.0]
    assert series.between(1.5, 3.0) == 1.0


def test_the_figures_of_a_phase() -> None:
    found = phase.figures(
        phase.Phase(
            begin=10.0,
            end=12.5,
            rest=14.0,
            times=[10.5, 11.5, 12.0, 12.5],
            cpu=Series((10.0, 14.0), (1.0, 5.0)),
            server_cpu=Series((10.0, 14.0), (0.0, 8.0)),
            algorithm=Histogram({0.001: 4.0, math.inf: 4.0}, 0.002),
            writes={"pods/binding": [10.5, 11.5, 12.0, 12.5], "events": [13.0, 15.0]},
            peak_rss=90.0,
            stalls=Stalls([0.001] * 99 + [0.02], [0.0005] * 99 + [0.004]),
        )
    )
    assert {row.name: value for row, value in found.items()} == pytest.approx(
        {
            phase.RATE.name: 1.5,
            phase.AVERAGE.name: 2.0,
            **{row.name: 2.0 for row in phase.PERCENTILES.values()},
            phase.CPU.name: 875.0,
            phase.LAST_CPU.name: 500.0,
            phase.SERVER_CPU.name: 1750.0,
            phase.ALL_CPU.name: 1250.0,
            phase.START_CPU.name: 1.5,
            phase.ALGORITHM.name: 0.5,
            phase.ALGORITHM_P99.name: 0.99,
            phase.WRITES.name: 1.25,
            phase.EVENTS.name: 0.25,
            phase.RSS.name: 90.0,
            phase.HELD_P99.name: 1.0,
            phase.HELD.name: 20.0,
            phase.CPU_HELD_P99.name: 0.5,
            phase.CPU_HELD.name: 4.0,
        }
    )


def test_a_phase_with_one_pod_has_no_figures() -> None:
    with pytest.raises(phase.TooShortError, match="1 Pods"):
        phase.figures(phase.Phase(begin=1.0, times=[2.0]))


def measured(workload: str, **values: float) -> Result:
    rows = {
        "rate": OF_RATE,
        "cpu": OF_CPU,
        "server": OF_SERVER_CPU,
        "p99": phase.HELD_P99,
        "held": phase.HELD,
        "own": phase.CPU_HELD_P99,
    }
    found = {rows[name].name: {TOLLBAR: [value]} for name, value in values.items()}
    return Result(workload, "2026-01-01", {}, size=1, repetitions=1, values=found)


def test_what_misses_its_target_and_by_how_much() -> None:
    found = misses.section(
        [
            measured("SchedulingBasic/500Nodes,measurePods=3000", rate=1.3, cpu=0.504, server=1.05, p99=10, held=50),
            measured("TopologySpreading/500Nodes,measurePods=3000", rate=1.2, cpu=0.42, p99=10.1, held=50),
            measured("SchedulingBasic/ours", rate=0.1, cpu=9, server=9, p99=20, held=75, own=4),
        ]
    )
    assert list(found) == [
        "These miss their targets:",
        "",
        "| workload | ratio of | median | target | off by |",
        "| --- | --- | ---: | --- | ---: |",
        "| TopologySpreading/500Nodes,measurePods=3000 | Pods/s | 1.20 | at least 1.5 | 20% |",
        "| TopologySpreading/500Nodes,measurePods=3000 | CPU of the scheduler | 0.42 | at most 0.35 | 20% |",
        "",
        *misses.why("TopologySpreading"),
        (
            "The event loop should be held for 10 ms at most in 99 of 100 readings, and never for more than 50 ms. 2 "
            "of 3 workloads miss that:"
        ),
        "",
        (
            "| workload | p99 (ms) | longest (ms) | without the wait for a core, p99 (ms) "
            "| without the wait for a core, longest (ms) |"
        ),
        "| --- | ---: | ---: | ---: | ---: |",
        "| TopologySpreading/500Nodes,measurePods=3000 | 10.1 | 50.0 | - | - |",
        "| SchedulingBasic/ours | 20.0 | 75.0 | 4.0 | - |",
        "",
        misses.WHY_HELD,
        "",
    ]


def test_where_nothing_misses_its_target_nothing_is_explained() -> None:
    found = misses.section([measured("TopologySpreading/500Nodes,measurePods=3000", rate=1.5, cpu=0.35, server=1.05)])
    assert list(found) == []


def test_what_is_explained_is_a_case_that_is_measured() -> None:
    assert misses.WHY.keys() <= {name.partition("/")[0] for each in SETS.values() for name in each}


def test_ratios_are_to_kube_scheduler_with_the_same_limits() -> None:
    sample = {(phase.RATE.name, RAISED): 100.0, (phase.RATE.name, TOLLBAR): 150.0, (phase.CPU.name, TOLLBAR): 1.0}
    assert ratios(sample) == {(OF_RATE.name, TOLLBAR): 1.5}


def test_tollbar_may_use_all_devices_whatever_the_workload_configures() -> None:
    exclusive = {"name": "DynamicResources", "args": {"exclusive": "all"}}
    fit = {"name": "NodeResourcesFit", "args": {}}
    assert profiles({}) == [{"schedulerName": "default-scheduler", "pluginConfig": [exclusive]}]
    assert profiles({"profiles": [{"schedulerName": "a", "pluginConfig": [fit]}]}) == [
        {"schedulerName": "a", "pluginConfig": [fit, exclusive]}
    ]


def record(user: str, subresource: str, name: str, second: int, code: int = 201, **body: Any) -> bytes:
    return (
        orjson.dumps(
            {
                "stage": "ResponseComplete",
                "verb": "create" if subresource == "binding" else "patch",
                "user": {"username": user},
                "objectRef": {"resource": "pods", "subresource": subresource, "namespace": "a", "name": name},
                "responseStatus": {"code": code},
                "stageTimestamp": f"2026-01-01T00:00:{second:02}.500000Z",
                "requestObject": body,
            }
        )
        + b"\n"
    )


def test_what_schedulers_have_written_is_read_from_the_audit_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log")
    before = record("system:kube-scheduler", "binding", "before", 1)
    log.path.write_bytes(before)
    observer = Observer(log)
    condition = {"status": {"conditions": [{"type": "PodScheduled"}]}}
    lines = [
        record("system:kube-scheduler", "binding", "web", 2),
        record("system:kube-scheduler", "binding", "refused", 3, code=409),
        record("system:kube-scheduler", "status", "waits", 4, code=200, **condition),
        record("system:kube-scheduler", "status", "nominated", 5, code=200, status={"nominatedNodeName": "n"}),
        record("tollbar:admin", "binding", "by-hand", 6),
        record("tollbar-scheduler", "binding", "half", 7),
    ]
    with log.path.open("ab") as out:
        out.write(b"".join(lines)[:-10])
    assert observer.read() == [("a", "web")]
    assert (set(observer.bound), observer.attempted) == ({("a", "web")}, {("a", "waits")})
    with log.path.open("ab") as out:
        out.write(b"".join(lines)[-10:])
    assert observer.read() == [("a", "half")]
    assert observer.bound["a", "half"] - observer.bound["a", "web"] == 5.0
    counts = {key: len(ats) for key, ats in observer.writes.items()}
    assert counts == {
        ("system:kube-scheduler", "pods/binding"): 1,
        ("system:kube-scheduler", "pods/status"): 2,
        ("tollbar-scheduler", "pods/binding"): 1,
    }
