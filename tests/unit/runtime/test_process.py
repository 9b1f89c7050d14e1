"""What a process sets up before it connects."""

import logging
from asyncio import sslproto
from pathlib import Path

import pytest

from tollbar.runtime import collector, log, process
from tollbar.runtime.budget import memory_limit
from tollbar.runtime.config import load
from tollbar.runtime.manager import Manager


async def nothing(_: Manager) -> None:
    """No part of a process."""


def test_a_connection_with_tls_does_not_take_a_quarter_of_a_megabyte(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)
    monkeypatch.setattr(collector, "tune", lambda: None)
    monkeypatch.setattr(log, "configure", lambda *_: None)
    assert process.run("test", nothing, load(None, {}), str(tmp_path / "no kubeconfig")) == 1
    assert sslproto.SSLProtocol.max_size < 100_000


def test_how_much_memory_there_is_for_what_may_become_stubs_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(sslproto.SSLProtocol, "max_size", sslproto.SSLProtocol.max_size)
    monkeypatch.setattr(collector, "tune", lambda: None)
    monkeypatch.setattr(log, "configure", lambda *_: None)
    process.run("test", nothing, load(None, {}), str(tmp_path / "no kubeconfig"))
    said = [vars(each) for each in caplog.records if "may become stubs" in each.message]
    assert [(each["limit"], each["budget"]) for each in said] == [(memory_limit(), memory_limit() * 3 // 8)]
