"""Which Pods other rules would give other tolerations."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from objects.builders import claim, device_class, namespace, pod, template, toleration, toleration_rule

from tollbar import wellknown
from tollbar.cli import clusterdump, main
from tollbar.cli.clusterdump import ClusterDump
from tollbar.cli.diffrules import changes, claim_changes
from tollbar.model.objects import Object
from tollbar.offline import Cluster

GPU, NIC = toleration("example.com/gpu"), toleration("example.com/nic")
ALL = toleration_rule("a").cel("true").giving(GPU)
CLAIMS = toleration_rule("a").cel("claims.size() > 0").giving(GPU)
ADDED = {"rule": "a", "generation": 1, "added": [GPU], "via": "admission"}
RECORD = {wellknown.ANNOTATION_PROVENANCE: json.dumps([ADDED])}
TEXT = "example.com/gpu:NoSchedule op=Exists"

DIFFERENCES: dict[str, tuple[Object, list[Object], list[Object], tuple[list[str], list[str], list[str]] | None]] = {
    "the rules are the same": (pod(), [ALL], [ALL.but("metadata.generation", 2)], None),
    "a rule is new": (pod(), [], [ALL], ([f"{TEXT} by a"], [], [])),
    "a rule goes": (pod(), [ALL], [], ([], [f"{TEXT} by a"], [])),
    "a rule is written another way": (pod(), [ALL], [toleration_rule("a").cel("1 < 2").giving(GPU)], None),
    "a rule has another name": (pod(), [ALL], [toleration_rule("b").cel("true").giving(GPU)], None),
    "a rule gives something else": (
        pod(),
        [ALL],
        [ALL.giving(NIC)],
        (["example.com/nic:NoSchedule op=Exists by a"], [f"{TEXT} by a"], []),
    ),
    "the rule is true no more": (pod(), [ALL], [CLAIMS], ([], [f"{TEXT} by a"], [])),
    "another rule gives the same": (
        pod(),
        [ALL, toleration_rule("b").cel("true").giving(GPU)],
        [toleration_rule("b").cel("true").giving(GPU)],
        None,
    ),
    "the author tolerates it anyway": (pod().tolerating(GPU), [ALL], [], None),
    "it got it from the rule that goes": (
        pod().tolerating(GPU).annotated(RECORD),
        [ALL],
        [],
        ([], [f"{TEXT} by a"], []),
    ),
    "it runs": (pod().bound(), [], [ALL], ([f"{TEXT} by a"], [], [])),
    "a rule in Audit": (pod(), [], [ALL.mode("Audit")], None),
    "a claim is missing": (pod().claims("gone"), [], [CLAIMS], ([], [], ["a"])),
    "Tollbar leaves it alone": (pod().labelled({wellknown.LABEL_SKIP: "true"}), [], [ALL], None),
    "it has finished": (pod().phase("Succeeded"), [], [ALL], None),
}


@pytest.mark.parametrize(("given", "old", "new", "said"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_what_a_pod_would_get_else(
    given: Object, old: list[Object], new: list[Object], said: tuple[list[str], list[str], list[str]] | None
) -> None:
    cluster = Cluster([namespace(), device_class(), claim(), given])
    found = [
        (
            [f"{what} by {rule}" for what, rule in each.gains],
            [f"{what} by {rule}" for what, rule in each.loses],
            list(each.undecided),
        )
        for each in changes(cluster, old, new)
    ]
    assert found == ([said] if said is not None else [])


CARD = toleration("example.com/card")
OF_GPUS = toleration_rule("a").cel(
    'claims.exists(c, c.spec.devices.requests.exists(r, r.exactly.deviceClassName == "gpu"))'
)
DEVICES = OF_GPUS.giving_devices(CARD)
MADE = template("gpu").request("nic", "gpu")
CARD_TEXT = "example.com/card:NoSchedule op=Exists"
CARD_ADDED = {"rule": "a", "generation": 1, "request": "r0", "added": [CARD], "via": "creation"}
CLAIMS_OF_DIFFERENCES: dict[str, tuple[Object, list[Object], list[Object], Any]] = {
    "the rules are the same": (claim().request("gpu"), [DEVICES], [DEVICES], None),
    "a rule is new": (claim().request("gpu"), [], [DEVICES], ([f"r0: {CARD_TEXT} by a"], [], [])),
    "a rule goes": (claim().request("gpu"), [DEVICES], [], ([], [f"r0: {CARD_TEXT} by a"], [])),
    "one request of two": (claim().request("nic").request("gpu"), [], [DEVICES], ([f"r1: {CARD_TEXT} by a"], [], [])),
    "an entry of a list in a template": (MADE, [], [DEVICES], ([f"r0/o1: {CARD_TEXT} by a"], [], [])),
    "it got it from the rule that goes": (
        claim()
        .but(
            "spec.devices.requests",
            [{"name": "r0", "exactly": {"deviceClassName": "gpu", "tolerations": [CARD]}}],
        )
        .annotated({wellknown.ANNOTATION_PROVENANCE: json.dumps([CARD_ADDED])}),
        [DEVICES],
        [],
        ([], [f"r0: {CARD_TEXT} by a"], []),
    ),
    "the author tolerates it anyway": (
        claim().but(
            "spec.devices.requests",
            [{"name": "r0", "exactly": {"deviceClassName": "gpu", "tolerations": [CARD]}}],
        ),
        [DEVICES],
        [],
        None,
    ),
    "another rule gives the same": (
        claim().request("gpu"),
        [DEVICES, DEVICES.but("metadata.name", "b")],
        [DEVICES.but("metadata.name", "b")],
        None,
    ),
    "a rule in Audit": (claim().request("gpu"), [], [DEVICES.mode("Audit")], None),
    "a rule for Pods": (claim().request("gpu"), [], [OF_GPUS.giving(GPU)], None),
    "a claim of a Pod": (claim().request("gpu").owned_by("Pod", "web"), [], [DEVICES], None),
    "a rule that fails": (
        claim().request("gpu"),
        [],
        [OF_GPUS.cel("claims.exists(c, c.metadata.labels['a'] == 'b')").giving_devices(CARD)],
        ([], [], ["a"]),
    ),
    "a rule that fails as before": (
        claim().request("gpu"),
        [OF_GPUS.cel("claims.exists(c, c.metadata.labels['a'] == 'b')").giving_devices(CARD)],
        [OF_GPUS.cel("claims.exists(c, c.metadata.labels['a'] == 'b')").giving_devices(CARD)],
        None,
    ),
}


@pytest.mark.parametrize(("given", "old", "new", "said"), CLAIMS_OF_DIFFERENCES.values(), ids=CLAIMS_OF_DIFFERENCES)
def test_what_requests_of_claims_would_get_else(given: Object, old: list[Object], new: list[Object], said: Any) -> None:
    cluster = Cluster(json.loads(json.dumps([namespace(), device_class(), device_class("nic"), given])))
    found = [
        (
            [f"{what} by {rule}" for what, rule in each.gains],
            [f"{what} by {rule}" for what, rule in each.loses],
            list(each.undecided),
        )
        for each in claim_changes(cluster, old, new)
    ]
    assert found == ([said] if said is not None else [])


def written(path: Path, *objects: Any) -> str:
    path.write_text(yaml.safe_dump_all([json.loads(json.dumps(obj)) for obj in objects]))
    return str(path)


def diff(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["diff-rules", *arguments])


@pytest.fixture
def dump(tmp_path: Path) -> str:
    replicas = [pod(f"web-{n}").owned_by("StatefulSet", "web", api_version="apps/v1") for n in range(3)]
    file = tmp_path / "dump.json"
    clusterdump.write(ClusterDump("", clusterdump.in_order([namespace(), ALL, *replicas, pod("alone")]), {}), file)
    return str(file)


def test_pods_of_one_owner_share_a_row(dump: str, tmp_path: Path) -> None:
    done = diff(written(tmp_path / "new.yaml", ALL.giving(NIC)), "--cluster", dump)
    assert done.exit_code == 1
    assert [line.split("   ")[0].strip() for line in done.stdout.splitlines()] == [
        "PODS",
        "ml/alone",
        "ml: 3 of StatefulSet web",
    ]
    assert done.stderr == "4 of 4 Pods would get other tolerations\n"


def test_without_old_rules_of_other_names_stay(dump: str, tmp_path: Path) -> None:
    same = written(tmp_path / "new.yaml", toleration_rule("b").cel("true").giving(GPU))
    done = diff(same, "--cluster", dump)
    assert (done.exit_code, done.stdout) == (0, "")


def test_pods_may_come_from_files(tmp_path: Path) -> None:
    old, new = written(tmp_path / "old.yaml"), written(tmp_path / "new.yaml", ALL)
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"template": template}}
    done = diff(old, new, "-f", written(tmp_path / "web.yaml", web), "-o", "json")
    (found,) = json.loads(done.stdout)["pods"]
    assert (found["owner"], found["gains"]) == ("Deployment web", [{"toleration": TEXT, "rule": "a"}])


def test_the_old_rules_may_be_none_yet(tmp_path: Path) -> None:
    old = written(tmp_path / "old.yaml", {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"})
    web = pod().but("spec.containers", [{"name": "main", "image": "x"}])
    done = diff(old, written(tmp_path / "new.yaml", ALL), "-f", written(tmp_path / "pod.yaml", web))
    assert (done.exit_code, TEXT in done.stdout) == (1, True), done.output


def test_claims_follow_the_pods(tmp_path: Path) -> None:
    old = written(tmp_path / "old.yaml")
    new = written(tmp_path / "new.yaml", ALL, DEVICES.but("metadata.name", "b"))
    web = pod().but("spec.containers", [{"name": "main", "image": "x"}])
    objects = (device_class(), web, MADE, claim("none").request("none"))
    done = diff(old, new, "-f", written(tmp_path / "objects.yaml", *objects))
    assert (done.exit_code, [line.split("   ")[0].strip() for line in done.stdout.splitlines()], done.stderr) == (
        1,
        ["OBJECT", "ml/web", "ResourceClaimTemplate ml/gpu"],
        "1 of 1 Pods would get other tolerations\n1 of 2 claims and templates would get others of devices\n",
    )
    data = json.loads(diff(old, new, "-f", str(tmp_path / "objects.yaml"), "-o", "json").stdout)
    assert data["claims"] == [
        {
            "kind": "ResourceClaimTemplate",
            "namespace": "ml",
            "name": "gpu",
            "gains": [{"toleration": f"r0/o1: {CARD_TEXT}", "rule": "b"}],
            "loses": [],
            "undecided": [],
        }
    ]


WRONG: dict[str, list[str]] = {
    "no Pods": ["FILE", "FILE"],
    "no rules of before": ["FILE", "-f", "FILE"],
    "three times rules": ["FILE", "FILE", "FILE", "-f", "FILE"],
    "a file that is not there": ["nowhere.yaml", "FILE", "-f", "FILE"],
    "a dump that is none": ["FILE", "--cluster", "FILE"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_wrong_usage_is_one_line_and_exit_code_2(arguments: list[str], tmp_path: Path) -> None:
    file = written(tmp_path / "rule.yaml", ALL)
    done = diff(*(argument.replace("FILE", file) for argument in arguments))
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)


def test_rules_that_cannot_be_read_are_told_with_their_place(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text(f"{Path(written(tmp_path / 'rule.yaml', ALL)).read_text()}---\na: [1\nb: 2\n")
    line = broken.read_text().splitlines().index("b: 2") + 1
    done = diff(str(broken), "-f", str(broken), "--cluster", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"Error: {broken}:{line}:2: expected ',' or ']', but got ':'\n"
