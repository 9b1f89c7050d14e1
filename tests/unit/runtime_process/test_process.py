"""What a process sets up before it connects."""

from asyncio import sslproto
from pathlib import Path

import pytest

from tollbar.runtime import collector, log, process
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
