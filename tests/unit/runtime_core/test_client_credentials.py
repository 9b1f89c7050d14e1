"""How the client comes to its credentials, and when it reads them again."""

import asyncio
import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tollbar.model import resources
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


async def test_an_exec_plugin_that_hangs_holds_up_one_call_alone(
    server: Any, connect: Any, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    async def load_and_set(_configuration: object) -> None:
        hangs.set()
        goes_on.wait()

    server.others += [{"body": {}} for _ in range(2)]
    client = await connect({"token": "t"})
    monkeypatch.setattr(client._access._loader, "load_and_set", load_and_set)
    clock.time += 60
    held_up = asyncio.create_task(client.get(resources.PODS, "web", "shop"))
    await asyncio.to_thread(hangs.wait)
    clock.time += 60
    try:
        async with asyncio.timeout(10):
            await client.get(resources.PODS, "web", "shop")
    finally:
        goes_on.set()
        await held_up


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
