"""How the client comes to its credentials, and when it reads them again."""

import asyncio
import json
import sys
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
