"""What drain decides by itself; the rest is tried on a real API server (tests/integration)."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tollbar import wellknown
from tollbar.api import webhooks
from tollbar.cli import console, main
from tollbar.cli.drain import Drained, Refusal, drain, is_ours
from tollbar.devplane import kubeconfig
from tollbar.model.objects import Object
from tollbar.model.resources import MUTATING_WEBHOOK_CONFIGURATIONS, PODS, SCHEDULING_GATES, Resource
from tollbar.runtime.errors import ApiError, Conflict, Forbidden, Invalid, NotFound, error_from_status

CLASS = "example.com/zone"
OWNERS = ("system:serviceaccount:toll:test-tollbar-controllers",)
EXPIRED = error_from_status({"code": 410, "reason": "Expired", "metadata": {"continue": "rest"}})
STALE = Invalid(422, "Invalid", "the server rejected our request", {})
REFUSED = Invalid(422, "Invalid", "not now", {"causes": [{"message": "not now"}]})
CONFLICT = Conflict(409, "Conflict", "modified")

OURS: dict[str, dict[str, Any]] = {
    "by its name": {"given": {"name": "zz-tollbar-pods"}, "want": True},
    "by its label, renamed by a kustomization": {
        "given": {"name": "test-zz-tollbar-pods", "labels": {"app.kubernetes.io/name": "tollbar"}},
        "want": True,
    },
    "somebody else's": {"given": {"name": "zz-other", "labels": {"app.kubernetes.io/name": "other"}}, "want": False},
    "without labels": {"given": {"name": "tollbar-like"}, "want": False},
}


@pytest.mark.parametrize("case", OURS.values(), ids=OURS)
def test_which_configurations_are_ours(case: dict[str, Any]) -> None:
    assert is_ours({"metadata": case["given"]}) is case["want"]


class Server:
    """An API server with one Pod that is held; every patch is answered by the next answer (None: accepted).

    `owners` are those of the SchedulingGate of the gate class, in the place of which reading may fail; `asked` are the
    gates of a webhook configuration.
    """

    cluster = "of the test"

    def __init__(
        self,
        *answers: ApiError | None,
        pages: Sequence[Object | ApiError] = (),
        reads: ApiError | None = None,
        gate: str = wellknown.GATE,
        owners: Sequence[str] | ApiError = OWNERS,
        asked: Sequence[str] = (),
    ) -> None:
        self.gate = gate
        self.owners = owners
        told = [webhooks.GateWebhook(each) for each in asked]
        self.configurations = [webhooks.gates_configuration(webhooks.at_service(), told)] if told else []
        self.answers = list(answers)
        self.pages = list(pages)
        self.reads = reads
        self.held = True

    async def served(self, _group: str) -> set[str]:
        return {MUTATING_WEBHOOK_CONFIGURATIONS.plural}

    async def list(self, resource: Resource, _namespace: str = "", **more: Any) -> Object:
        if resource is SCHEDULING_GATES:
            assert not more, "a selector, which this server does not know"
            if isinstance(self.owners, ApiError):
                raise self.owners
            return {"items": [{"spec": {"gateName": CLASS, "owners": [*self.owners]}}]}
        if resource is MUTATING_WEBHOOK_CONFIGURATIONS:
            return {"items": self.configurations}
        assert resource is PODS
        if self.pages:
            page = self.pages.pop(0)
            if isinstance(page, ApiError):
                raise page
            return page
        return {"metadata": {}, "items": [self.pod()] if self.held else []}

    async def delete(self, _resource: Resource, name: str, **_more: Any) -> None:
        self.configurations = [each for each in self.configurations if each["metadata"]["name"] != name]

    async def get(self, *_args: Any) -> Object:
        if self.reads is not None:
            self.held = False
            raise self.reads
        return self.pod()

    async def patch(self, *_args: Any, **_more: Any) -> Object:
        answer = self.answers.pop(0)
        if answer is not None:
            raise answer
        self.held = False
        return self.pod()

    def pod(self) -> Object:
        gates = [{"name": self.gate}] if self.held else []
        return {"metadata": {"name": "web", "namespace": "ns", "uid": "1"}, "spec": {"schedulingGates": gates}}


class NoTime:
    def now(self) -> float:
        return 0.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        assert seconds == webhooks.TIMEOUT_SECONDS + 1.0


DENIED = 'admission webhook "x.dev" denied the request: not today'
UNREAD = "SchedulingGates cannot be read, so that gates of classes may be left on Pods:"
DELETED = (f"MutatingWebhookConfiguration {webhooks.GATES_NAME}",)
SETTLES = f"deleted {DELETED[0]}; waiting 3 s for requests that had begun"

CASES: dict[str, dict[str, Any]] = {
    "nobody is held": {"given": Server(), "held": False, "want": Drained((), 0, 0, (), 0)},
    "one is released": {"given": Server(None), "want": Drained((), 1, 0, (), 0)},
    "one of a gate class is released": {"given": Server(None, gate=CLASS), "want": Drained((), 1, 0, (), 0)},
    "one of somebody else's gate is left alone": {
        "given": Server(gate="a.dev/x"),
        "want": Drained((), 0, 0, (), 0),
    },
    "one of a gate class whose SchedulingGate cannot be read, by the webhook configuration": {
        "given": Server(None, gate=CLASS, owners=Forbidden(403, "Forbidden", "no"), asked=["a.dev/y", CLASS]),
        "want": Drained(DELETED, 1, 0, (), 0),
        "said": [SETTLES, f"{UNREAD} 403 Forbidden: no"],
    },
    "one of a gate class of which nothing is known": {
        "given": Server(gate=CLASS, owners=NotFound(404, "NotFound", "no such kind")),
        "want": Drained((), 0, 0, (), 0),
        "said": [f"{UNREAD} 404 NotFound: no such kind"],
    },
    "one whose SchedulingGate is somebody else's": {
        "given": Server(gate=CLASS, owners=["system:serviceaccount:kueue-system:kueue"]),
        "want": Drained((), 0, 0, (), 0),
    },
    "one whose SchedulingGate names nobody": {"given": Server(gate=CLASS, owners=[]), "want": Drained((), 0, 0, (), 0)},
    "a stale view is read again": {"given": Server(STALE, CONFLICT, None), "want": Drained((), 1, 0, (), 0)},
    "gone between list and patch": {
        "given": Server(STALE, reads=NotFound(404, "NotFound", "no such Pod")),
        "want": Drained((), 0, 1, (), 0),
    },
    "a list that expired goes on": {
        "given": Server(None, pages=[{"metadata": {"continue": "next"}}, EXPIRED]),
        "want": Drained((), 1, 0, (), 0),
    },
    "refused by validation or policy": {
        "given": Server(REFUSED),
        "want": Drained((), 0, 0, (Refusal("ns/web", "422 Invalid: not now"),), 1),
    },
    "forbidden": {
        "given": Server(Forbidden(403, "Forbidden", "no")),
        "want": Drained((), 0, 0, (Refusal("ns/web", "403 Forbidden: no"),), 1),
    },
    "denied by a webhook that names no code": {
        "given": Server(ApiError(400, "BadRequest", DENIED)),
        "want": Drained((), 0, 0, (Refusal("ns/web", f"400 BadRequest: {DENIED}"),), 1),
    },
    "denied by a webhook with a code that means something else": {
        "given": Server(NotFound(404, "NotFound", DENIED)),
        "want": Drained((), 0, 0, (Refusal("ns/web", f"404 NotFound: {DENIED}"),), 1),
    },
    "never twice the same": {
        "given": Server(*[STALE] * 5),
        "want": Drained((), 0, 0, (Refusal("ns/web", "it changed at every attempt"),), 1),
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_what_becomes_of_a_held_pod(case: dict[str, Any]) -> None:
    server = case["given"]
    server.held = case.get("held", True)
    said: list[str] = []

    drained = await drain(server, clock=NoTime(), report=said.append)

    assert (drained, server.answers, said) == (case["want"], [], case.get("said", []))


PRINTED = {
    "as a table": (
        (),
        """\
