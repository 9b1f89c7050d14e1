"""The questions that decisions ask the caches."""

from typing import Any

import pytest
from builders import CREATED, claim, device_class, namespace, pod, scheduling_gate, template
from fakes import FakeEngine

from tollbar import wellknown
from tollbar.decide.pods.scope import SHIPPED_GATE_POLICY, GatePolicy
from tollbar.model.objects import Key, Object
from tollbar.views.caches import PodCaches

ALL_BUT_SYSTEM = {
    "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}]
}
TEAM_A = {"matchLabels": {"team": "a"}}


def caches(*objects: Object, managed: Object | None = None) -> PodCaches:
    built = PodCaches(
        engine=FakeEngine(),
        managed_namespaces=ALL_BUT_SYSTEM if managed is None else managed,
        system_namespace="tollbar-system",
    )
    stores = {store.resource.kind: store for store in built.stores}
    for obj in objects:
        stores[obj["kind"]].apply(obj)
    return built


MANAGED: dict[str, tuple[PodCaches, str, bool]] = {
    "an ordinary namespace": (caches(namespace()), "ml", True),
    "a namespace that the selector leaves out": (caches(namespace("kube-system")), "kube-system", False),
    "our own": (caches(namespace("tollbar-system")), "tollbar-system", False),
    "our own, before it is known": (caches(), "tollbar-system", False),
    "one that opts out": (caches(namespace().labelled({"tollbar.dev/skip": "true"})), "ml", False),
    "an unknown one goes by its name": (caches(), "ml", True),
    "an unknown one that the selector leaves out by name": (caches(), "kube-system", False),
    "one that a selector for labels selects": (caches(namespace().labelled(team="a"), managed=TEAM_A), "ml", True),
    "one that it does not": (caches(namespace(), managed=TEAM_A), "ml", False),
    "an unknown one has no other labels": (caches(managed=TEAM_A), "ml", False),
    "the empty selector selects everything": (caches(namespace("kube-system"), managed={}), "kube-system", True),
}


@pytest.mark.parametrize(("given", "name", "want"), MANAGED.values(), ids=MANAGED)
def test_is_managed(given: PodCaches, name: str, want: bool) -> None:
    assert given.is_managed(name) is want


RESOURCE = "example.com/gpu"
OLD, NEW, SAME = (
    device_class("c-old").backing(RESOURCE),
    device_class("b-new").backing(RESOURCE).created(CREATED + 1),
    device_class("a-same").backing(RESOURCE).created(CREATED + 1),
)

BACKING: dict[str, tuple[PodCaches, str, str | None]] = {
    "no class": (caches(device_class()), RESOURCE, None),
    "one class": (caches(OLD, device_class()), RESOURCE, "c-old"),
    "of two, the one created last": (caches(OLD, NEW), RESOURCE, "b-new"),
    "of two created at once, the first by name": (caches(NEW, SAME, OLD), RESOURCE, "a-same"),
    "by an implicit name": (caches(OLD), "deviceclass.resource.kubernetes.io/c-old", "c-old"),
    "by the implicit name of none": (caches(OLD), "deviceclass.resource.kubernetes.io/x", None),
}


@pytest.mark.parametrize(("given", "resource", "want"), BACKING.values(), ids=BACKING)
def test_class_for_extended_resource(given: PodCaches, resource: str, want: str | None) -> None:
    found = given.class_for_extended_resource(resource)
    assert (found and found["metadata"]["name"]) == want


