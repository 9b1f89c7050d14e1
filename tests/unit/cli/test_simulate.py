"""What a simulation says becomes of Pods, and what the command makes of its arguments.

That a real cluster comes to the same is tried in tests/e2e/test_simulate.py.
"""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from click.testing import CliRunner, Result
from objects.builders import (
    Built,
    claim,
    device_class,
    namespace,
    pod,
    scheduling_gate,
    template,
    toleration_rule,
)
from unit.cli.simulating import NOW, configuration, in_file, new, node, outcome, planned, written
from unit.cli.terminals import Terminal

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import clusterdump, console, main
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.manifests import Located
from tollbar.cli.simulation.cluster import SimulatedCluster
from tollbar.cli.simulation.loop import VirtualClock, VirtualLoop
from tollbar.cli.simulation.plan import plan
from tollbar.cli.simulation.playing import Outcome, play
from tollbar.model.objects import Object, key_of
from tollbar.model.resources import POD_GROUPS

ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "example.com/gpu", "effect": "NoSchedule"}
RULE = toleration_rule("gpu").cel(
    'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
)
CLASS, TEMPLATE = device_class("gpu"), template("gpu").request("gpu")


def devices(node_name: str, count: int) -> Built:
    return Built(
        apiVersion="resource.k8s.io/v1",
        kind="ResourceSlice",
        metadata={"name": node_name},
        spec={
            "driver": "gpu.example.com",
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{number}"} for number in range(count)],
        },
    )


GPU_NODE = [node("gpu-1", TAINT), devices("gpu-1", 2)]
POD_RULES = webhooks.pods_configuration(webhooks.at_service(), pod_rules=True)
DRA = [namespace(), CLASS, TEMPLATE, RULE]


def of_priority(name: str, value: int, **more: Any) -> Built:
    return Built(apiVersion="scheduling.k8s.io/v1", kind="PriorityClass", metadata={"name": name}, value=value, **more)


def said(found: Outcome) -> dict[str, tuple[Any, ...]]:
    """(admission, rules, Node, devices, why it has none) by name."""
    return {
        each.pod.name: (
            each.decision,
            [rule for _, rule, _ in each.added],
            each.node,
            [str(d) for d in each.devices],
            each.pending.partition(" preemption:")[0],
        )
        for each in found.results
    }


