"""Which Pods have drifted from their rules, what is to be done about them, and which of them may be deleted."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from objects.builders import claim, device_class, namespace, pod, toleration, toleration_rule
from unit.cli.terminals import Terminal

from tollbar import wellknown
from tollbar.cli import clusterdump, console, copies, main
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.drift import SETTLED, Deleted, Drifted, delete, drifted
from tollbar.gates.placement import PlacementGate
from tollbar.model.objects import Object
from tollbar.model.resources import DEVICE_CLASSES, PODS, Resource
from tollbar.offline import Cluster
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, NotFound, TooManyRequests

GPU = toleration("example.com/gpu")
RULE = toleration_rule("gpu").cel("claims.size() > 0").giving(GPU)
BASE = [namespace(), device_class()]


def record(*given: Object, rule: str = "gpu", generation: int = 1) -> dict[str, str]:
    entry = {"rule": rule, "generation": generation, "added": list(given), "via": "admission"}
    return {wellknown.ANNOTATION_PROVENANCE: json.dumps([entry])}


GIVEN = pod().tolerating(GPU).annotated(record(GPU))
OWNED = GIVEN.owned_by("ReplicaSet", "web-1", api_version="apps/v1").but("metadata.resourceVersion", "7")
REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {
        "name": "web-1",
        "namespace": "ml",
        "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": True}],
    },
}

WHY: dict[str, tuple[list[Object], list[tuple[str, str]]]] = {
    "its rule is true": ([RULE, claim(), GIVEN.claims("gpu")], []),
    "it has no record": ([pod().tolerating(GPU)], []),
    "it is ending": ([GIVEN.deleting()], []),
    "it has finished": ([GIVEN.phase("Succeeded")], []),
    "what the rule reads is missing": ([RULE, GIVEN.claims("gpu")], []),
    "the rule is gone": ([GIVEN], [("gpu", "the rule is gone")]),
    "the rule gives something else": (
        [RULE.giving(toleration("example.com/other")).but("metadata.generation", 2), claim(), GIVEN.claims("gpu")],
        [("gpu", "the rule has changed")],
    ),
    "the rule is not true any more": ([RULE, GIVEN], [("gpu", "the rule is not true for it any more")]),
    "the rule is newer than the copy": ([RULE, GIVEN.annotated(record(GPU, generation=2))], []),
    "the rule was made again after the Pod": (
        [RULE.but("metadata.creationTimestamp", "2026-02-01T00:00:00Z"), GIVEN.annotated(record(GPU, generation=2))],
        [("gpu", "the rule has changed")],
    ),
    "another rule justifies it": ([toleration_rule("other").cel("true").giving(GPU), GIVEN], []),
    "the record is nonsense": ([pod().annotated({wellknown.ANNOTATION_PROVENANCE: "[1, {}]"})], []),
}


@pytest.mark.parametrize(("objects", "found"), WHY.values(), ids=WHY)
def test_a_pod_has_drifted_when_no_rule_justifies_what_it_was_given(
    objects: list[Object], found: list[tuple[str, str]]
) -> None:
    assert [
        (given.rule, why)
        for each in drifted(Cluster([*BASE, *objects]))
        for given, why in zip(each.given, each.why, strict=True)
    ] == found


POOL = {"key": "example.com/pool", "operator": "In", "values": ["batch"]}
PREFERRED = {"weight": 10, "preference": {"matchExpressions": [{"key": "example.com/fast", "operator": "Exists"}]}}
WANTS_OTHER = "claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == 'other'))"
CHOICES = [
    {"name": f"r{each}", "firstAvailable": [{"name": name, "deviceClassName": "gpu"} for name in "ab"]}
    for each in range(9)
]


def placement(expression: str = "true", **spec: Any) -> Object:
    match = {"type": "CEL", "cel": {"expression": expression}}
    meta = {"name": "pool", "uid": "uid-of-pool"}
    body = {"match": match, "required": [POOL], **spec}
    return {"apiVersion": wellknown.API_VERSION, "kind": "PlacementRule", "metadata": meta, "spec": body}


NARROWED = (
    pod()
    .annotated({wellknown.ANNOTATION_PLACEMENT: "pool"})
    .but(
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms",
        [{"matchExpressions": [{"key": "kubernetes.io/arch", "operator": "Exists"}, POOL]}],
    )
)
OF_PLACEMENTS: dict[str, tuple[list[Object], str]] = {
    "its rule is as it was": ([placement(), NARROWED], ""),
    "its rule is gone": ([NARROWED], "the rule is gone"),
    "its rule is switched off": ([placement(mode="Audit"), NARROWED], "the rule is not in force any more"),
    "its rule does not compile any more": ([placement("("), NARROWED], "the rule is not in force any more"),
    "its rule asks for another pool": (
        [placement(required=[{**POOL, "values": ["other"]}]), NARROWED],
        "the rule has changed",
    ),
    "its rule is not true any more": ([placement("false"), NARROWED], "the rule is not true for it any more"),
    "its rule fails for it": ([placement("pod.metadata.labels['a'] == ''"), NARROWED], ""),
    "its rule is about other namespaces": (
        [placement(namespaceSelector={"matchLabels": {"a": "b"}}), NARROWED],
        "the rule is not about its namespace any more",
    ),
    "its rule prefers alone": ([placement(required=[], preferred=[PREFERRED]), NARROWED], ""),
    "its rule prefers what the Pod has not got": ([placement(preferred=[PREFERRED]), NARROWED], ""),
    "it has no node affinity": ([placement(), NARROWED.but("spec.affinity", {})], "the rule has changed"),
    "its claims have more alternatives than the gate looks at": (
        [placement(WANTS_OTHER), claim().but("spec.devices.requests", CHOICES), NARROWED.claims("gpu")],
        "",
    ),
    "it is still held": ([NARROWED.gated(wellknown.PLACEMENT_GATE)], ""),
    "it is ending": ([NARROWED.deleting()], ""),
    "it has no such annotation": ([pod()], ""),
}


@pytest.mark.parametrize(("objects", "why"), OF_PLACEMENTS.values(), ids=OF_PLACEMENTS)
def test_a_pod_has_drifted_when_no_placement_rule_asks_for_its_nodes(objects: list[Object], why: str) -> None:
    found = list(drifted(Cluster([*BASE, *objects], gates=[PlacementGate()])))
    assert [each.why for pod_ in found for each in pod_.narrowed] == ([why] if why else [])


def test_without_placement_rules_nothing_is_said_of_node_affinity() -> None:
    unread = Cluster([*BASE, NARROWED], gates=[PlacementGate()], unknown={"PlacementRule": "forbidden"})
    assert [list(drifted(each)) for each in (unread, Cluster([*BASE, NARROWED]))] == [[], []]


async def test_a_pod_that_waits_in_the_wrong_pool_is_evicted_unless_its_rule_is_there_again() -> None:
    held = NARROWED.owned_by("ReplicaSet", "web-1", api_version="apps/v1").but("metadata.resourceVersion", "7")
    results = []
    for rules in ((), (placement(),)):
        api: Any = Api(held, *rules)
        copy = Cluster([*BASE, held], gates=[PlacementGate()])
        results += await delete(api, copy, list(drifted(copy)))
    assert [each.result for each in results] == ["evicted", SETTLED]


UNKNOWN: dict[str, tuple[list[Object], str, bool]] = {
    "classes, which the rule reads": ([RULE, GIVEN], "DeviceClass", False),
    "claims, which the rule reads": ([RULE, GIVEN], "ResourceClaim", False),
    "templates, which the rule reads": ([RULE, GIVEN], "ResourceClaimTemplate", False),
    "namespaces, which the rule selects": (
        [
            toleration_rule("gpu").cel("false").giving(GPU).but("spec.namespaceSelector", {"matchLabels": {"a": "b"}}),
            GIVEN,
        ],
        "Namespace",
        False,
    ),
    "classes, which the rule does not read": (
        [toleration_rule("gpu").cel("false").giving(GPU), GIVEN],
        "DeviceClass",
        True,
    ),
    "classes, and the rule is gone": ([GIVEN], "DeviceClass", True),
    "Nodes": ([RULE, GIVEN], "Node", True),
}


@pytest.mark.parametrize(("objects", "kind", "is_found"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_cannot_be_read_is_no_evidence(objects: list[Object], kind: str, is_found: bool) -> None:
    assert bool(list(drifted(Cluster([*BASE, *objects], unknown={kind: "forbidden"})))) is is_found


ACTIONS: dict[str, tuple[list[Object], bool, str]] = {
    "waits, with a Deployment": (
        [REPLICA_SET, OWNED],
        True,
        "delete it: Deployment web makes another one",
    ),
    "waits, alone": ([GIVEN], False, "delete it, and create it again: no controller does"),
    "runs, with a Job": (
        [GIVEN.bound().owned_by("Job", "train", api_version="batch/v1")],
        False,
        "restart Job train when that suits",
    ),
    "waits, with a Job, for which it is a failure": (
        [GIVEN.owned_by("Job", "train", api_version="batch/v1")],
        False,
        "restart Job train when that suits",
    ),
    "waits, with a ReplicaSet of somebody else's": (
        [GIVEN.owned_by("ReplicaSet", "web-1", api_version="example.com/v1")],
        False,
        "restart ReplicaSet web-1 when that suits",
    ),
    "waits, with a StatefulSet": (
        [GIVEN.owned_by("StatefulSet", "db", api_version="apps/v1")],
        True,
        "delete it: StatefulSet db makes another one",
    ),
    "waits, with a ReplicationController": (
        [GIVEN.owned_by("ReplicationController", "old", api_version="v1")],
        True,
        "delete it: ReplicationController old makes another one",
    ),
    "runs, with a Deployment": (
        [REPLICA_SET, OWNED.bound()],
        False,
        "restart Deployment web when that suits, or evict the Pod",
    ),
    "runs, alone": ([GIVEN.bound()], False, "delete it, and create it again: no controller does"),
}


@pytest.mark.parametrize(("objects", "may_be_deleted", "action"), ACTIONS.values(), ids=ACTIONS)
def test_what_is_to_be_done_about_a_pod_that(objects: list[Object], may_be_deleted: bool, action: str) -> None:
    (found,) = drifted(Cluster([*BASE, *objects]))
    assert (found.may_be_deleted, found.action) == (may_be_deleted, action)


class Api:
    """Has one Pod and rules, and answers evictions."""

    def __init__(self, there: Object | None, *rules: Object, refusals: Sequence[Exception] = ()) -> None:
        self.there = there
        self.rules = rules
        self.refusals = list(refusals)
        self.evicted: list[tuple[str, str]] = []

    async def get(self, *_: Any) -> Object:
        if self.there is None:
            raise NotFound(404, "NotFound", "gone")
        return self.there

    async def list(self, *_: Any, **__: Any) -> Object:
        return {"metadata": {}, "items": list(self.rules)}

    async def evict(self, evicted: Object, *, resource_version: str) -> None:
        if self.refusals:
            raise self.refusals.pop()
        self.evicted.append((evicted["metadata"]["uid"], resource_version))


BUDGET = TooManyRequests(
    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", retry_after=1.0
)
CHANGED = Conflict(409, "Conflict", "the object might have been modified")
BECOMES: dict[str, tuple[Api, str, list[tuple[str, str]]]] = {
    "it still waits, and the rule is still gone": (Api(OWNED), "evicted", [("uid-of-web", "7")]),
    "it has changed in what does not matter": (
        Api(OWNED.but("metadata.resourceVersion", "8")),
        "evicted",
        [("uid-of-web", "8")],
    ),
    "it is gone": (Api(None), SETTLED, []),
    "it is ending": (Api(OWNED.deleting()), SETTLED, []),
    "it has a Node by now": (
        Api(OWNED.bound()),
        "left alone: restart ReplicaSet web-1 when that suits, or evict the Pod",
        [],
    ),
    "it is another one": (Api(OWNED.but("metadata.uid", "another")), SETTLED, []),
    "it has no owner any more": (
        Api(GIVEN.but("metadata.resourceVersion", "8")),
        "left alone: delete it, and create it again: no controller does",
        [],
    ),
    "its record is another one": (Api(OWNED.annotated(record())), SETTLED, []),
    "the rule is there again": (Api(OWNED, toleration_rule("gpu").cel("true").giving(GPU)), SETTLED, []),
    "it changes at that moment": (Api(OWNED, refusals=[CHANGED]), "evicted", [("uid-of-web", "7")]),
    "it changes all the time": (Api(OWNED, refusals=[CHANGED] * 9), CHANGED.excerpt, []),
    "a budget keeps it": (Api(OWNED, refusals=[BUDGET]), BUDGET.message, []),
}


@pytest.mark.parametrize(("api", "result", "evicted"), BECOMES.values(), ids=BECOMES)
async def test_a_pod_is_evicted_as_it_was_judged(api: Any, result: str, evicted: list[tuple[str, str]]) -> None:
    copy = Cluster([*BASE, OWNED])
    assert await delete(api, copy, [Drifted(OWNED, "Deployment web", (), ())]) == [Deleted("ml/web", result)]
    assert api.evicted == evicted


async def test_a_rule_that_goes_in_the_meantime_does_not_keep_a_pod() -> None:
    api: Any = Api(OWNED)
    copy = Cluster([*BASE, OWNED, toleration_rule("gpu").cel("true").giving(GPU)])
    assert await delete(api, copy, [Drifted(OWNED, "Deployment web", (), ())]) == [Deleted("ml/web", "evicted")]


def run(tmp_path: Path, *objects: Object, arguments: tuple[str, ...] = (), unread: Any = None) -> Result:
    file = tmp_path / "dump.json"
    clusterdump.write(ClusterDump("", clusterdump.in_order([*BASE, *objects]), unread or {}), file)
    return CliRunner().invoke(main, ["drift", "--cluster", str(file), *arguments])


def test_the_command_shows_them(tmp_path: Path) -> None:
    done = run(tmp_path, RULE, GIVEN)
    assert done.exit_code == 1
    head, row = done.stdout.splitlines()
    assert head.split() == ["POD", "STATE", "TOLERATION", "RULE", "WHY", "OWNER", "ACTION"]
    assert row.startswith("ml/web   pending   example.com/gpu:NoSchedule op=Exists   gpu")
    assert done.stderr == "1 found: 1 pending, 0 running\n"
    data = json.loads(run(tmp_path, RULE, GIVEN, arguments=("-o", "json")).stdout)
    assert data["pods"][0]["unjustified"][0]["why"] == "the rule is not true for it any more"


@pytest.mark.parametrize(
    ("objects", "found"), [([placement()], ""), ([placement("false")], "the rule is not true for it any more")]
)
def test_a_dump_tells_of_placement_rules(objects: list[Object], found: str, tmp_path: Path) -> None:
    data = json.loads(run(tmp_path, NARROWED, *objects, arguments=("-o", "json")).stdout)
    said = [each["why"] for one in data["pods"] for each in one["narrowed"]]
    assert said == ([found] if found else [])


def test_nothing_found_is_exit_code_0(tmp_path: Path) -> None:
    assert run(tmp_path, RULE, pod()).exit_code == 0


def test_without_the_rules_nothing_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, GIVEN, unread={"TolerationRule": "tolerationrules is forbidden"})
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "not read: TolerationRule: tolerationrules is forbidden",
        "Error: nothing can be said without tolerationrules: the ClusterRole tollbar-explain grants all that is read",
    ]


def test_a_dump_cannot_be_cleaned_up(tmp_path: Path) -> None:
    assert run(tmp_path, arguments=("--delete-pending",)).exit_code == 2


def test_a_dump_that_is_none_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text("[]")
    done = CliRunner().invoke(main, ["drift", "--cluster", str(file)])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: {file}:1: not a dump, which has the kind ClusterDump\n"


class Listed(Api):
    """Has its Pod in lists as well, and nothing else."""

    cluster = "of the test"

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        return {"metadata": {}, "items": [self.there] if resource == PODS else []}

    async def served(self, _group_version: str) -> set[str]:
        return set()


class Vanishing(Listed):
    """Its Pod is deleted after the lists."""

    async def get(self, *_: Any) -> Object:
        raise NotFound(404, "NotFound", "gone")


class Refusing(Listed):
    """Refuses lists of DeviceClasses."""

    def __init__(self, there: Object, refusal: ApiError) -> None:
        super().__init__(there)
        self.refusal = refusal

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        if resource == DEVICE_CLASSES:
            raise self.refusal
        return await super().list(resource)


def evicting(monkeypatch: pytest.MonkeyPatch, api: Listed) -> Result:
    @asynccontextmanager
    async def connected(*_: Any) -> AsyncIterator[Listed]:
        yield api

    monkeypatch.setattr(console, "connected", connected)
    return CliRunner().invoke(main, ["drift", "--delete-pending", "--no-dry-run", "--yes"])


def test_each_time_that_the_cluster_is_read_it_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    shown, api = Terminal(), Listed(OWNED)
    monkeypatch.setattr(console, "stderr", shown.console)
    done = evicting(monkeypatch, api)
    assert (done.exit_code, len(api.evicted)) == (0, 1)
    assert shown.statuses == 2


def test_what_became_of_a_pod_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    done = evicting(monkeypatch, Vanishing(OWNED))
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (0, "ml/web: it is gone, or needs no eviction any more")


def test_nothing_is_deleted_while_something_is_unknown_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    async def of_live(*_: Any) -> Cluster:
        return Cluster([*BASE, OWNED], unknown={"DeviceClass": "deviceclasses is forbidden"})

    monkeypatch.setattr(copies, "of_live", of_live)
    done = CliRunner().invoke(main, ["drift", "--delete-pending"])
    assert (done.exit_code, done.stderr.splitlines()) == (
        2,
        [
            "not read: DeviceClass: deviceclasses is forbidden",
            "Error: nothing is deleted: without deviceclasses it is not certain what Pods still need",
        ],
    )


REFUSALS = {
    "a kind": (Forbidden(403, "Forbidden", "no"), "nothing is deleted: deviceclasses cannot be read any more"),
    "the cluster": (ApiError(400, "BadRequest", "no"), "the API server refused: 400 BadRequest: no"),
}


@pytest.mark.parametrize(("refusal", "said"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_read_when_pods_are_to_be_evicted_is_exit_code_2(
    refusal: ApiError, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def of_live(*_: Any) -> Cluster:
        return Cluster([*BASE, OWNED])

    monkeypatch.setattr(copies, "of_live", of_live)
    api = Refusing(OWNED, refusal)
    done = evicting(monkeypatch, api)
    assert (done.exit_code, done.stderr.splitlines()[-1], api.evicted) == (2, f"Error: {said}", [])
