"""What is recorded of attempts, for the web page of kube-scheduler-simulator."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from objects.builders import namespace, pod
from unit.cli.simulating import in_file, new, node, outcome, written

from tollbar.cli import main
from tollbar.cli.simulation import records
from tollbar.cli.simulation.records import PREFIX, Records
from tollbar.model.objects import Object
from tollbar.scheduler.plugins import registry


def recorded(*objects: Object, **kwargs: Any) -> dict[str, Any]:
    """The annotations about the one Pod that is created, decoded, by the last part of their names."""
    given = new()
    for path, value in kwargs.items():
        given = given.but(path.replace("__", "."), value)
    found = outcome([namespace(), *objects], given, records=Records())
    assert found.snapshot is not None
    notes = found.snapshot["pods"][-1]["metadata"]["annotations"]
    return {
        name.removeprefix(PREFIX): text if name.endswith("selected-node") else json.loads(text)
        for name, text in notes.items()
    }


def test_a_pod_that_gets_a_node() -> None:
    found = recorded(node("a"), node("b"), node("c"), spec__affinity=prefers("a"), spec__nodeSelector=None)
    assert found["selected-node"] == "a"
    assert set(found["filter-result"]) == {"a", "b", "c"}
    assert set(found["filter-result"]["b"].values()) == {"passed"}
    assert (found["score-result"]["a"]["NodeAffinity"], found["finalscore-result"]["a"]["NodeAffinity"]) == ("7", "200")
    assert found["finalscore-result"]["b"]["NodeAffinity"] == "0"
    assert found["bind-result"] == {"DefaultBinder": "success"}
    assert found["prefilter-result-status"]["NodeAffinity"] == ""
    assert len(found["result-history"]) == 1


def prefers(name: str) -> Object:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}
    preferred = [{"weight": 7, "preference": term}]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def test_a_pod_that_fits_nowhere() -> None:
    full = node("full").but("spec.unschedulable", True)
    found = recorded(full, node("other"), spec__nodeSelector={"disk": "fast"})
    assert found["selected-node"] == ""
    assert found["filter-result"]["full"]["NodeUnschedulable"] == "node(s) were unschedulable"
    assert "NodeAffinity" not in found["filter-result"]["full"]  # it was not asked any more
    assert found["filter-result"]["other"]["NodeAffinity"] == "node(s) didn't match Pod's node affinity/selector"
    assert found["filter-result"]["other"]["NodeUnschedulable"] == "passed"
    assert (found["bind-result"], found["score-result"]) == ({}, {})


def test_a_record_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_NODES", 2)
    found = recorded(*(node(f"n{number}") for number in range(5)))
    assert len(found["filter-result"]) == len(found["score-result"]) == 2
    assert found["selected-node"] in found["score-result"]


def test_the_only_node_that_fits_is_recorded_however_many_do_not(monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_NODES", 2)
    cordoned = [node(name).but("spec.unschedulable", True) for name in "abc"]
    found = recorded(*cordoned, node("d"))
    assert (found["selected-node"], len(found["filter-result"])) == ("d", 2)
    assert "d" in found["filter-result"]


def test_the_last_attempts_are_kept_and_no_more_bytes_than_an_object_may_have(monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_ATTEMPTS", 3)
    given = Records()
    tried = records._Tried({"filter-result": {"n": {"p": "x" * 1000}}}, {"bind-result": {"DefaultBinder": "success"}})
    given._tried[records.key_of(pod())] = [records._packed(tried)] * 3

    def history() -> list[Any]:
        notes = given.annotated(pod())["metadata"]["annotations"]
        found: list[Any] = json.loads(notes[f"{PREFIX}result-history"])
        return found

    assert len(history()) == 3
    monkeypatch.setattr(records, "_BYTES", 3000)
    assert len(history()) == 1


def test_an_attempt_that_is_too_large_is_recorded_with_fewer_nodes(monkeypatch: Any) -> None:
    nodes = [node(f"n{number}") for number in range(8)]
    whole = recorded(*nodes)
    monkeypatch.setattr(records, "_BYTES", 4000)
    found = recorded(*nodes)
    assert 0 < len(found["filter-result"]) < len(whole["filter-result"]) == 8
    assert found["selected-node"] in found["score-result"]


def test_of_more_pods_than_are_recorded_the_first_are_and_that_is_said(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(records, "MAX_PODS", 2)
    target = tmp_path / "record.yml"
    given = written(node("a"), in_file())
    arguments = ["simulate", "-f", "-", "--replicas", "3", "--explain", str(target)]
    done = CliRunner().invoke(main, arguments, input=given)
    pods = json.loads(target.read_text())["pods"]
    assert sum(f"{PREFIX}selected-node" in each["metadata"].get("annotations", {}) for each in pods) == 2
    assert f"{target}: the attempts of 2 Pods are in it, and nothing of 1 more" in done.stderr.splitlines()


def test_the_command_writes_what_the_page_imports(tmp_path: Path) -> None:
    target = tmp_path / "snapshot.json"
    given = written(node("a"), in_file())
    done = CliRunner().invoke(main, ["simulate", "-f", "-", "--explain", str(target)], input=given)
    assert done.exit_code == 0
    found = json.loads(target.read_text())
    assert [each["metadata"]["name"] for each in (*found["pods"], *found["nodes"])] == ["web", "a"]
    assert found["pods"][0]["metadata"]["annotations"][f"{PREFIX}selected-node"] == "a"
    assert registry.configuration(found["schedulerConfig"]).profiles[0].scheduler_name == "default-scheduler"
    refused = CliRunner().invoke(main, ["simulate", "-f", "-", "--explain", str(tmp_path / "x" / "y")], input=given)
    assert refused.exit_code == 2
    assert refused.stderr.splitlines()[-1].startswith("Error: cannot write ")