BECOMES: dict[str, tuple[list[Object], Object, tuple[Any, ...]]] = {
    "gets tolerations at admission, a claim and a device": (
        [*DRA, *GPU_NODE],
        new().templates("gpu"),
        ("tolerated", ["gpu"], "gpu-1", ["gpu-1/gpu-0"], ""),
    ),
    "needs nothing special": (
        [*DRA, *GPU_NODE, node("plain")],
        new(),
        ("not asked", [], "plain", [], ""),
    ),
    "falls under a rule about Pods alone, of which the webhook is not asked": (
        [namespace(), toleration_rule("gpu").cel("true"), *GPU_NODE],
        new(),
        ("not asked", ["gpu"], "gpu-1", [], ""),
    ),
    "falls under a rule about Pods alone, where the component pod-rules is installed": (
        [namespace(), toleration_rule("gpu").cel("true"), *GPU_NODE, POD_RULES],
        new(),
        ("tolerated", ["gpu"], "gpu-1", [], ""),
    ),
    "is there already": (
        [*DRA, node("plain"), pod()],
        new(),
        ("refused", [], "", [], 'refused: pods "web" already exists'),
    ),
    "is not tolerated": (
        [*DRA, *GPU_NODE],
        new(),
        ("not asked", [], "", [], "0/1 nodes are available: 1 node(s) had untolerated taint(s)."),
    ),
    "is held for a class until maxHold, and has no Node then": (
        [namespace(), TEMPLATE, RULE, *GPU_NODE],
        new().templates("gpu"),
        (
            "gated",
            [],
            "",
            [],
            "0/1 nodes are available: request r0: device class gpu does not exist.",
        ),
    ),
    "is held for as long as the gate says": (
        [namespace(), RULE, scheduling_gate().expiring("60s", "Report"), *GPU_NODE],
        new().claims("mine"),
        ("gated", [], "", [], "held by tollbar.dev/tolerations: waits for ResourceClaim mine"),
    ),
    "waits for somebody else's gate": (
        [*DRA, *GPU_NODE],
        new().gated("example.com/quota"),
        ("not asked", [], "", [], "held by example.com/quota"),
    ),
    "asks for another scheduler": (
        [*DRA, node("plain")],
        new().but("spec.schedulerName", "volcano"),
        ("not asked", [], "", [], "no scheduler volcano: it has no profile in the scheduler's configuration"),
    ),
    "has a record that somebody else wrote, of which the webhook is not asked": (
        [namespace().labelled({wellknown.LABEL_SKIP: "true"}), node("plain")],
        new().annotated({wellknown.ANNOTATION_PROVENANCE: '[{"added":[5],"rule":"a","via":"gate"}]'}),
        ("not asked", [], "plain", [], ""),
    ),
    "names a priority class that is not there": (
        [*DRA, node("plain")],
        new().but("spec.priorityClassName", "high"),
        ("refused", [], "", [], "refused: no PriorityClass with name high was found"),
    ),
    "has a claim that is there": (
        [*DRA, claim("mine").request("gpu"), *GPU_NODE],
        new().claims("mine"),
        ("tolerated", ["gpu"], "gpu-1", ["gpu-1/gpu-0"], ""),
    ),
    "finds all devices taken": (
        [*DRA, node("gpu-1", TAINT), devices("gpu-1", 0)],
        new().templates("gpu"),
        ("tolerated", ["gpu"], "", [], "0/1 nodes are available: 1 cannot allocate all claims."),
    ),
}


@pytest.mark.parametrize(("objects", "given", "becomes"), BECOMES.values(), ids=BECOMES)
def test_a_pod(objects: list[Object], given: Object, becomes: tuple[Any, ...]) -> None:
    assert said(outcome(objects, given)) == {"web": becomes}


def test_time_passes_without_being_waited_for() -> None:
    held = [namespace(), RULE, scheduling_gate().expiring("30m"), node("plain")]
    found = outcome(held, new().claims("mine"))
    assert (found.end, found.results[0].released) == ("settled", 1800.0)
    found = outcome(held, new().claims("mine"), seconds=60.0)
    assert (found.end, found.results[0].released) == ("time is over", None)


def test_attempts_that_go_on_without_any_node_are_no_reason_to_wait() -> None:
    found = outcome([namespace()], new())
    assert (found.end, found.results[0].pending) == ("settled", "no nodes available to schedule pods")
    assert found.seconds < 60


def test_the_default_tolerations_and_the_claim_are_those_of_a_cluster() -> None:
    (found,) = outcome([*DRA, *GPU_NODE], new().templates("gpu")).results
    ((reference, name),) = found.claims
    assert (reference, name[:8]) == ("gpu", "web-gpu-")
    assert found.added[0][0] == "example.com/gpu:NoSchedule op=Exists"


def test_as_many_copies_as_fit() -> None:
    found = outcome([*DRA, *GPU_NODE, node("gpu-2", TAINT), devices("gpu-2", 1)], new().templates("gpu"), replicas=0)
    assert found.fit == 3


def test_so_many_copies() -> None:
    found = outcome([*DRA, *GPU_NODE], new().templates("gpu"), replicas=3)
    assert sorted(each.node for each in found.results) == ["", "gpu-1", "gpu-1"]


def test_pods_of_equal_priority_get_devices_in_the_order_of_their_creation() -> None:
    found = said(outcome([*DRA, *GPU_NODE], *(new(name).templates("gpu") for name in "abcdefg")))
    assert [(name, each[3]) for name, each in found.items() if each[3]] == [
        ("a", ["gpu-1/gpu-0"]),
        ("b", ["gpu-1/gpu-1"]),
    ]


