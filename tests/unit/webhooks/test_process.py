"""The process: what it consists of, in which order it stops, and how it ends when it cannot begin."""

import asyncio
from pathlib import Path

import pytest
from fakes.manager import Managed

from tollbar.runtime import config, log, process
from tollbar.runtime.client import Client
from tollbar.runtime.manager import Manager
from tollbar.runtime.metrics import Metrics
from webhooks.__main__ import setup

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: x}}]
"""


async def test_readiness_stops_first_then_the_server_and_the_probes_last(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(KUBECONFIG)
    client = await Client.connect(kubeconfig=str(kubeconfig), metrics=Metrics(), user_agent="test")
    manager = Manager(config.load(None, {}), client, Metrics())
    await setup(manager)
    phases = manager.phases()
    await client.close()
    assert [[service.name for service in phase] for phase in phases] == [
        [],
        ["probes", "metrics", "event loop lag"],
        ["reflectors"],
        ["certificate"],
        ["admission server"],
        ["readiness"],
    ]


def test_without_a_way_to_the_api_server_it_ends_with_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(log, "configure", lambda *_: None)
    code = process.run("webhook", setup, config.load(None, {}), "/no/such/kubeconfig")
    lines = [(record.getMessage(), record.error, record.exc_info) for record in caplog.records]
    assert (code, lines) == (1, [("cannot use the API server", "no kubeconfig at /no/such/kubeconfig", None)])


def test_the_webhook_elects_nobody_and_reads_no_pods() -> None:
    manager = Managed()
    asyncio.run(setup(manager))
    assert (manager.elects, sorted(store.resource.plural for store in manager.caches.stores.values())) == (
        False,
        [
            "deviceclasses",
            "leases",
            "namespaces",
            "resourceclaims",
            "resourceclaimtemplates",
            "schedulinggates",
            "secrets",
            "tolerationrules",
        ],
    )
