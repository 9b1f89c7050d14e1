"""What decisions about Pods are made from: who is managed, what the gate says, whether everything is known."""

from dataclasses import replace

import pytest
from fakes.manager import Managed
from objects.builders import claim, device_class, namespace, pod, scheduling_gate, template, toleration_rule

from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.model.objects import Key, Object
from tollbar.views.gatherer import Gatherer

ALL_BUT_SYSTEM = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
}
TEAM_A = {"matchLabels": {"team": "a"}}


def gathering(*objects: Object, managed: Object | None = None) -> Gatherer:
    manager = Managed()
    gatherer = manager.gatherer(managed_namespaces=ALL_BUT_SYSTEM if managed is None else managed)
    manager.fill(objects)
    return gatherer


MANAGED: dict[str, tuple[Gatherer, str, bool]] = {
    "an ordinary namespace": (gathering(namespace()), "ml", True),
    "a namespace that the selector leaves out": (gathering(namespace("kube-system")), "kube-system", False),
    "our own": (gathering(namespace("tollbar-system")), "tollbar-system", False),
    "our own, before it is known": (gathering(), "tollbar-system", False),
    "one that opts out": (gathering(namespace().labelled({"tollbar.dev/skip": "true"})), "ml", False),
    "an unknown one goes by its name": (gathering(), "ml", True),
    "an unknown one that the selector leaves out by name": (gathering(), "kube-system", False),
    "one that a selector for labels selects": (gathering(namespace().labelled(team="a"), managed=TEAM_A), "ml", True),
    "one that it does not": (gathering(namespace(), managed=TEAM_A), "ml", False),
    "an unknown one has no other labels": (gathering(managed=TEAM_A), "ml", False),
    "the empty selector selects everything": (gathering(namespace("kube-system"), managed={}), "kube-system", True),
}


@pytest.mark.parametrize(("given", "name", "want"), MANAGED.values(), ids=MANAGED)
def test_is_managed(given: Gatherer, name: str, want: bool) -> None:
    assert given.is_managed(name) is want


OURS = scheduling_gate().expiring("90s")
POLICIES: dict[str, tuple[Gatherer, GatePolicy]] = {
    "none": (gathering(), SHIPPED_GATE_POLICY),
    "somebody else's": (gathering(scheduling_gate("x", "a.dev/x").expiring("5s", "Report")), SHIPPED_GATE_POLICY),
    "ours": (gathering(OURS), GatePolicy(max_hold=90.0)),
    "ours, that only reports": (
        gathering(scheduling_gate().expiring("90s", "Report")),
        GatePolicy(max_hold=90.0, release_on_expiry=False),
    ),
    "ours without a deadline": (
        gathering(scheduling_gate().expiring(None, "Report")),
        GatePolicy(max_hold=None, release_on_expiry=False),
    ),
    "of two, the first by name": (gathering(scheduling_gate("z").expiring("5s"), OURS), GatePolicy(max_hold=90.0)),
    "one that makes no sense": (gathering(scheduling_gate().expiring("soon")), SHIPPED_GATE_POLICY),
    "one that nobody may remove": (gathering(OURS.ready("False", "NotAnOwner")), GatePolicy(90.0, usable=False)),
    "one that makes no sense and that nobody may remove": (
        gathering(OURS.expiring("soon").ready("False", "NotAnOwner")),
        replace(SHIPPED_GATE_POLICY, usable=False),
    ),
    "one that has made no sense until now": (gathering(OURS.ready("False", "InvalidSpec")), GatePolicy(90.0)),
    "one that is ready": (gathering(OURS.ready("True", "Owned")), GatePolicy(max_hold=90.0)),
}


@pytest.mark.parametrize(("given", "want"), POLICIES.values(), ids=POLICIES)
def test_gate_policy(given: Gatherer, want: GatePolicy) -> None:
    assert given.gate_policy() == want


def test_what_the_gate_says_changes_with_its_object() -> None:
    given, said = gathering(), []
    for step in (OURS, OURS.expiring("5s").but("metadata.uid", "another")):
        given.gates.apply(step)
        said.append(given.gate_policy())
    given.gates.discard(Key("", OURS["metadata"]["name"]))
    assert ([policy.max_hold for policy in said], given.gate_policy()) == ([90.0, 5.0], SHIPPED_GATE_POLICY)


def test_synced_when_every_store_that_decides_is_and_then_for_good() -> None:
    given, seen = Managed().gatherer(), []
    for store in given.stores:
        seen.append(given.synced)
        store.synced.set()
    seen.append(given.synced)
    given.rules.synced.clear()
    assert (seen, given.synced) == ([False] * len(given.stores) + [True], True)


def test_decisions_about_pods_read_these_kinds() -> None:
    assert [store.resource.plural for store in Managed().gatherer().stores] == [
        "resourceclaims",
        "resourceclaimtemplates",
        "deviceclasses",
        "namespaces",
        "tolerationrules",
        "schedulinggates",
    ]


def test_a_package_is_gathered_from_the_stores() -> None:
    given = gathering(namespace(), claim("c").request("gpu"), template("t").request("gpu"), device_class("gpu"))
    held = pod().claims("c").templates("t")
    package = given.package(held)
    assert (package.pod, [each["metadata"].get("name") for each in package.claims], sorted(package.classes)) == (
        held,
        ["c", None],
        ["gpu"],
    )


def test_a_process_gathers_by_its_configuration() -> None:
    manager = Managed(systemNamespace="toll", managedNamespaceSelector=TEAM_A)
    given = Gatherer(manager.caches.store, manager.configuration)
    manager.fill([namespace("a").labelled(team="a"), namespace("b"), namespace("toll").labelled(team="a")])
    manager.fill([toleration_rule("r").cel("pod.metadata.name == 'x'")])
    managed = [given.is_managed(name) for name in ("a", "b", "toll")]
    assert (managed, [rule.name for rule in given.ruleset.rules]) == ([True, False, False], ["r"])