def test_priority_decides_although_the_claims_of_others_are_made_before() -> None:
    low = [new(f"low-{number}").templates("gpu") for number in range(5)]
    high = new("high").templates("gpu").but("spec.priorityClassName", "high")
    found = said(outcome([*DRA, *GPU_NODE, of_priority("high", 1, preemptionPolicy="Never")], *low, high))
    assert {name for name, each in found.items() if each[3]} == {"high", "low-0"}


def test_pods_that_wait_in_the_cluster_are_tried_by_age() -> None:
    waiting = [
        pod(name).wants({"cpu": "3"}).but("metadata.creationTimestamp", f"{year}-01-01T00:00:00Z")
        for name, year in (("a", 2024), ("b", 2022), ("c", 2023))
    ]
    found = outcome([namespace(), node("plain"), *waiting], new().wants({"cpu": "3"}), for_page=True)
    assert [each["metadata"]["name"] for each in found.objects if (each.get("spec") or {}).get("nodeName")] == ["b"]


def test_the_claim_of_a_workload_claim_is_made() -> None:
    kept = Built(
        apiVersion="tollbar.dev/v1alpha1",
        kind="WorkloadClaim",
        metadata={"name": "kept", "namespace": "ml", "uid": "kept"},
        spec={
            "workloadRef": {"apiGroup": "apps", "resource": "deployments", "name": "web"},
            "resourceClaimTemplateName": "gpu",
        },
    )
    assert said(outcome([*DRA, *GPU_NODE, kept], new().claims("kept")))["web"] == (
        "gated",
        ["gpu"],
        "gpu-1",
        ["gpu-1/gpu-0"],
        "",
    )


def test_a_pod_of_higher_priority_takes_the_place_of_another() -> None:
    low = pod("low").wants({"cpu": "3"}).but("spec.nodeName", "plain").but("spec.priority", 1)
    objects = [namespace(), node("plain"), of_priority("high", 100), low]
    found = outcome(objects, new("high").wants({"cpu": "3"}).but("spec.priorityClassName", "high"))
    assert said(found)["high"][2] == "plain"
    assert [each["metadata"]["name"] for each in found.victims] == ["low"]
    assert found.seconds >= 30.0  # the victim's grace period


def test_a_pod_that_is_done_gives_its_device_back() -> None:
    """The claim controller is at work: what nobody uses is free."""
    done = pod("done").claims("mine").phase("Succeeded").but("spec.nodeName", "gpu-1")
    taken = claim("mine").request("gpu").but("metadata.finalizers", ["resource.kubernetes.io/delete-protection"])
    result = {"request": "r0", "driver": "gpu.example.com", "pool": "gpu-1", "device": "gpu-0"}
    taken = taken.but("status.allocation", {"devices": {"results": [result]}})
    taken = taken.reserved({"resource": "pods", "name": "done", "uid": "uid-of-done"})
    objects = [*DRA, node("gpu-1", TAINT), devices("gpu-1", 1), done, taken]
    assert said(outcome(objects, new().templates("gpu")))["web"][3] == ["gpu-1/gpu-0"]


def test_a_pod_with_a_node_has_its_zone_as_a_label() -> None:
    """So a Pod can be told to go beside any Pod of that zone."""
    term = {"labelSelector": {"matchLabels": {ZONE: "a"}}, "topologyKey": ZONE}
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    objects = [namespace(), node("n1").labelled({ZONE: "a"}), node("n2", cpu="8").labelled({ZONE: "b"})]
    first = new("first").but("spec.nodeSelector", {ZONE: "a"})
    found = said(outcome(objects, first, new().but("spec.affinity", beside)))
    assert (found["first"][2], found["web"][2]) == ("n1", "n1")


