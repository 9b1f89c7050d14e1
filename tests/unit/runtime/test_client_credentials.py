"""How the client comes to its credentials, and when it reads them again."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fakes.execplugin import ExecPlugin, until

from tollbar.model import resources
from tollbar.runtime import access, ownthread
from tollbar.runtime.client import Client
from tollbar.runtime.errors import KubeconfigError, Unauthorized
from tollbar.runtime.metrics import Metrics

EXEC_ANSWER = json.dumps(
    {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "from-exec"},
    }
)
USERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "a token": ({"token": "t"}, "Bearer t"),
    "a token file": ({"tokenFile": "token"}, "Bearer from-file"),
    "a password": ({"username": "u", "password": "p"}, "Basic dTpw"),
    "an exec plugin": (
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": sys.executable,
                "args": ["-c", f"print({EXEC_ANSWER!r})"],
            }
        },
        "Bearer from-exec",
    ),
    "nobody": ({}, None),
}


@pytest.mark.parametrize(("user", "want"), USERS.values(), ids=USERS.keys())
async def test_credentials(user: dict[str, Any], want: str | None, server: Any, connect: Any, tmp_path: Path) -> None:
    await asyncio.to_thread((tmp_path / "token").write_text, "from-file")
    server.others.append({"body": {}})
    client = await connect(user)
    await client.get(resources.PODS, "web", "shop")
    assert server.requests[0].headers.get("Authorization") == want


async def test_a_token_file_is_read_again_after_a_minute(server: Any, connect: Any, clock: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others += [{"body": {}} for _ in range(3)]
    client = await connect({"tokenFile": "token"})
    await client.get(resources.PODS, "web", "shop")
    await asyncio.to_thread(token.write_text, "two")
    await client.get(resources.PODS, "web", "shop")
    clock.time += 60
    await client.get(resources.PODS, "web", "shop")
    used = [request.headers["Authorization"] for request in server.requests]
    assert used == ["Bearer one", "Bearer one", "Bearer two"]


async def test_a_refused_token_is_read_again_soon(server: Any, connect: Any, clock: Any, tmp_path: Path) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others += [{"status": 401, "body": b""}, {"body": {}}]
    client = await connect({"tokenFile": "token"})
    with pytest.raises(Unauthorized):
        await client.get(resources.PODS, "web", "shop")
    await asyncio.to_thread(token.write_text, "two")
    clock.time += 5
    await client.get(resources.PODS, "web", "shop")
    assert server.requests[1].headers["Authorization"] == "Bearer two"


async def test_credentials_that_cannot_be_read_again_stay_in_use(
    server: Any, connect: Any, clock: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    server.others.append({"body": {}})
    client = await connect({"tokenFile": "token"})
    await asyncio.to_thread(token.unlink)
    clock.time += 60
    await client.get(resources.PODS, "web", "shop")
    assert (server.requests[0].headers["Authorization"], [record.message for record in caplog.records]) == (
        "Bearer one",
        ["cannot read the credentials again"],
    )


async def used(client: Client, server: Any) -> str:
    """The credentials of one call."""
    server.others.append({"body": {}})
    await client.get(resources.PODS, "web", "shop")
    return str(server.requests[-1].headers["Authorization"])


async def read_again(client: Client) -> None:
    """Wait until the credentials have been read, if they are being read."""
    if (reading := client._access._reading) is not None:
        await asyncio.wait([reading])


async def given_up_while_it_hangs(client: Client, clock: Any, plugin: ExecPlugin) -> None:
    """The plugin hangs, run by a call whose caller does not wait for it."""
    plugin.hangs()
    clock.time += 60
    first = asyncio.create_task(client.get(resources.PODS, "web", "shop"))
    await plugin.hanging()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExecPlugin]:
    """Of a process that has no terminal.  It may take long to start it."""
    monkeypatch.setattr(ownthread, "has_terminal", lambda: False)
    monkeypatch.setattr(access, "_WAIT_SECONDS", 25.0)
    made = ExecPlugin(tmp_path / "plugin")
    made.answers("one")
    yield made
    made.end()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """In the thread that began last, the time is over that there is for reading credentials."""
    began: list[Any] = []

    class Leaping(ownthread._Loop):
        ahead = 0.0

        def __init__(self) -> None:
            super().__init__()
            began.append(self)

        def time(self) -> float:
            return super().time() + self.ahead

    def leap() -> None:
        began[-1].ahead = access._LOGIN_SECONDS
        began[-1].call_soon_threadsafe(lambda: None)  # it looks at its timers

    monkeypatch.setattr(ownthread, "_Loop", Leaping)
    monkeypatch.setattr(ownthread, "_END_SECONDS", 60.0)
    return leap


@pytest.fixture
def deadline(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets how long it may take to read credentials, in seconds."""

    def set_both(seconds: float) -> None:
        monkeypatch.setattr(access, "_READ_SECONDS", seconds)
        monkeypatch.setattr(access, "_LOGIN_SECONDS", seconds)

    return set_both


