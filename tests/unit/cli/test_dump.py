"""What a dump has of each object, and what becomes of files that are none."""

import json
import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
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

from tollbar import cel
from tollbar.api import webhooks
from tollbar.cli import clusterdump
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.dump import take, warn
from tollbar.cli.manifests import Unreadable
from tollbar.cli.reduction import KINDS, unreliable
from tollbar.decide.rules.rule import Rule, compile_rule
from tollbar.model import resources
from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.errors import Forbidden

ROOT = Path(__file__).parents[3]
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET = "hunter2"


def container(**members: Any) -> Object:
    return {"name": "main", "image": "none", **members}


def reduced(obj: Object) -> Any:
    return Built(KINDS[obj["kind"]].reduce(obj))


KEEPS_NO_SECRET: dict[str, Object] = {
    "the value of an environment variable": pod().but(
        "spec.containers", [container(env=[{"name": "PASSWORD", "value": SECRET}])]
    ),
    "a command": pod().but("spec.containers", [container(command=["login", SECRET])]),
    "arguments of an init container": pod().but("spec.initContainers", [container(args=[SECRET])]),
    "a header that a probe sends": pod().but(
        "spec.containers", [container(livenessProbe={"httpGet": {"httpHeaders": [{"name": "x", "value": SECRET}]}})]
    ),
    "an ephemeral container": pod().but("spec.ephemeralContainers", [container(env=[{"name": "P", "value": SECRET}])]),
    "what kubectl applied": pod().annotated({APPLIED: SECRET}),
    "what kubectl applied to a claim": claim().annotated({APPLIED: SECRET}),
    "attributes of a CSI volume": pod().but(
        "spec.volumes", [{"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}}]
    ),
    "attributes of a PersistentVolume": Built(
        apiVersion="v1",
        kind="PersistentVolume",
        metadata={"name": "v"},
        spec={"csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}},
    ),
    "parameters of a StorageClass": Built(
        apiVersion="storage.k8s.io/v1", kind="StorageClass", metadata={"name": "v"}, parameters={"key": SECRET}
    ),
    "the template of a ReplicaSet": Built(
        apiVersion="apps/v1",
        kind="ReplicaSet",
        metadata={"name": "v"},
        spec={"template": pod().but("spec.containers", [container(command=[SECRET])])},
    ),
    "attributes of a volume that is attached without a PersistentVolume": Built(
        apiVersion="storage.k8s.io/v1",
        kind="VolumeAttachment",
        metadata={"name": "v"},
        spec={"source": {"inlineVolumeSpec": {"csi": {"driver": "d", "volumeAttributes": {"key": SECRET}}}}},
    ),
    "what kapp applied": pod().annotated({"kapp.k14s.io/original": SECRET}),
    "network data of an allocated device": claim().but("status.devices", [{"device": "nic", "networkData": SECRET}]),
}


@pytest.mark.parametrize("obj", KEEPS_NO_SECRET.values(), ids=KEEPS_NO_SECRET)
def test_what_may_be_secret_is_not_kept(obj: Object) -> None:
    assert SECRET in json.dumps(obj)
    assert SECRET not in json.dumps(reduced(obj))


def test_what_decisions_read_of_a_pod_is_kept() -> None:
    given = pod().templates("gpu").generated("gpu", "web-gpu").wants({"example.com/gpu": "1"}).gated().phase("Pending")
    given = given.annotated({"team": "a", APPLIED: "{}"}).but("metadata.managedFields", [{"manager": "kubectl"}])
    kept = reduced(given)
    assert kept["spec"] == given["spec"]
    assert kept["status"] == given["status"]
    meta = given.but("metadata.managedFields", None)["metadata"]
    assert kept["metadata"] == {**meta, "annotations": {"team": "a"}}


def test_the_names_of_environment_variables_are_kept() -> None:
    by_name = {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    kept = reduced(pod().but("spec.containers", [container(env=[{"name": "A", "value": "x"}, by_name])]))
    assert kept["spec"]["containers"][0]["env"] == [{"name": "A"}, by_name]


READS: dict[str, tuple[str, list[str]]] = {
    "the value of an environment variable": (
        'pod.spec.containers.exists(c, c.env.exists(e, e.value == "x"))',
        ["pod.spec.containers.env.value"],
    ),
    "the name of one": ('pod.spec.containers.exists(c, c.env.exists(e, e.name == "x"))', []),
    "a command": ("pod.spec.initContainers.exists(c, size(c.command) > 0)", ["pod.spec.initContainers.command"]),
    "labels": ("has(pod.metadata.labels)", []),
    "the phase": ('pod.status.phase == "Pending"', []),
    "where a Pod runs": ('pod.status.hostIP == "x"', ["pod.status.hostIP"]),
    "claims": ("claims.size() > 0", []),
}


@pytest.mark.parametrize(("expression", "paths"), READS.values(), ids=READS)
def test_a_rule_is_unreliable_if_it_reads_what_is_removed(expression: str, paths: list[str]) -> None:
    rule = compile_rule(toleration_rule("r").cel(expression), cel.engine())
    assert isinstance(rule, Rule)
    assert list(unreliable([rule])) == [("r", path) for path in paths]


def test_rules_of_both_kinds_that_are_unreliable_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    match = {"type": "CEL", "cel": {"expression": 'pod.spec.containers.exists(c, "-x" in c.args)'}}
    required = [{"key": "example.com/pool", "operator": "Exists"}]
    body = {"match": match, "required": required}
    placements = [
        {"kind": "PlacementRule", "metadata": {"name": mode.lower()}, "spec": {**body, "mode": mode}}
        for mode in ("Enforce", "Disabled")
    ]
    warn([toleration_rule("r").but("spec.match", match), *placements, pod()])
    said = "reads pod.spec.containers.args, which a dump does not have: what it says there may be wrong"
    assert capsys.readouterr().err.splitlines() == [f"warning: rule {name} {said}" for name in ("r", "enforce")]


def test_what_gate_classes_decide_by_is_kept() -> None:
    quota = {
        "kind": "PodQuota",
        "metadata": {"name": "team", "annotations": {"team": "a", APPLIED: SECRET}},
        "spec": {"limits": {"pods": "5"}},
        "status": {"used": {"pods": "3"}},
    }
    meta = {"name": "team", "annotations": {"team": "a"}}
    assert reduced(quota) == {"metadata": meta, "spec": quota["spec"], "status": quota["status"]}


def webhooks_of(name: str) -> Object:
    body = webhooks.pods_configuration(webhooks.at_url(f"https://{SECRET}", b""))
    return {**body, "metadata": {"name": name, "labels": {"app.kubernetes.io/name": name}}}


def test_of_webhooks_it_is_kept_which_pods_they_are_asked_about() -> None:
    kind = KINDS["MutatingWebhookConfiguration"]
    assert [kind.keep(webhooks_of(name)) for name in ("tollbar", "istio")] == [True, False]
    (hook,) = kind.reduce(webhooks_of("tollbar"))["webhooks"]
    assert hook["matchConditions"] == webhooks.pod_conditions()
    assert SECRET not in json.dumps(hook)


OBJECTS: list[Object] = [pod("b"), pod("a"), claim(), namespace(), toleration_rule(), device_class(), template()]
DUMP = ClusterDump("2026-01-01T00:00:00Z", clusterdump.in_order(OBJECTS), {"Node": "nodes is forbidden"}, ("PodGroup",))


def test_the_order_is_that_of_kinds_and_names() -> None:
    assert [(obj["kind"], obj["metadata"]["name"]) for obj in DUMP.items] == [
        ("Namespace", "ml"),
        ("TolerationRule", "gpu"),
        ("DeviceClass", "gpu"),
        ("ResourceClaimTemplate", "gpu"),
        ("ResourceClaim", "gpu"),
        ("Pod", "a"),
        ("Pod", "b"),
    ]


@pytest.mark.parametrize("place", ["a file", "a directory"])
def test_what_is_written_is_read(place: str, tmp_path: Path) -> None:
    target = tmp_path / "dump.json" if place == "a file" else tmp_path
    clusterdump.write(DUMP, target)
    assert clusterdump.read(target) == DUMP
    assert {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()} == {0o600}


def test_a_directory_has_nothing_of_an_older_dump_and_keeps_what_is_not_of_one(tmp_path: Path) -> None:
    for name in ("mine.json", "nodes.json"):
        (tmp_path / name).write_text("{}")
    clusterdump.write(ClusterDump("", [scheduling_gate(), namespace()], {}), tmp_path)
    clusterdump.write(DUMP, tmp_path)
    assert not (tmp_path / "schedulinggates.json").exists()
    assert [(tmp_path / name).read_text() for name in ("mine.json", "nodes.json")] == ["{}", "{}"]


def test_a_file_that_is_not_of_a_dump_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text("{}")
    with pytest.raises(FileExistsError, match=r"pods\.json is there, and is not of a dump"):
        clusterdump.write(DUMP, tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["pods.json"]


def test_the_rests_of_a_dump_that_was_killed_do_not_show_the_next_one_to_others(tmp_path: Path) -> None:
    rest = tmp_path / ".dump.json.new"
    rest.touch()
    rest.chmod(0o644)
    clusterdump.write(DUMP, tmp_path / "dump.json")
    assert (tmp_path / "dump.json").stat().st_mode & 0o777 == 0o600


def test_of_two_dumps_at_the_same_time_the_last_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, other, replace = tmp_path / "dump.json", ClusterDump("", [namespace()], {}), Path.replace

    def after_another(self: Path, path: Path) -> Path:
        monkeypatch.undo()
        clusterdump.write(other, target)
        assert clusterdump.read(target) == other
        return replace(self, path)

    monkeypatch.setattr(Path, "replace", after_another)
    clusterdump.write(DUMP, target)
    assert (clusterdump.read(target), list(tmp_path.iterdir())) == (DUMP, [target])


def test_an_older_dump_is_whole_until_the_new_one_is_written(tmp_path: Path) -> None:
    older = ClusterDump("", [namespace(), scheduling_gate()], {})
    clusterdump.write(older, tmp_path)
    with pytest.raises(TypeError):
        clusterdump.write(ClusterDump("", [namespace(), {**pod(), "spec": object()}], {}), tmp_path)
    assert clusterdump.read(tmp_path) == older


@pytest.mark.parametrize("folder", [False, True], ids=["a file", "a directory"])
def test_a_dump_that_cannot_be_written_leaves_nothing(folder: bool, tmp_path: Path) -> None:
    pods = [*DUMP.items, {"kind": "Pod", "metadata": {"name": "x"}, "spec": object()}]
    with pytest.raises(TypeError):
        clusterdump.write(ClusterDump("", pods, {}), tmp_path if folder else tmp_path / "dump.json")
    assert list(tmp_path.iterdir()) == []


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        clusterdump.write(DUMP, pipe)
        assert os.read(reader, 2**16) == b"".join(clusterdump.encoded(DUMP))
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_to_a_dump_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "latest.json"
    link.symlink_to("dump.json")
    clusterdump.write(DUMP, link)
    assert (link.is_symlink(), clusterdump.read(tmp_path / "dump.json").items) == (True, DUMP.items)


def test_a_link_that_leads_to_itself_becomes_the_file(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("link")
    clusterdump.write(DUMP, link)
    assert (link.is_symlink(), clusterdump.read(link).items) == (False, DUMP.items)


def test_every_item_has_a_line() -> None:
    lines = b"".join(clusterdump.encoded(DUMP)).splitlines()
    assert [orjson.loads(line.rstrip(b",")) for line in lines[1:-1]] == DUMP.items
    assert b"".join(clusterdump.encoded(ClusterDump("", [], {}))).splitlines()[1:] == [b"]}"]


def text(**changes: Any) -> str:
    return json.dumps({**DUMP.header, "items": [], **changes})


BAD: dict[str, tuple[str, str]] = {
    "no JSON": ("kind: ClusterDump\n", "FILE:1:1: not a dump: unexpected character, expected a JSON value"),
    "JSON that breaks off": ('{"apiVersion":\n', "FILE:2:1: not a dump: unexpected end of data"),
    "a list": ("[]", "FILE:1: not a dump, which has the kind ClusterDump"),
    "another kind": ('{"kind": "Pod"}', 'FILE:1: not a dump, which has the kind ClusterDump, not "Pod"'),
    "a dump of another version": (
        text(apiVersion="dump.tollbar.dev/v9"),
        'FILE:1: a dump of the version "dump.tollbar.dev/v9"; this program reads dump.tollbar.dev/v1',
    ),
    "items that are no list": (
        text(items={}),
        "FILE:1: a dump has lists of items and unserved kinds, and what is unread by kind",
    ),
    "kinds that are a text": (
        text(unserved="PodGroup"),
        "FILE:1: a dump has lists of items and unserved kinds, and what is unread by kind",
    ),
    "a kind that no dump has": (
        text(items=[{"kind": "Secret", "metadata": {"name": "x"}}]),
        'FILE:2: the kind "Secret" is not one of a dump',
    ),
    "an item without a name": (text(items=[{"kind": "Pod", "metadata": {}}]), "FILE:2: a Pod without metadata.name"),
    "a spec that is a list": (
        text(items=[{"kind": "Pod", "metadata": {"name": "x"}, "spec": []}]),
        "FILE:2: spec and status of a Pod are objects",
    ),
    "a Pod that no API server would store": (
        text(items=[{"kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"resources": 7}]}}]),
        "FILE:2: Pod x is not valid: cannot unmarshal number into field spec.containers[0].resources of type object",
    ),
    "a Node that no API server would store": (
        text(items=[{"kind": "Node", "metadata": {"name": "x"}, "spec": {"taints": 5}}]),
        "FILE:2: Node x is not valid: cannot unmarshal number into field spec.taints of type array",
    ),
    "a time that is none": (text(taken="nonsense"), 'FILE:1: a dump is taken at a time of RFC 3339, not "nonsense"'),
    "a namespace that is a number": (
        text(items=[{"kind": "ResourceClaim", "metadata": {"name": "x", "namespace": 7}}]),
        "FILE:2: ResourceClaim x is not valid: cannot unmarshal number into field metadata.namespace of type string",
    ),
    "labels of a rule that are a text": (
        text(items=[{"kind": "TolerationRule", "metadata": {"name": "x", "labels": "a"}}]),
        "FILE:2: TolerationRule x is not valid: cannot unmarshal string into field metadata.labels of type object",
    ),
    "requests of a claim that are a text": (
        text(items=[{"kind": "ResourceClaim", "metadata": {"name": "x"}, "spec": {"devices": {"requests": "x"}}}]),
        "FILE:2: ResourceClaim x is not valid: cannot unmarshal string into field spec.devices.requests of type array",
    ),
}


@pytest.mark.parametrize(("content", "said"), BAD.values(), ids=BAD)
def test_what_is_no_dump_is_said_in_one_line(content: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text(content)
    with pytest.raises(Unreadable) as refused:
        clusterdump.read(file)
    assert str(refused.value).replace(str(file), "FILE") == said


@pytest.mark.parametrize("kind", KINDS)
def test_an_object_of_every_kind_is_read(kind: str) -> None:
    item = {"kind": kind, "metadata": {"name": "x", "labels": {"a": "b"}}}
    assert clusterdump.decoded("FILE", text(items=[item]).encode()).items == [item]


class Api:
    """Lists these objects, and refuses to list Nodes."""

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        if resource is resources.NODES:
            raise Forbidden(403, "Forbidden", "nodes is forbidden")
        return {"metadata": {}, "items": [obj for obj in OBJECTS if obj["kind"] == resource.kind]}

    async def served(self, group_version: str) -> set[str]:
        return {"podgroups"} if group_version == "scheduling.k8s.io/v1beta1" else set()


async def test_a_kind_that_may_not_be_read_is_named_and_the_others_are_there() -> None:
    client: Any = Api()
    taken = await take(client, SystemClock())
    assert (taken.unread, taken.unserved) == ({"Node": "nodes is forbidden"}, ("DeviceTaintRule",))
    assert [obj["metadata"]["name"] for obj in taken.items] == [obj["metadata"]["name"] for obj in DUMP.items]
    assert all({"apiVersion", "kind"} < obj.keys() for obj in taken.items)


def test_the_role_of_readers_lets_them_list_every_kind_and_no_secret() -> None:
    roles = yaml.safe_load_all((ROOT / "manifests/base/rbac/users.yaml").read_text())
    (rules,) = (role["rules"] for role in roles if role["metadata"]["name"] == "tollbar-explain")
    granted = {
        (group, resource)
        for rule in rules
        if "list" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(kind.resource.group, kind.resource.plural) for kind in KINDS.values()} <= granted
    assert granted.isdisjoint({("", "secrets"), ("", "configmaps")})


def test_an_empty_directory_and_a_missing_file_are_said(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match=r"no file of a dump"):
        clusterdump.read(tmp_path)
    with pytest.raises(Unreadable, match=r"nowhere: No such file or directory"):
        clusterdump.read(tmp_path / "nowhere")
