"""`tollbar explain`: mistakes in its arguments, and the forms of an answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import click
import pytest
import yaml
from click.testing import CliRunner
from objects.builders import CREATED, claim, namespace, pod
from objects.devices import allocation
from unit.explain.situations import NOW, SITUATIONS

from tollbar import cli
from tollbar.cli import console
from tollbar.cli.explain import explained, show
from tollbar.cli.page import rendering
from tollbar.cli.page.explained import page
from tollbar.explain import pods, text
from tollbar.explain.causes import Cause
from tollbar.model.objects import Object
from tollbar.model.resources import EVENTS, PODS, RESOURCE_CLAIMS, Resource
from tollbar.offline import Cluster
from tollbar.runtime import retry
from tollbar.runtime.errors import NotFound, ServerError, Unreachable

WRONG: Mapping[str, tuple[list[str], str]] = {
    "no name": (["pod"], "Missing argument 'NAME'"),
    "no name of an object": (["pod", "Web_1"], "'Web_1' is not the name of an object"),
    "two names": (["claim", "a", "b"], "Got unexpected extra argument (b)"),
    "no namespace": (["pod", "web", "-n", "a/b"], "'a/b' is not the name of an object"),
    "a kind that is not known": (["gate", "web"], "No such command 'gate'"),
    "a form that is not known": (["rule", "web", "-o", "xml"], "'xml' is not one of"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_and_the_exit_code_is_2(case: str) -> None:
    arguments, said = WRONG[case]
    done = CliRunner().invoke(cli.main, ["explain", *arguments])
    last = done.stderr.splitlines()[-1]
    assert (done.exit_code, done.stdout, last.startswith("Error: "), said in last) == (2, "", True, True), last


def test_a_kubeconfig_that_is_none_is_one_line(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli.main, ["explain", "pod", "web", "--kubeconfig", str(tmp_path / "nothing")])
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)


def test_the_forms_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    given = SITUATIONS["a rule in Audit"]()
    cluster = Cluster([namespace(), *given.objects], now=NOW)
    found = pods.explain(cluster, cluster.put(given.pod))
    show(text.of_pod(found), text.data(found), "json")
    as_json = json.loads(capsys.readouterr().out)
    show(text.of_pod(found), text.data(found), "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == as_json
    assert (as_json["age"], as_json["findings"][0]["cause"]) == (NOW - CREATED, "RuleInAudit")
    show(text.of_pod(found), text.data(found), "table")
    assert capsys.readouterr().out.startswith("Pod ml/web: Pending, 30s old\n\nWhy\n  RuleInAudit: node n1: taint")


def refused(uid: str) -> Object:
    return {
        "metadata": {"name": uid, "namespace": "ml", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "reason": "ReleaseRefused",
        "note": "policy says no",
        "regarding": {"kind": "Pod", "namespace": "ml", "name": "web", "uid": uid},
    }


class Api:
    """Has one Pod that Tollbar's gate holds, and these Events."""

    def __init__(self, *events: Object) -> None:
        self.held = pod("web").gated()
        self.events = events

    async def get(self, *_: Any) -> Object:
        return self.held

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        return {"metadata": {}, "items": {PODS: [self.held], EVENTS: [*self.events]}.get(resource, [])}

    async def served(self, _group_version: str) -> set[str]:
        return set()


def failed(owner: str, minute: int = 0, **more: Any) -> Object:
    """An Event of a ReplicaSet that cannot make its Pods, first told in this minute."""
    return {
        "metadata": {"name": owner, "namespace": "ml", "creationTimestamp": f"2026-01-01T00:{minute:02}:00Z"},
        "reason": "FailedCreate",
        "note": "exceeded quota",
        "regarding": {"kind": "ReplicaSet", "namespace": "ml", "name": owner},
        **more,
    }


class Refusing(Api):
    """Has no Pod, and these Events."""

    async def get(self, *_: Any) -> Object:
        raise NotFound(404, "NotFound", 'pods "web" not found')


async def test_a_pod_that_its_controller_cannot_make_is_explained() -> None:
    client: Any = Refusing(failed("web-1"))
    answer = await explained(client, "ml", "web")
    (found,) = answer.found.findings
    assert (found.cause, found.what) == (Cause.NOT_CREATED, "ReplicaSet web-1 cannot make its Pods: exceeded quota")
    assert text.of_pod(answer.found)[0] == "Pod ml/web: not created"
    shown = page(answer.copy, answer.pod, answer.found)
    assert (shown.headline, shown.figures, shown.pods.rows[0].state) == ("Why this Pod was not created", (), "refused")
    assert "not created" in await asyncio.to_thread(rendering.html, shown)