@pytest.mark.parametrize(
    ("is_terminal", "by", "left"),
    [
        pytest.param(False, "", 0, id="it ends with what it has started"),
        pytest.param(False, "setsid", 1, id="what it has started left its session"),
        pytest.param(True, "", 1, id="at a terminal"),
    ],
)
async def test_an_exec_plugin_that_hangs_is_killed_and_run_again(
    is_terminal: bool,
    by: str,
    left: int,
    server: Any,
    connect: Any,
    clock: Any,
    plugin: ExecPlugin,
    late: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it has started may outlive it, and keeps its output open."""
    monkeypatch.setattr(ownthread, "has_terminal", lambda: is_terminal)
    client = await connect(plugin.user)
    plugin.hangs(by)
    clock.time += 60
    using = asyncio.create_task(used(client, server))
    await plugin.hanging()
    late()
    assert await using == "Bearer one"
    await read_again(client)
    await until(lambda: len(plugin.running()) == left)
    assert [(record.message, record.error) for record in caplog.records] == [
        ("cannot read the credentials again", f"{plugin.command}: no answer within {access._deadline():g} s")
    ]
    plugin.answers("two")
    clock.time += 60
    assert (await used(client, server), plugin.runs) == ("Bearer two", 3)


async def test_while_an_exec_plugin_hangs_the_minutes_go_by_and_calls_go_on(
    server: Any, connect: Any, clock: Any, plugin: ExecPlugin
) -> None:
    """Whoever has begun to wait may give up: it stays one plugin, in one thread, and ends with the client."""
    client = await connect(plugin.user)
    await given_up_while_it_hangs(client, clock, plugin)
    for _ in range(10):
        clock.time += 60
        assert await used(client, server) == "Bearer one"
    assert (plugin.runs, [each.name for each in threading.enumerate()].count("own-thread")) == (2, 1)
    await client.close()
    await plugin.ended()


@pytest.mark.parametrize(("status", "want"), [(200, "Bearer one"), (401, "Bearer two")])
async def test_after_an_exec_plugin_that_hung_calls_wait_for_it_if_they_are_refused_otherwise(
    status: int, want: str, server: Any, connect: Any, clock: Any, plugin: ExecPlugin
) -> None:
    client = await connect(plugin.user)
    plugin.hangs()
    clock.time += 60
    server.others.append({"status": status, "body": {}})
    first = asyncio.create_task(client.get(resources.PODS, "web", "shop"))
    await plugin.hanging()
    clock.time += 30
    plugin.answers("two")
    plugin.end()
    (answer,) = await asyncio.gather(first, return_exceptions=True)
    assert isinstance(answer, Unauthorized) is (status == 401)
    clock.time += 60
    assert await used(client, server) == want
    await read_again(client)
    assert await used(client, server) == "Bearer two"


async def test_a_refusal_while_an_exec_plugin_hangs_makes_calls_wait_when_it_is_run_again(
    server: Any, connect: Any, clock: Any, plugin: ExecPlugin
) -> None:
    client = await connect(plugin.user)
    await given_up_while_it_hangs(client, clock, plugin)
    clock.time += 30
    server.others.append({"status": 401, "body": b""})
    with pytest.raises(Unauthorized):
        await client.get(resources.PODS, "web", "shop")
    plugin.answers("two")
    plugin.end()
    await read_again(client)
    clock.time += 60
    assert await used(client, server) == "Bearer two"


async def test_many_calls_wait_for_one_plugin(server: Any, connect: Any, clock: Any, plugin: ExecPlugin) -> None:
    client = await connect(plugin.user)
    plugin.answers("two")
    clock.time += 60
    server.others += [{"body": {}} for _ in range(20)]
    await asyncio.gather(*(client.get(resources.PODS, "web", "shop") for _ in range(20)))
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer two"}
    assert plugin.runs == 2


async def test_a_refusal_of_credentials_that_were_read_again_since_is_none_of_those_in_use(
    server: Any, connect: Any, clock: Any, plugin: ExecPlugin
) -> None:
    client = await connect(plugin.user)
    server.others.append({"status": 401, "body": b"", "then": "hang"})
    early = asyncio.create_task(client.get(resources.PODS, "web", "shop"))
    await server.hanging.wait()
    clock.time += 60
    await used(client, server)
    server.release.set()
    with pytest.raises(Unauthorized):
        await early
    clock.time += 5
    await used(client, server)
    assert plugin.runs == 2


async def test_refused_credentials_are_asked_for_again_though_they_have_not_expired(
    server: Any, connect: Any, clock: Any, plugin: ExecPlugin
) -> None:
    plugin.answers("one", expirationTimestamp="2999-01-01T00:00:00Z")
    client = await connect(plugin.user)
    clock.time += 60
    assert (await used(client, server), plugin.runs) == ("Bearer one", 1)
    plugin.answers("two", expirationTimestamp="2999-01-01T00:00:00Z")
    server.others += [{"status": 401, "body": b""} for _ in range(2)]
    for _ in range(2):
        with pytest.raises(Unauthorized):
            await client.get(resources.PODS, "web", "shop")
    clock.time += 5
    assert (await used(client, server), plugin.runs) == ("Bearer two", 2)


async def test_a_refusal_says_why_there_are_no_other_credentials(
    server: Any, connect: Any, clock: Any, plugin: ExecPlugin, caplog: pytest.LogCaptureFixture
) -> None:
    client = await connect(plugin.user)
    plugin.fails("log in first")
    clock.time += 60
    server.others.append({"status": 401, "body": b"Unauthorized"})
    with pytest.raises(Unauthorized, match=r"Unauthorized \(the credentials cannot be read again: .*log in first.*\)$"):
        await client.get(resources.PODS, "web", "shop")
    assert [record.message for record in caplog.records] == ["cannot read the credentials again"]
    plugin.answers("two")
    clock.time += 5
    assert await used(client, server) == "Bearer two"


async def test_a_file_that_does_not_answer_takes_no_thread_from_others(
    server: Any,
    connect: Any,
    clock: Any,
    deadline: Any,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a network file system; here it is a pipe, of which nobody has opened the other end."""
    token = tmp_path / "token"
    await asyncio.to_thread(token.write_text, "one")
    client = await connect({"tokenFile": "token"})
    await asyncio.to_thread(token.unlink)
    os.mkfifo(token)
    deadline(0.1)
    monkeypatch.setattr(access, "_WAIT_SECONDS", 0.1)
    clock.time += 60
    assert await used(client, server) == "Bearer one"
    for _ in range(10):
        clock.time += 60
        assert await used(client, server) == "Bearer one"
    assert [each.name for each in threading.enumerate()].count("own-thread") == 1
    await until(lambda: client._access.problem)
    assert [record.message for record in caplog.records] == ["cannot read the credentials again"]
    await asyncio.to_thread(token.write_text, "two")
    await read_again(client)
    assert await used(client, server) == "Bearer two"


async def test_who_gives_up_connecting_leaves_no_plugin(connect: Any, plugin: ExecPlugin) -> None:
    plugin.hangs()
    connecting = asyncio.create_task(connect(plugin.user))
    await plugin.hanging()
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await plugin.ended()


async def test_a_plugin_that_hangs_at_the_start_is_an_error(
    connect: Any, plugin: ExecPlugin, late: Callable[[], None]
) -> None:
    plugin.hangs()
    connecting = asyncio.create_task(connect(plugin.user))
    await plugin.hanging()
    late()
    with pytest.raises(KubeconfigError, match=r"^cannot use the credentials: .*plugin\.sh: no answer within 30 s$"):
        await connecting
    await plugin.ended()


async def test_a_plugin_that_does_not_end_though_it_is_killed_has_its_deadline_too(
    connect: Any, plugin: ExecPlugin, late: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that waits for a network file system."""

    async def wait(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(ownthread.Process, "wait", wait)
    monkeypatch.setattr(ownthread, "_END_SECONDS", 1.0)
    plugin.hangs()
    connecting = asyncio.create_task(connect(plugin.user))
    await plugin.hanging()
    late()
    with pytest.raises(KubeconfigError, match=r"plugin\.sh: no answer within 30 s$"):
        await connecting


@pytest.mark.parametrize("is_terminal", [False, True])
async def test_a_plugin_shares_the_session_of_a_terminal_and_has_time_there(
    is_terminal: bool, connect: Any, plugin: ExecPlugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownthread, "has_terminal", lambda: is_terminal)
    monkeypatch.setattr(access, "_LOGIN_SECONDS" if is_terminal else "_READ_SECONDS", 1000.0)
    monkeypatch.setattr(access, "_READ_SECONDS" if is_terminal else "_LOGIN_SECONDS", 0.0)
    plugin.hangs()
    connecting = asyncio.create_task(connect(plugin.user))
    await plugin.hanging()
    pid = plugin.process()
    assert (os.getsid(pid) == os.getsid(0)) is is_terminal
    connecting.cancel()
    await asyncio.gather(connecting, return_exceptions=True)
    await until(lambda: pid not in plugin.running())


TWO_CLUSTERS = {
    "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example.com"}} for name in ("blue", "green")],
    "users": [{"name": "me", "user": {}}],
    "contexts": [{"name": f"me@{name}", "context": {"cluster": name, "user": "me"}} for name in ("blue", "green")],
    "current-context": "me@blue",
}
BLUE = "blue at https://blue.example.com (context me@blue)"
GREEN = "green at https://green.example.com (context me@green)"
CONTEXTS: dict[str, tuple[list[Any], str | None, str]] = {
    "the current one": ([TWO_CLUSTERS], None, BLUE),
    "another one": ([TWO_CLUSTERS], "me@green", GREEN),
    "one, where none is current": ([{**TWO_CLUSTERS, "current-context": ""}], "me@green", GREEN),
    "one of the second file": (
        [{**TWO_CLUSTERS, "contexts": TWO_CLUSTERS["contexts"][:1]}, {"contexts": TWO_CLUSTERS["contexts"][1:]}],
        "me@green",
        GREEN,
    ),
}


@pytest.mark.parametrize(("namespace", "want"), [("ml", "ml"), (None, "default")])
async def test_the_namespace_is_that_of_the_context(
    namespace: str | None, want: str, tmp_path: Path, metrics: Metrics
) -> None:
    blue, *others = TWO_CLUSTERS["contexts"]
    content = {**TWO_CLUSTERS, "contexts": [{**blue, "context": {**blue["context"], "namespace": namespace}}, *others]}
    path = tmp_path / "config"
    await asyncio.to_thread(path.write_text, json.dumps(content))
    client = await Client.connect(kubeconfig=str(path), metrics=metrics, user_agent="t")
    assert client.namespace == want
    await client.close()


@pytest.mark.parametrize(("files", "context", "want"), CONTEXTS.values(), ids=CONTEXTS)
async def test_the_cluster_is_that_of_the_context(
    files: list[Any], context: str | None, want: str, tmp_path: Path, metrics: Metrics
) -> None:
    paths = [tmp_path / str(number) for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        await asyncio.to_thread(path.write_text, json.dumps(content))
    given = os.pathsep.join(map(str, paths))
    client = await Client.connect(kubeconfig=given, context=context, metrics=metrics, user_agent="t")
    assert client.cluster == want
    await client.close()


async def test_a_context_that_is_not_there_is_named(tmp_path: Path, metrics: Metrics) -> None:
    path = tmp_path / "config"
    await asyncio.to_thread(path.write_text, json.dumps(TWO_CLUSTERS))
    with pytest.raises(KubeconfigError, match=f'^context "red" does not exist in {path}$'):
        await Client.connect(kubeconfig=str(path), context="red", metrics=metrics, user_agent="t")


async def test_a_context_needs_a_kubeconfig(monkeypatch: pytest.MonkeyPatch, metrics: Metrics) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    with pytest.raises(KubeconfigError, match=r'^context "red" does not exist: there is no kubeconfig$'):
        await Client.connect(kubeconfig=None, context="red", metrics=metrics, user_agent="t")


def with_plugin(command: str) -> str:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": command}
    return json.dumps(
        {
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "a", "user": {"exec": plugin}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
    )


BROKEN: dict[str, tuple[str | None, str]] = {
    "no file": (None, "no kubeconfig at"),
    "an empty file": ("\n", "the kubeconfig at .* is empty$"),
    "no kubeconfig": ("just text", "config is no kubeconfig$"),
    "an exec plugin that is not there": (
        with_plugin("no-such-plugin"),
        "^the exec plugin of the kubeconfig gives no credentials: [^\n]*No such file or directory: 'no-such-plugin'$",
    ),
    "an exec plugin that fails": (
        with_plugin("false"),
        "^the exec plugin of the kubeconfig gives no credentials: exec: process returned 1$",
    ),
    "no YAML, on one line": ("{\n", "^cannot use the credentials[^\n]*$"),
    "no such port": (
        json.dumps(
            {
                "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:99999"}}],
                "users": [{"name": "a", "user": {}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "current-context": "a",
            }
        ),
        "not the URL of a server: http://127.0.0.1:99999: Port out of range",
    ),
    "no such context": (
        '{"contexts": [], "clusters": [], "users": [], "current-context": "x"}',
        "Expected object with",
    ),
}


@pytest.mark.parametrize(("text", "want"), BROKEN.values(), ids=BROKEN.keys())
async def test_an_unusable_kubeconfig_is_named(text: str | None, want: str, tmp_path: Path, metrics: Metrics) -> None:
    path = tmp_path / "config"
    if text is not None:
        await asyncio.to_thread(path.write_text, text)
    with pytest.raises(KubeconfigError, match=want):
        await Client.connect(kubeconfig=str(path), metrics=metrics, user_agent="t")
