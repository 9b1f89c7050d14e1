"""Which Pods have drifted from their rules, what is to be done about them, and which of them may be deleted."""

import json
from pathlib import Path
from typing import Any

import pytest
from builders import claim, device_class, namespace, pod, toleration, toleration_rule
from click.testing import CliRunner, Result

from tollbar import wellknown
from tollbar.cli import clusterdump, main
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.drift import Deleted, Drifted, delete, drifted
from tollbar.model.objects import Object
from tollbar.offline import Cluster
from tollbar.runtime.errors import Conflict, NotFound, TooManyRequests

GPU = toleration("example.com/gpu")
RULE = toleration_rule("gpu").cel("claims.size() > 0").giving(GPU)
BASE = [namespace(), device_class()]


def record(*given: Object, rule: str = "gpu", generation: int = 1) -> dict[str, str]:
    entry = {"rule": rule, "generation": generation, "added": list(given), "via": "admission"}
    return {wellknown.ANNOTATION_PROVENANCE: json.dumps([entry])}


GIVEN = pod().tolerating(GPU).annotated(record(GPU))
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


ACTIONS: dict[str, tuple[list[Object], bool, str]] = {
    "waits, with a Deployment": (
        [REPLICA_SET, GIVEN.owned_by("ReplicaSet", "web-1", api_version="apps/v1")],
        True,
        "delete it: Deployment web makes another one",
    ),
    "waits, alone": ([GIVEN], False, "delete it, and create it again: no controller does"),
    "runs, with a Job": (
        [GIVEN.bound().owned_by("Job", "train", api_version="batch/v1")],
        False,
        "restart Job train when that suits, or evict the Pod",
    ),
    "runs, alone": ([GIVEN.bound()], False, "delete it, and create it again: no controller does"),
}


@pytest.mark.parametrize(("objects", "may_be_deleted", "action"), ACTIONS.values(), ids=ACTIONS)
def test_what_is_to_be_done_about_a_pod_that(objects: list[Object], may_be_deleted: bool, action: str) -> None:
    (found,) = drifted(Cluster([*BASE, *objects]))
    assert (found.may_be_deleted, found.action) == (may_be_deleted, action)


class Api:
    """Has one Pod, and answers evictions."""

    def __init__(self, there: Object | None, refusal: Exception | None = None) -> None:
        self.there = there
        self.refusal = refusal
        self.evicted: list[str] = []

    async def get(self, *_: Any) -> Object:
        if self.there is None:
            raise NotFound(404, "NotFound", "gone")
        return self.there

    async def evict(self, evicted: Object) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.evicted.append(evicted["metadata"]["uid"])


BUDGET = TooManyRequests(
    429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.", retry_after=1.0
)
BECOMES: dict[str, tuple[Api, str, list[str]]] = {
    "it still waits": (Api(GIVEN), "evicted", ["uid-of-web"]),
    "it is gone": (Api(None), "meanwhile", []),
    "it has a Node by now": (Api(GIVEN.bound()), "meanwhile", []),
    "it is another one": (Api(GIVEN.but("metadata.uid", "another")), "meanwhile", []),
    "it is replaced at that moment": (Api(GIVEN, Conflict(409, "Conflict", "uid")), "meanwhile", []),
    "a budget keeps it": (Api(GIVEN, BUDGET), BUDGET.message, []),
}


@pytest.mark.parametrize(("api", "result", "evicted"), BECOMES.values(), ids=BECOMES)
async def test_a_pod_is_evicted_as_it_was_found(api: Any, result: str, evicted: list[str]) -> None:
    assert await delete(api, [Drifted(GIVEN, "Deployment web", (), ())]) == [Deleted("ml/web", result)]
    assert api.evicted == evicted


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


def test_nothing_found_is_exit_code_0(tmp_path: Path) -> None:
    assert run(tmp_path, RULE, pod()).exit_code == 0


def test_without_the_rules_nothing_is_said(tmp_path: Path) -> None:
    done = run(tmp_path, GIVEN, unread={"TolerationRule": "tolerationrules is forbidden"})
    assert (done.exit_code, done.stdout) == (1, "")
    assert "not read: TolerationRule: tolerationrules is forbidden" in done.stderr


def test_a_dump_cannot_be_cleaned_up(tmp_path: Path) -> None:
    assert run(tmp_path, arguments=("--delete-pending",)).exit_code == 2