CONFIGURATIONS   RELEASED   BY OTHERS   REFUSED   REMAINING   HANDED OVER   FREED   RESERVED
0                1          0           0         0           0             0       0
""",
    ),
    "as data": (
        ("-o", "yaml"),
        """\
configurations: []
released: 1
byOthers: 0
refused: []
remaining: 0
reservations:
  handedOver: 0
  freed: 0
  refused: []
  remaining: 0
""",
    ),
}


@pytest.mark.parametrize(("arguments", "want"), PRINTED.values(), ids=PRINTED)
def test_what_the_command_has_done_is_printed(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], want: str
) -> None:
    server = Server(None)

    @asynccontextmanager
    async def connected(*_: Any) -> AsyncIterator[Server]:
        yield server

    monkeypatch.setattr(console, "connected", connected)
    done = CliRunner().invoke(main, ["drain", "--reservations", *arguments])
    assert (done.exit_code, done.stdout, done.stderr) == (0, want, f"cluster {server.cluster}\n")


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    content = kubeconfig.config(server="https://127.0.0.1:1", authority=b"", token="t")
    del content["clusters"][0]["cluster"]["certificate-authority-data"]
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(content))

    done = subprocess.run(
        [sys.executable, "-m", "tollbar.cli", "drain", "--kubeconfig", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("Error: the API server does not answer: cannot connect to ")
