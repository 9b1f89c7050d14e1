"""`tollbar gates`: the list, and what a cluster needs for the classes."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from unit.gates.zones import Reporting, Zone

from tollbar.cli import gates
from tollbar.gates import registry

CLASSES = {"zone": Zone, "theirs": Reporting}


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "IN_TREE", CLASSES)


def printed(*arguments: str) -> str:
    done = CliRunner().invoke(gates.command, arguments)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_list_names_gate_class_and_what_it_reads() -> None:
    assert [line.split() for line in printed("zone").splitlines()] == [
        ["NAME", "GATE", "CLASS", "READS"],
        ["zone", "tollbar.dev/zone", "unit.gates.zones.Zone", "configmaps"],
    ]


def test_a_class_that_is_not_there_is_wrong_usage() -> None:
    done = CliRunner().invoke(gates.command, ["other"])
    assert (done.exit_code, done.output.splitlines()[-1]) == (
        2,
        "Error: gates: there is no gate other; installed are: theirs, zone",
    )


def test_the_rights_can_be_applied_before_the_webhook_by_their_label() -> None:
    found: list[Any] = list(yaml.safe_load_all(printed("zone", "--manifests")))
    labelled = [each for each in found if each["metadata"]["labels"]["app.kubernetes.io/component"] == "gates"]
    assert {each["kind"] for each in found if each not in labelled} == {"MutatingWebhookConfiguration"}


def test_both_processes_may_read_what_the_classes_read_and_only_the_controllers_may_write() -> None:
    found: list[Any] = list(yaml.safe_load_all(printed("zone,theirs", "--manifests", "--namespace", "toll")))
    granted = {each["metadata"]["name"]: each["rules"] for each in found if each["kind"] == "ClusterRole"}
    bound = {
        each["metadata"]["name"]: [(subject["namespace"], subject["name"]) for subject in each["subjects"]]
        for each in found
        if each["kind"] == "ClusterRoleBinding"
    }
    controllers, webhook = ("toll", "tollbar-controllers"), ("toll", "tollbar-webhook")
    left_out = [each["namespaceSelector"]["matchExpressions"][0]["values"] for each in found[0]["webhooks"]]
    assert found[0]["kind"] == "MutatingWebhookConfiguration"
    assert left_out == [["kube-system", "toll"]] * 2
    assert granted["tollbar-gates"] == [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    assert [rule["verbs"] for rule in granted["tollbar-gates-certificates"]] == [["patch"]]
    assert bound == {"tollbar-gates": [controllers, webhook], "tollbar-gates-certificates": [controllers]}
