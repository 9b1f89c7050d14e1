"""`tollbar gates`: the list, and what a cluster needs for the classes."""

from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from unit.gates.zones import Reporting, Zone

from tollbar.cli import gates
from tollbar.gates import Gate, Reads, registry
from tollbar.model.resources import CONFIG_MAPS, NODES, PERSISTENT_VOLUME_CLAIMS, PODS, SECRETS, Resource
from tollbar.runtime.caches import Cached

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
    alone = {name: [controllers] for name in ("tollbar-gates-controllers", "tollbar-gates-certificates")}
    assert bound == {"tollbar-gates": [controllers, webhook], **alone}


def reading(*cached: Cached) -> Gate:
    rows = tuple(Reads(each, lambda _: ()) for each in cached)
    made: Gate = type("Reading", (Zone,), {"reads": rows})()
    return made


def may_read(*resources: Resource) -> Any:
    plurals = [each.plural for each in resources]
    return [{"apiGroups": [""], "resources": plurals, "verbs": ["list", "watch"]}]


HERE = Cached("here", CONFIG_MAPS, namespace="teams")
RIGHTS: dict[str, tuple[list[Gate], Any]] = {
    "it reads nothing": ([reading()], {}),
    "a kind of the whole cluster": ([reading(Cached("all", CONFIG_MAPS))], {"": may_read(CONFIG_MAPS)}),
    "objects of one namespace": ([reading(HERE), reading(HERE)], {"teams": may_read(CONFIG_MAPS)}),
    "objects of two namespaces, each of another kind": (
        [reading(HERE), reading(Cached("disks", PERSISTENT_VOLUME_CLAIMS, namespace="disks"), Cached("p", PODS))],
        {"teams": may_read(CONFIG_MAPS), "disks": may_read(PERSISTENT_VOLUME_CLAIMS), "": may_read(PODS)},
    ),
    "one kind in two stores, which are filled from the whole cluster": (
        [reading(HERE, Cached("there", CONFIG_MAPS, namespace="others"))],
        {"": may_read(CONFIG_MAPS)},
    ),
    "a kind of which Tollbar has a store anyway": (
        [reading(Cached("keys", SECRETS, namespace="keys"))],
        {"": may_read(SECRETS)},
    ),
    "a kind without namespaces": ([reading(Cached("n", NODES, namespace="teams"))], {"": may_read(NODES)}),
}


@pytest.mark.parametrize(("classes", "rights"), RIGHTS.values(), ids=RIGHTS)
def test_no_more_may_be_read_than_is_listed(classes: list[Gate], rights: Any) -> None:
    found = [each for each in gates.objects(classes, "toll") if each["metadata"]["name"] == "tollbar-gates"]
    roles = {each["metadata"].get("namespace", ""): each for each in found if "rules" in each}
    bound = {each["metadata"].get("namespace", ""): each["roleRef"]["kind"] for each in found if "subjects" in each}
    assert {within: each["rules"] for within, each in roles.items()} == rights
    assert bound == {within: each["kind"] for within, each in roles.items()}


def test_what_a_ledger_writes_is_granted_to_the_controllers_alone() -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["zones/status"], "verbs": ["patch"]}
    found = list(gates.objects([type("Writing", (Zone,), {"rights": (rule,)})()], "toll"))
    granted = [each for each in found if each["metadata"]["name"] == "tollbar-gates-controllers"]
    assert [each["rules"][0] if "rules" in each else [at["name"] for at in each["subjects"]] for each in granted] == [
        rule,
        ["tollbar-controllers"],
    ]


@pytest.mark.parametrize(("narrows", "verbs"), [(True, ["release", "narrow"]), (False, ["release"])])
def test_what_the_ceiling_lets_the_controllers_do_with_the_gate(narrows: bool, verbs: list[str]) -> None:
    made = type("Narrowing", (Zone,), {"narrows": narrows, "name": "tollbar.dev/my-zone"})()
    (role,) = [
        each
        for each in gates.objects([made], "toll")
        if each["metadata"]["name"] == "tollbar-gates-controllers" and "rules" in each
    ]
    assert role["rules"] == [
        {
            "apiGroups": ["tollbar.dev"],
            "resources": ["schedulinggates"],
            "resourceNames": ["tollbar.dev/my-zone", "tollbar.dev.my-zone"],
            "verbs": verbs,
        }
    ]
