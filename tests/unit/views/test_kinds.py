"""What is cached of an object of each kind, and under which values it is found."""

from dataclasses import replace
from typing import Any

import pytest
from objects.builders import claim, device_class, pod, scheduling_gate, template

from tollbar import wellknown
from tollbar.model.objects import Key, Object
from tollbar.runtime.caches import Cached, Caches
from tollbar.runtime.projection import Keep
from tollbar.views import kinds

FULL: Object = {
    "apiVersion": "v1",
    "kind": "X",
    "metadata": {"name": "a", "managedFields": [{"manager": "kubectl"}]},
    "spec": {"a": 1},
    "status": {"b": 2},
}
LARGE_PART: Object = {"note": "x" * kinds.MOST_BYTES}


def nested(levels: int) -> Object:
    found: Object = {}
    for _ in range(levels):
        found = {"a": found}
    return found


HUGE: Object = {
    "metadata": {"name": "a", "uid": "u", "annotations": {"a": "b"}, "labels": {"c": "d"}},
    "spec": LARGE_PART,
    "status": {"b": 2},
}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "w", "controller": True}
NOTES = {
    wellknown.ANNOTATION_RESERVED_FOR: "deployments.apps/web",
    wellknown.ANNOTATION_RELEASE: "WhenIdle",
    wellknown.ANNOTATION_RESERVED_UID: "u1",
    wellknown.ANNOTATION_WORKLOAD_CLAIM: "c",
    wellknown.ANNOTATION_EVICTED_FROM: "gpu.example.com/pool/gpu-0",
    wellknown.POD_CLAIM_NAME_ANNOTATION: "gpu",
    wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true",
}
OURS: Object = {
    "name": "a",
    "uid": "u",
    "generateName": "web-gpu-",
    "annotations": NOTES,
    "ownerReferences": [OWNER],
    "finalizers": [wellknown.DELETE_PROTECTION_FINALIZER],
    "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
}
HUGE_AND_OURS: Object = {
    **HUGE,
    "metadata": {
        **OURS,
        "labels": {"c": "d"},
        "annotations": {**NOTES, "a": "b"},
        "ownerReferences": [{**OWNER, "uid": "x", "controller": False}, OWNER],
        "finalizers": ["example.com/wait", wellknown.DELETE_PROTECTION_FINALIZER],
        "managedFields": [
            {"manager": "kubectl", "fieldsV1": {"f:spec": {}, "f:metadata": {}}},
            {"manager": "x", "fieldsV1": {"f:status": {}}},
        ],
    },
}
LARGE_METADATA: Object = {
    "name": "a",
    "uid": "u",
    "labels": {f"example.com/{number}": "x" * 60 for number in range(9_000)},
    "finalizers": ["example.com/wait"],
    "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "x" * 9_000, "uid": "u"}],
}
RECORD = {wellknown.ANNOTATION_PROVENANCE: '[{"rule":"gpu"}]'}
REFERENCES: Object = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "gpu"}]}
RECORDED: Object = {
    "metadata": {
        "name": "a",
        "annotations": {**RECORD, "other": "x"},
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"a": "b"},
    },
    "spec": {**REFERENCES, "containers": [{"name": "main", "resources": {"requests": {"a.dev/gpu": "1"}}, "env": []}]},
}
PROJECTED: dict[str, tuple[Cached, Object, Object]] = {
    "metadata and spec of a claim": (kinds.CLAIMS, FULL, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "metadata and spec of a template": (kinds.TEMPLATES, FULL, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "metadata and spec of a class": (kinds.CLASSES, FULL, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "metadata only of a namespace": (kinds.NAMESPACES, FULL, {"metadata": {"name": "a"}}),
    "for the controllers of claims, the status and who wrote what": (
        kinds.CLAIMS_WITH_STATUS,
        FULL,
        {"metadata": {"name": "a", "managedFields": []}, "spec": {"a": 1}, "status": {"b": 2}},
    ),
    "metadata and spec of a slice": (kinds.SLICES, FULL, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "metadata and spec of a taint rule": (kinds.TAINT_RULES, FULL, {"metadata": {"name": "a"}, "spec": {"a": 1}}),
    "for allocations, the status of a claim": (
        kinds.CLAIMS_WITH_ALLOCATION,
        FULL,
        {"metadata": {"name": "a"}, "spec": {"a": 1}, "status": {"b": 2}},
    ),
    "the identity of a claim that is too large": (
        kinds.CLAIMS,
        HUGE,
        {"metadata": {"name": "a", "uid": "u"}, "spec": {}, "stub": True},
    ),
    "of a claim with a large part that nobody keeps, as ever": (
        kinds.CLAIMS,
        {"metadata": {"name": "a", "managedFields": [LARGE_PART]}, "status": LARGE_PART},
        {"metadata": {"name": "a"}, "spec": {}},
    ),
    "the identity of a template that is too large": (
        kinds.TEMPLATES,
        HUGE,
        {"metadata": {"name": "a", "uid": "u"}, "spec": {}, "stub": True},
    ),
    "of a claim that is too large, all that controllers of claims read": (
        kinds.CLAIMS_WITH_STATUS,
        HUGE_AND_OURS,
        {"metadata": OURS, "spec": {}, "status": {"b": 2}, "stub": True},
    ),
    "even if that is long": (
        kinds.CLAIMS_WITH_STATUS,
        {**HUGE_AND_OURS, "metadata": {**OURS, "annotations": {wellknown.ANNOTATION_EVICTED_FROM: "x" * 8192}}},
        {
            "metadata": {**OURS, "annotations": {wellknown.ANNOTATION_EVICTED_FROM: "x" * 8192}},
            "spec": {},
            "status": {"b": 2},
            "stub": True,
        },
    ),
    "but no texts that somebody made too long to mean anything": (
        kinds.CLAIMS_WITH_STATUS,
        {
            **HUGE_AND_OURS,
            "metadata": {
                **OURS,
                "annotations": {**NOTES, wellknown.ANNOTATION_RESERVED_FOR: "x" * 32_768},
                "ownerReferences": [{**OWNER, "name": "x" * 32_768}],
            },
        },
        {
            "metadata": {
                **OURS,
                "annotations": {**NOTES, wellknown.ANNOTATION_RESERVED_FOR: "x" * 600},
                "ownerReferences": [{**OWNER, "name": "x" * 600}],
            },
            "spec": {},
            "status": {"b": 2},
            "stub": True,
        },
    ),
    "nothing of metadata that are too large in whatever nobody reads": (
        kinds.CLAIMS_WITH_STATUS,
        {"metadata": LARGE_METADATA, "spec": {"a": 1}, "status": {"b": 2}},
        {"metadata": {"name": "a", "uid": "u"}, "spec": {}, "status": {"b": 2}, "stub": True},
    ),
    "a claim that is too large, for allocations": (
        kinds.CLAIMS_WITH_ALLOCATION,
        HUGE,
        {member: HUGE[member] for member in ("metadata", "spec", "status")},
    ),
    "the identity of a claim with parameters that are nested too deeply to be written": (
        kinds.CLAIMS,
        {"metadata": {"name": "a", "labels": {"c": "d"}}, "spec": nested(300)},
        {"metadata": {"name": "a"}, "spec": {}, "stub": True},
    ),
    "of a claim that would be too large if its managed fields counted, everything": (
        kinds.CLAIMS,
        {"metadata": {"name": "a", "managedFields": [nested(300)]}, "spec": {"a": 1}},
        {"metadata": {"name": "a"}, "spec": {"a": 1}},
    ),
    "what tells of the claims of a Pod": (
        kinds.CLAIM_CONSUMERS,
        {**RECORDED, "metadata": {"name": "a", "annotations": {"other": "x"}, "labels": {"a": "b"}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": REFERENCES, "status": {}},
    ),
    "and who controls it, of all whose author says that they own it": (
        kinds.CLAIM_CONSUMERS,
        {"metadata": {"name": "a", "ownerReferences": [{**OWNER, "controller": False}, OWNER]}, "spec": REFERENCES},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "ownerReferences": [OWNER]},
            "spec": REFERENCES,
            "status": {},
        },
    ),
    "and whether what Tollbar gave it is justified": (
        kinds.CLAIM_CONSUMERS,
        RECORDED,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "annotations": RECORD, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                **REFERENCES,
                "containers": [{"resources": {"requests": {"a.dev/gpu": "1"}}}],
                "initContainers": [],
            },
            "status": {},
        },
    ),
    "without the containers if they have no extended resources": (
        kinds.CLAIM_CONSUMERS,
        {**RECORDED, "spec": {**REFERENCES, "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a", "annotations": RECORD, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": REFERENCES,
            "status": {},
        },
    ),
    "but no record that somebody made long": (
        kinds.CLAIM_CONSUMERS,
        {**RECORDED, "metadata": {"name": "a", "annotations": {wellknown.ANNOTATION_PROVENANCE: "x" * 2049}}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": REFERENCES, "status": {}},
    ),
    "all but the managed fields of a rule": (kinds.RULES, FULL, {**FULL, "metadata": {"name": "a"}}),
}


@pytest.mark.parametrize(("cached", "given", "want"), PROJECTED.values(), ids=PROJECTED)
def test_projections(cached: Cached, given: Object, want: Object) -> None:
    assert cached.project(given) == want


SMALL = pod().claims("a", "b").templates("t").generated("t", "web-t-x").wants({"example.com/gpu": "1"})
LARGE = SMALL.templates(*(f"t{i}" for i in range(1021))).gated()

INDEXED: dict[str, tuple[Cached, str, Any, list[Any]]] = {
    "a Pod by its claims": (
        kinds.PENDING_PODS,
        "claim",
        SMALL,
        [Key("ml", name) for name in ("a", "b", "web-t-x")],
    ),
    "a Pod by its templates": (kinds.PENDING_PODS, "template", SMALL, [Key("ml", "t")]),
    "a Pod by its extended resources": (kinds.PENDING_PODS, "extended-resource", SMALL, ["example.com/gpu"]),
    "a Pod that has finished not by its claims": (kinds.PENDING_PODS, "claim", SMALL.phase("Succeeded"), []),
    "one that is being deleted not by its templates": (kinds.PENDING_PODS, "template", SMALL.deleting(), []),
    "nor by its extended resources, either": (kinds.PENDING_PODS, "extended-resource", SMALL.deleting(), []),
    "a Pod whose package is too large not by its claims": (kinds.PENDING_PODS, "claim", LARGE, []),
    "nor by its templates": (kinds.PENDING_PODS, "template", LARGE, []),
    "nor by its extended resources": (kinds.PENDING_PODS, "extended-resource", LARGE, []),
    "a Pod that is held by its namespace": (kinds.PENDING_PODS, "held-in", pod().gated(), ["ml"]),
    "unless it is being deleted": (kinds.PENDING_PODS, "held-in", pod().gated().deleting(), []),
    "or held by another gate": (kinds.PENDING_PODS, "held-in", pod().gated("example.com/wait"), []),
    "a Pod by the templates of claims that nobody has generated": (
        kinds.PENDING_PODS,
        "ungenerated",
        SMALL.templates("u").claims("c"),
        [Key("ml", "u")],
    ),
    "but by its gate": (kinds.PENDING_PODS, "gate", LARGE, ["tollbar.dev/tolerations"]),
    "and its claims have it as a user": (
        kinds.CLAIM_CONSUMERS,
        "claim",
        LARGE,
        [Key("ml", name) for name in ("a", "b", "web-t-x")],
    ),
    "a claim by the classes of all its choices": (
        kinds.CLAIMS,
        "class",
        claim().request("a").request("b", "c").request("a"),
        ["a", "b", "c"],
    ),
    "a template by the classes of its claims": (
        kinds.TEMPLATES,
        "class",
        template().request("a", "b"),
        ["a", "b"],
    ),
    "a class by what it backs": (
        kinds.CLASSES,
        "extended-resource",
        device_class().backing("example.com/gpu"),
        ["example.com/gpu"],
    ),
    "a class that backs nothing": (kinds.CLASSES, "extended-resource", device_class(), []),
    "a SchedulingGate by the gate": (kinds.GATES, "gate-name", scheduling_gate("x", "a.dev/x"), ["a.dev/x"]),
}


@pytest.mark.parametrize(("cached", "index", "given", "want"), INDEXED.values(), ids=INDEXED)
def test_indexers(cached: Cached, index: str, given: Any, want: list[Any]) -> None:
    assert sorted(cached.indexers[index](given)) == want


def test_who_reads_the_status_of_claims_shares_the_store_with_who_does_not() -> None:
    for first, second in ((kinds.CLAIMS, kinds.CLAIMS_WITH_STATUS), (kinds.CLAIMS_WITH_STATUS, kinds.CLAIMS)):
        caches = Caches()
        stores = caches.store(first), caches.store(second)
        given = claim("c").request("gpu").generated_for(pod()).allocated()
        stores[0].apply(given)
        (kept,) = stores[1].by_index("class", "gpu")
        owned = stores[1].by_index("owner", "uid-of-web")
        assert (stores[0] is stores[1], kept["status"], owned) == (True, given["status"], [kept])


def test_who_needs_whole_templates_has_them_beside_who_does_not_and_both_see_that_they_are_too_large() -> None:
    whole = replace(kinds.TEMPLATES, project=Keep(frozenset({"spec"})))
    for first, second in ((kinds.TEMPLATES, whole), (whole, kinds.TEMPLATES)):
        caches = Caches()
        store = caches.store(first)
        caches.store(second)
        store.apply(HUGE)
        assert store.values() == [{"metadata": HUGE["metadata"], "spec": HUGE["spec"], "stub": True}]


def test_a_pod_is_found_by_everything_that_concerns_it() -> None:
    store = Caches().store(kinds.PENDING_PODS)
    store.apply(
        pod("web")
        .claims("a")
        .templates("b", "c")
        .generated("c", "web-c-x")
        .wants({"example.com/gpu": "1", "cpu": "1"})
        .gated("a.dev/x", wellknown.GATE)
    )
    asked: list[tuple[str, Any]] = [
        ("namespace", "ml"),
        ("claim", Key("ml", "a")),
        ("claim", Key("ml", "web-c-x")),
        ("template", Key("ml", "b")),
        ("template", Key("ml", "c")),
        ("extended-resource", "example.com/gpu"),
        ("gate", "a.dev/x"),
        ("gate", wellknown.GATE),
    ]
    others: list[tuple[str, Any]] = [("claim", Key("ml", "b")), ("extended-resource", "cpu"), ("namespace", "other")]
    assert [len(store.by_index(*each)) for each in (*asked, *others)] == [1] * len(asked) + [0] * len(others)
