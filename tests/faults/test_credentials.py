"""Commands whose exec credential plugin hangs: they end when they are told to, and leave no process behind."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from execplugin import ExecPlugin


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[ExecPlugin]:
    made = ExecPlugin(tmp_path / "plugin")
    yield made
    made.end()


async def test_a_command_that_is_interrupted_leaves_no_plugin(plugin: ExecPlugin, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    content = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": plugin.user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }
    await asyncio.to_thread(kubeconfig.write_text, json.dumps(content))
    plugin.hangs()
    command = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tollbar.cli", "explain", "node", "n", "--kubeconfig", str(kubeconfig)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    await plugin.hanging()
    command.terminate()
    said = await command.communicate()
    assert (command.returncode, said) == (130, (b"", b""))
    await plugin.ended()