def test_pods_that_move_are_not_copied() -> None:
    wanted = planned([*DRA, *GPU_NODE, node("plain", cpu="2")], new().wants({"cpu": "1"}))
    wanted.moved = [("moved from old", new("moved").wants({"cpu": "1"}))]
    found = play(wanted, configuration(), replicas=0)
    assert (found.fit, [each.pod.name for each in found.results if each.node]) == (1, ["moved", "web-1"])


# The plan, and the command.


def test_without_a_node_its_pods_are_made_again() -> None:
    recorded = '[{"rule":"gpu","generation":1,"added":[{"key":"a","operator":"Exists"}],"via":"gate"}]'
    mine = pod("mine").owned_by("ReplicaSet", api_version="apps/v1").but("spec.nodeName", "old-1")
    mine = mine.annotated({"tollbar.dev/tolerations": recorded}).tolerating({"key": "a", "operator": "Exists"})
    mine = mine.labelled({"app": "web", ZONE: "a", "tollbar.dev/gate": "released"})
    old, bare = node("old-1").labelled({ZONE: "a"}), pod("bare").but("spec.nodeName", "old-1")
    objects = [old, node("new-1"), mine, bare, devices("old-1", 1)]
    made = plan([], ClusterDump("", objects, {}), ["old-*"], 0.0)
    ((origin, moved),) = made.moved
    assert (origin, moved["metadata"]["name"], moved["spec"].get("nodeName")) == ("moved from old-1", "mine", None)
    assert (moved["spec"].get("tolerations"), moved["metadata"]["annotations"]) == (None, {})
    assert moved["metadata"]["labels"] == {"app": "web"}
    assert {obj["kind"]: obj["metadata"]["name"] for obj in made.objects} == {"Node": "new-1", "Namespace": "ml"}


def simulate(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, ["simulate", *arguments], input=stdin)


FILES = written(*DRA[1:], *GPU_NODE, in_file().templates("gpu"))


def test_the_command_prints_a_table_and_says_the_sum() -> None:
    done = simulate("-f", "-", stdin=FILES)
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "POD      ADMISSION   RULES   NODE    DEVICES       PENDING",
        "ml/web   tolerated   gpu     gpu-1   gpu-1/gpu-0   -",
    ]
    assert done.stderr.splitlines() == ["1 Pod, 1 with a Node, 0 without; settled after 0s"]


def test_progress_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(console, "stderr", shown.console)
    outcome([*DRA, *GPU_NODE], *(new(name).templates("gpu") for name in "abc"))
    bars = re.findall(r"Pods with a Node .*?(\d+/\d+)", shown.getvalue())
    assert bars[-1] == "2/3"


