"""What a process sets up before it connects."""

import logging
from asyncio import sslproto
from pathlib import Path

import pytest

from tollbar import cel
from tollbar.cel.engines.closures import ClosuresEngine
from tollbar.runtime import collector, log, process
from tollbar.runtime.budget import memory_limit
from tollbar.runtime.config import load
from tollbar.runtime.manager import Manager


async def nothing(_: Manager) -> None:
    """No part of a process."""


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process sets up for itself is as it was after each test."""
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)
    monkeypatch.setattr(cel, "_used", "compiled")
    monkeypatch.setattr(collector, "tune", lambda: None)
    monkeypatch.setattr(log, "configure", lambda *_: None)


def test_a_connection_with_tls_does_not_take_a_quarter_of_a_megabyte(tmp_path: Path) -> None:
    assert process.run("test", nothing, load(None, {}), str(tmp_path / "no kubeconfig")) == 1
    assert sslproto.SSLProtocol.max_size < 100_000


def test_each_expression_is_evaluated_by_the_engine_that_is_configured(tmp_path: Path) -> None:
    process.run("test", nothing, load(None, {"celEngine": "closures"}), str(tmp_path / "no kubeconfig"))
    assert isinstance(cel.engine(), ClosuresEngine)


def test_how_much_memory_there_is_for_what_may_become_stubs_is_said_once(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    process.run("test", nothing, load(None, {}), str(tmp_path / "no kubeconfig"))
    said = [vars(each) for each in caplog.records if "may become stubs" in each.message]
    assert [(each["limit"], each["budget"]) for each in said] == [(memory_limit(), memory_limit() * 3 // 8)]