LAST_AT_20: Final = {"deprecatedLastTimestamp": "2026-01-01T00:20:00Z"}
OWNERS: Mapping[str, tuple[str, list[Object], str]] = {
    "a name that only begins alike is another's": ("web", [failed("webhook-7f9"), failed("web-1")], "web-1"),
    "the newest": ("web", [failed("web-1"), failed("web-3", 30), failed("web-2")], "web-3"),
    "the newest is what was told last": ("web", [failed("web-1", 10), failed("web-2", 0, **LAST_AT_20)], "web-2"),
    "the nearest owner, though another was told later": (
        "web-1-x7k",
        [failed("web", 30), failed("web-1"), failed("we", 40)],
        "web-1",
    ),
    "an object of the Pod's own name": ("web-1", [failed("web", 30), failed("web-1")], "web-1"),
}


@pytest.mark.parametrize("case", OWNERS)
async def test_of_events_about_pods_that_could_not_be_made_is_believed(case: str) -> None:
    name, events, owner = OWNERS[case]
    client: Any = Refusing(*events)
    (found,) = (await explained(client, "ml", name)).found.findings
    assert found.what == f"ReplicaSet {owner} cannot make its Pods: exceeded quota"


@pytest.mark.parametrize("owner", ["other", "webhook-7f9", "we"])
async def test_a_pod_that_nobody_wants_to_make_is_an_error(owner: str) -> None:
    client: Any = Refusing(failed(owner))
    with pytest.raises(click.ClickException, match='pods "web" not found'):
        await explained(client, "ml", "web")


@pytest.mark.parametrize(("uid", "is_cause"), [("uid-of-web", True), ("uid-of-an-earlier-one", False)])
async def test_an_event_is_a_cause_if_it_is_about_this_very_pod(uid: str, is_cause: bool) -> None:
    client: Any = Api(refused(uid))
    causes = [each.cause for each in (await explained(client, "ml", "web")).found.findings]
    assert ("ReleaseRefused" in causes) is is_cause, causes


PENDING: Final = "pending: no Pod that waits for a Node uses it"
ALLOCATED: Final = "allocated for every Node; nobody uses it"
GONE: Final = 'Error: resourceclaims "c" not found'
AWAY: Final = Unreachable("refused", final=True)
BUSY: Final = ServerError(503, "ServiceUnavailable", "etcd has no leader")
NO_ANSWER: Final = "the API server does not answer: refused"
AGAIN: Final = "the API server answers again"


class Watched(Api):
    """Has one claim, in these states one look after the other, or fails."""

    namespace = "ml"

    def __init__(self, *states: str | Exception) -> None:
        super().__init__()
        self.states = list(states)

    async def list(self, resource: Resource, *_: Any, **__: Any) -> Object:
        if resource != RESOURCE_CLAIMS:
            return {"metadata": {}, "items": []}
        state = self.states.pop(0)
        if isinstance(state, Exception):
            raise state
        known = claim("c").but("status.allocation", allocation("d1")) if state == "allocated" else claim("c")
        return {"metadata": {}, "items": [] if state == "gone" else [known]}


LOOKS: Mapping[str, tuple[tuple[str | Exception, ...], list[str], list[str]]] = {
    "is told of when it changes": (
        ("pending", "pending", "allocated", "allocated", "gone"),
        [PENDING, ALLOCATED],
        [GONE],
    ),
    "is looked for until the API server answers again": (
        ("pending", AWAY, AWAY, "pending", AWAY, "allocated", "gone"),
        [PENDING, ALLOCATED],
        [f"{NO_ANSWER}; trying again until it answers", AGAIN] * 2 + [GONE],
    ),
    "is looked for until the API server can answer": (
        ("pending", *[BUSY] * 5, "gone"),
        [PENDING],
        [
            "the API server refused: 503 ServiceUnavailable: etcd has no leader; trying again until it answers",
            GONE,
        ],
    ),
    "is not looked for where the API server does not answer at first": ((AWAY,), [], [f"Error: {NO_ANSWER}"]),
}


@pytest.mark.parametrize("case", LOOKS)
def test_a_claim_that_is_watched(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    states, answers, said = LOOKS[case]
    server = Watched(*states)

    @asynccontextmanager
    async def connected(*_: Any) -> AsyncIterator[Watched]:
        yield server

    monkeypatch.setattr(console, "connected", connected)
    monkeypatch.setattr("tollbar.cli.explain._AGAIN", 0.0)
    monkeypatch.setattr(retry.READ._retrying, "sleep", lambda _seconds: asyncio.sleep(0))
    done = CliRunner().invoke(cli.main, ["explain", "claim", "c", "--watch", "-o", "yaml"])
    assert (done.exit_code, done.stderr.splitlines(), server.states) == (1, said, [])
    assert [each["summary"] for each in yaml.safe_load_all(done.stdout) if each] == [[each] for each in answers]