@pytest.mark.parametrize("forced", ["", "1"])
def test_without_a_terminal_no_progress_is_shown(
    forced: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", forced)
    outcome([*DRA, *GPU_NODE], new().templates("gpu"))
    assert capfd.readouterr() == ("", "")


def test_what_has_no_time_of_its_creation_is_the_newest() -> None:
    old, young = (
        node(f"of-{year}").but("metadata.creationTimestamp", f"{year}-01-01T00:00:00Z") for year in (2020, 2025)
    )
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        cluster = SimulatedCluster(cast("VirtualLoop", runner.get_loop()), start=NOW, scheduler=configuration())
        cluster.put([node("new-1"), young, node("new-2"), old])
    assert [key_of(each).name for each in cluster.api.all("Node")] == ["of-2020", "of-2025", "new-1", "new-2"]


def test_many_pods_of_one_kind_share_a_row() -> None:
    done = simulate("-f", "-", "--replicas", "30", stdin=FILES)
    assert done.exit_code == 1
    first, second, third = done.stdout.splitlines()
    assert first.split() == ["POD", "ADMISSION", "RULES", "NODE", "DEVICES", "PENDING"]
    assert "Pod ml/web (2 Pods)" in second
    assert "2 devices" in second
    assert "Pod ml/web (28 Pods)" in third


def test_the_command_prints_data() -> None:
    data = json.loads(simulate("-f", "-", "-o", "json", stdin=FILES).stdout)
    (found,) = data["pods"]
    assert (data["end"], found["node"], found["pending"]) == ("settled", "gpu-1", None)
    assert found["tolerationsAdded"] == [
        {"toleration": "example.com/gpu:NoSchedule op=Exists", "rule": "gpu", "via": "admission"}
    ]
    assert found["devices"][0] | {"claim": ""} == {
        "claim": "",
        "request": "r0",
        "driver": "gpu.example.com",
        "pool": "gpu-1",
        "device": "gpu-0",
    }


def test_a_dump_is_a_cluster(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    objects: list[Object] = [*DRA, *GPU_NODE]
    dump = ClusterDump("2026-01-01T00:00:00Z", clusterdump.in_order(objects), {"PersistentVolume": "no rights"})
    clusterdump.write(dump, file)
    given = written(in_file().templates("gpu"))
    done = simulate("-f", "-", "--cluster", str(file), stdin=given)
    assert done.exit_code == 0
    assert done.stderr.splitlines()[0] == "not read: no rights"
    assert simulate("-f", "-", "--cluster", str(file), "--without-node", "gpu-1", stdin=given).exit_code == 1


@pytest.mark.parametrize(("unserved", "exit_code"), [(("PodGroup",), 0), ((), 1)], ids=["1.36", "1.37"])
def test_a_pod_waits_for_its_pod_group_where_these_are_served(
    tmp_path: Path, unserved: tuple[str, ...], exit_code: int
) -> None:
    file = tmp_path / "dump.json"
    objects: list[Object] = [*DRA, *GPU_NODE, claim("mine").request("gpu")]
    clusterdump.write(ClusterDump("", clusterdump.in_order(objects), {}, unserved), file)
    given = written(in_file().claims("mine").but("spec.schedulingGroup", {"podGroupName": "team"}))
    done = simulate("-f", "-", "--cluster", str(file), "-o", "json", stdin=given)
    (found,) = json.loads(done.stdout)["pods"]
    assert (done.exit_code, found["node"]) == (exit_code, "gpu-1" if unserved else None)


@pytest.mark.parametrize(("unserved", "exit_code"), [(("PodGroup",), 0), ((), 1)], ids=["1.36", "1.37"])
def test_a_claim_from_a_template_waits_for_the_pod_group_where_these_are_served(
    tmp_path: Path, unserved: tuple[str, ...], exit_code: int
) -> None:
    file = tmp_path / "dump.json"
    clusterdump.write(ClusterDump("", clusterdump.in_order([*DRA, *GPU_NODE]), {}, unserved), file)
    given = written(in_file().templates("gpu").but("spec.schedulingGroup", {"podGroupName": "team"}))
    done = simulate("-f", "-", "--cluster", str(file), "-o", "json", stdin=given)
    (found,) = json.loads(done.stdout)["pods"]
    assert (done.exit_code, found["node"], len(found["claims"])) == (
        exit_code,
        "gpu-1" if unserved else None,
        1 - exit_code,
    )


def test_a_pod_group_that_the_files_bring_is_served(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    clusterdump.write(ClusterDump("", [], {}, ("PodGroup", "DeviceTaintRule")), file)
    group = Built(POD_GROUPS.type_meta, metadata={"name": "team", "namespace": "ml"})
    known = [Located("group.yaml", group, yaml.compose("{}"))]
    assert plan(known, clusterdump.read(file), [], 0.0).unserved == {"DeviceTaintRule"}


def test_an_earlier_moment_is_looked_at() -> None:
    given = written(namespace(), RULE, node("plain"), in_file().claims("mine"))
    found = json.loads(simulate("-f", "-", "--until", "30s", "-o", "json", stdin=given).stdout)
    assert (found["end"], found["pods"][0]["pending"]) == (
        "time is over",
        "held by tollbar.dev/tolerations: waits for ResourceClaim mine",
    )


def test_at_the_first_moment_it_shows_why_a_pod_has_no_node() -> None:
    given = written(namespace(), node("plain", TAINT), in_file())
    found = json.loads(simulate("-f", "-", "--until", "0s", "-o", "json", stdin=given).stdout)
    assert "1 node(s) had untolerated taint(s)" in found["pods"][0]["pending"]


def test_until_it_is_settled_is_the_default() -> None:
    given = written(namespace(), RULE, node("plain"), in_file().claims("mine"))
    explicit, default = (
        simulate("-f", "-", *until, "-o", "json", stdin=given).stdout for until in (("--until", "settled"), ())
    )
    assert (explicit, json.loads(explicit)["end"]) == (default, "settled")


def test_a_rule_is_tried_before_it_is_real(tmp_path: Path) -> None:
    file = tmp_path / "rule.yaml"
    file.write_text(written(toleration_rule("new").cel("true").giving({**TAINT, "operator": "Exists"})))
    given = written(*GPU_NODE, in_file())
    assert simulate("-f", "-", stdin=given).exit_code == 1
    assert simulate("-f", "-", "--with-rule", str(file), stdin=given).exit_code == 0


EXAMPLES = Path(__file__).parents[3] / "manifests" / "examples"


def test_what_gate_classes_decide_by_is_passed_over_and_said() -> None:
    files = sorted((EXAMPLES / "placement").glob("[!b]*.yaml"))
    names = [argument for file in (*files, EXAMPLES / "pod-quota") for argument in ("-f", str(file))]
    assert simulate(*names).stderr.splitlines()[:2] == [
        "2 PlacementRules passed over: no gate class decides in a simulation",
        "1 PodQuota passed over: no gate class decides in a simulation",
    ]


def test_what_gate_classes_decide_by_is_passed_over_in_a_dump_too(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    kinds = [{"kind": kind, "metadata": {"name": "x"}, "spec": {}} for kind in ("PlacementRule", "PodQuota")]
    clusterdump.write(ClusterDump("", clusterdump.in_order([node("plain"), *kinds]), {}), file)
    assert simulate("-f", "-", "--cluster", str(file), stdin=written(in_file())).stderr.splitlines()[:2] == [
        "1 PlacementRule passed over: no gate class decides in a simulation",
        "1 PodQuota passed over: no gate class decides in a simulation",
    ]


def test_the_pod_group_of_a_workload_claim_is_made(caplog: pytest.LogCaptureFixture) -> None:
    given = written(node("gpu-1"), devices("gpu-1", 2))
    done = simulate("-f", str(EXAMPLES / "pod-group"), "-f", "-", "-o", "json", stdin=given)
    found = json.loads(done.stdout)["pods"]
    assert [(each["node"], [d["device"] for d in each["devices"]]) for each in found] == [("gpu-1", ["gpu-0"])] * 3
    assert caplog.records == []


CONFIG: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
SAMPLE = EXAMPLES / "scheduler-plugins" / "scheduler.yaml"
WRONG: dict[str, tuple[list[str], str, str]] = {
    "broken YAML": (["-f", "-"], "a: [", "Error: stdin:1:5: "),
    "no Pod": (
        ["-f", "-"],
        written(node("plain")),
        "Error: stdin:1: Node plain: no Pod, and no workload, which would make one",
    ),
    "nothing": (["-f", "-"], "", "Error: -: no Pod, and no workload, which would make one"),
    "another kind than a Pod": (["-f", "-"], written(CONFIG), "Error: stdin:1: ConfigMap x: nothing here is a Pod, or"),
    "several documents, of which one is wrong": (
        ["-f", "-"],
        FILES + "---\nkind: x\n",
        "Error: stdin:86: an object of the API has apiVersion and kind",
    ),
    "an unknown kind": (
        ["-f", "-"],
        written({**CONFIG, "kind": "Podd"}),
        'Error: stdin:1: no kind "Podd" of v1 is known',
    ),
    "an empty directory": (
        ["-f", "TMP/empty"],
        "",
        "Error: TMP/empty: no manifest (.yaml, .yml, .json) is in this directory",
    ),
    "an empty directory for a dump": (
        ["-f", "-", "--cluster", "TMP/empty"],
        FILES,
        "Error: TMP/empty: no file of a dump (*.json) is in this directory",
    ),
    "a dump of another version": (
        ["-f", "-", "--cluster", "TMP/old.json"],
        FILES,
        'Error: TMP/old.json:1: a dump of the version "dump.tollbar.dev/v0"; this program reads dump.tollbar.dev/v1',
    ),
    "a dump that is none": (["-f", "-", "--cluster", __file__], FILES, f"Error: {__file__}:1:3: not a dump"),
    "containers that are a text": (
        ["-f", "-"],
        FILES + "---\n" + written(pod("x").bound().but("spec.containers", "none")),
        "Error: stdin:",
    ),
    "a Pod that is there twice": (
        ["-f", "-"],
        FILES + "---\n" + written(in_file()),
        "Error: stdin:86: Pod ml/web: is in the files twice",
    ),
    "two clusters": (["-f", "-", "--cluster", "x", "--live"], FILES, "Error: --cluster and --live are two clusters"),
    "a Node that is not there": (["-f", "-", "--without-node", "x"], FILES, "Error: there is no Node x"),
    "a scheduler's configuration that is none": (
        ["-f", "-", "--scheduler-config", __file__],
        FILES,
        f"Error: {__file__}: ",
    ),
    "a scheduler's configuration with a plugin that is not there": (
        ["-f", "-", "--scheduler-config", str(SAMPLE)],
        FILES,
        f'Error: {SAMPLE}: creating profile for scheduler name sample-scheduler: QueueSortPlugin "QOSSort" does not',
    ),
    "a number of copies that is none": (["-f", "-", "--replicas", "0"], FILES, "Error: Invalid value for '--replicas'"),
    "a time that is none": (["-f", "-", "--until", "soon"], FILES, "Error: Invalid value for '--until'"),
}


@pytest.mark.parametrize(("arguments", "stdin", "line"), WRONG.values(), ids=WRONG)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], stdin: str, line: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    older = clusterdump.encoded(ClusterDump("", [], {}))
    (tmp_path / "old.json").write_bytes(b"".join(older).replace(b"tollbar.dev/v1", b"tollbar.dev/v0"))
    done = simulate(*(each.replace("TMP", str(tmp_path)) for each in arguments), stdin=stdin)
    assert (done.exit_code, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert said.replace(str(tmp_path), "TMP").startswith(line)


# The loop.


def on_virtual_time(main: Callable[[VirtualLoop], Any]) -> Any:
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(loop))


def test_a_loop_is_at_its_next_timer_at_once() -> None:
    async def play(loop: VirtualLoop) -> tuple[float, float]:
        clock = VirtualClock(loop, 100.0)
        await clock.sleep(3600.0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50.0):
                await asyncio.Event().wait()
        return clock.monotonic(), clock.now()

    assert on_virtual_time(play) == (3650.0, 3750.0)


def test_who_rests_goes_on_when_all_others_have_done_what_there_was_to_do() -> None:
    async def play(loop: VirtualLoop) -> list[str]:
        seen = []

        async def busy() -> None:
            for turn in range(3):
                seen.append(f"busy {turn}")
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            seen.append("a second later")

        async def rests(name: str) -> None:
            await loop.rest()
            seen.append(f"{name} at {loop.time():g}")

        async with asyncio.TaskGroup() as tasks:
            given_up = tasks.create_task(rests("nobody"))
            tasks.create_task(rests("one"))
            tasks.create_task(rests("another"))
            tasks.create_task(busy())
            asyncio.get_running_loop().call_soon(given_up.cancel)
        return seen

    assert on_virtual_time(play) == ["busy 0", "busy 1", "busy 2", "one at 0", "another at 0", "a second later"]