OURS = scheduling_gate().expiring("90s")
POLICIES: dict[str, tuple[PodCaches, GatePolicy]] = {
    "none": (caches(), SHIPPED_GATE_POLICY),
    "somebody else's": (caches(scheduling_gate("x", "a.dev/x").expiring("5s", "Report")), SHIPPED_GATE_POLICY),
    "ours": (caches(OURS), GatePolicy(max_hold=90.0)),
    "ours, that only reports": (
        caches(scheduling_gate().expiring("90s", "Report")),
        GatePolicy(max_hold=90.0, release_on_expiry=False),
    ),
    "ours without a deadline": (
        caches(scheduling_gate().expiring(None, "Report")),
        GatePolicy(max_hold=None, release_on_expiry=False),
    ),
    "of two, the first by name": (caches(scheduling_gate("z").expiring("5s"), OURS), GatePolicy(max_hold=90.0)),
    "one that makes no sense": (caches(scheduling_gate().expiring("soon")), SHIPPED_GATE_POLICY),
    "one that nobody may remove": (caches(OURS.ready("False")), GatePolicy(max_hold=90.0, usable=False)),
    "one that is ready": (caches(OURS.ready("True")), GatePolicy(max_hold=90.0)),
    "one whose readiness is unknown": (caches(OURS.ready("Unknown")), GatePolicy(max_hold=90.0)),
}


@pytest.mark.parametrize(("given", "want"), POLICIES.values(), ids=POLICIES)
def test_gate_policy(given: PodCaches, want: GatePolicy) -> None:
    assert given.gate_policy() == want


def test_what_is_looked_up_is_what_is_kept() -> None:
    given = caches(
        claim().but("status", {"allocation": {}}),
        template(),
        device_class().but("metadata.managedFields", [{}]),
        namespace().but("spec", {"finalizers": ["kubernetes"]}),
    )
    assert [
        given.claim(Key("ml", "gpu")),
        given.template(Key("ml", "gpu")),
        given.device_class("gpu"),
        given.namespace("ml"),
        given.claim(Key("ml", "x")),
    ] == [
        {"metadata": claim()["metadata"], "spec": {}},
        {"metadata": template()["metadata"], "spec": {"spec": {}}},
        {"metadata": device_class()["metadata"], "spec": {}},
        {"metadata": namespace()["metadata"]},
        None,
    ]


def test_synced_when_every_store_that_decides_is() -> None:
    given, seen = caches(), []
    for store in given.decisive:
        seen.append(given.synced)
        store.synced.set()
    assert (seen, given.synced) == ([False] * len(given.decisive), True)


def configuration(*conditions: str) -> Object:
    return {
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": wellknown.WEBHOOK_CONFIGURATION, "uid": "u"},
        "webhooks": [
            {"name": "pods", "matchConditions": [{"name": name, "expression": "true"} for name in conditions]}
        ],
    }


PREFILTERED: dict[str, tuple[PodCaches, bool]] = {
    "no configuration": (caches(), False),
    "no webhooks": (caches({**configuration(), "webhooks": None}), False),
    "no conditions": (caches(configuration()), False),
    "other conditions": (caches(configuration("not-bound")), False),
    "the condition about devices": (caches(configuration("not-bound", "devices")), True),
}


@pytest.mark.parametrize(("given", "want"), PREFILTERED.values(), ids=PREFILTERED)
def test_is_prefiltered(given: Any, want: bool) -> None:
    assert given.is_prefiltered is want


def test_a_pod_is_found_by_everything_that_concerns_it() -> None:
    given = caches(
        pod("web")
        .claims("a")
        .templates("b", "c")
        .generated("c", "web-c-x")
        .wants({RESOURCE: "1", "cpu": "1"})
        .gated("a.dev/x", wellknown.GATE)
    )
    asked: list[tuple[str, Any]] = [
        ("namespace", "ml"),
        ("claim", Key("ml", "a")),
        ("claim", Key("ml", "web-c-x")),
        ("template", Key("ml", "b")),
        ("template", Key("ml", "c")),
        ("extended-resource", RESOURCE),
        ("gate", "a.dev/x"),
        ("gate", wellknown.GATE),
    ]
    others: list[tuple[str, Any]] = [("claim", Key("ml", "b")), ("extended-resource", "cpu"), ("namespace", "other")]
    assert [len(given.pods.by_index(*each)) for each in (*asked, *others)] == [1] * len(asked) + [0] * len(others)
