"""The page "Write a gate controller", typed as it stands there, on a control plane in memory of its own."""

import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from planes.parameters import needs_kubectl
from plugins import examples
from processes.transcripts import BLOCK

ROOT = Path(__file__).parents[2]
EXAMPLE = examples.EXAMPLES / "gate-controller"
PAGE = (ROOT / "docs" / "contributing" / "write-a-gate-controller.md").read_text()
END = "--- typed ---"
FILES = {
    path.rpartition("/")[2]: text
    for language, block in BLOCK.findall(PAGE)
    if language in ("python", "toml")
    for path, _, text in [block.partition("\n")]
}


class Shell:
    """A shell that lives as long as the page; what a program in the background says is shown, too."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.types("set -m")

    def types(self, commands: str) -> str:
        """What is shown.  Raises AssertionError when the last command fails."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{commands}\necho '{END}' $?\n")
        self._process.stdin.flush()
        said, _, status = self.until(END).rpartition(END)
        assert status.strip() == "0", f"{commands}\n{said}"
        return said

    def until(self, text: str) -> str:
        """All that is shown until a line has this text, with that line."""
        assert self._process.stdout is not None
        said = ""
        for line in self._process.stdout:
            said += line
            if text in line:
                return said
        raise AssertionError(f"it ended without {text!r}:\n{said}")

    def end(self) -> None:
        """What still runs in the background ends as by Ctrl-C."""
        self._process.communicate("kill -INT %1 2>/dev/null; wait\n")


def program(folder: Path, name: str, command: str) -> None:
    (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    (folder / name).chmod(0o755)


@pytest.fixture
def shell(embedded: Any, tmp_path: Path) -> Iterator[Shell]:
    """In a folder where .venv has Tollbar; pip does nothing, the package is declared as pip would declare it."""
    needs_kubectl(embedded)
    python = shlex.quote(sys.executable)
    programs, installed = tmp_path / ".venv" / "bin", tmp_path / "installed"
    programs.mkdir(parents=True)
    installed.mkdir()
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    program(programs, "tollbar", f"{python} -m tollbar.cli")
    program(programs, "python", python)
    program(programs, "pip", "true")
    program(programs, "kubectl", shlex.join(embedded.kubectl.command))
    examples.declare(tomllib.loads(FILES["pyproject.toml"])["project"], installed)
    environment = {
        **os.environ,
        **embedded.kubectl.environment(),
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHONPATH": os.pathsep.join([str(tmp_path / "zone"), str(installed), str(ROOT)]),
    }
    started = Shell(tmp_path, environment)
    yield started
    started.end()


def test_the_files_of_the_page_are_those_of_the_example() -> None:
    assert {path.name: path.read_text() for path in EXAMPLE.iterdir() if path.is_file()} == FILES


def test_a_newcomer_gets_what_the_page_shows(shell: Shell, tmp_path: Path) -> None:
    typed = 0
    blocks = BLOCK.findall(PAGE)
    for (language, text), (follows, output) in zip(blocks, [*blocks[1:], ("sh", "")], strict=True):
        if language != "sh":
            continue
        commands = text.replace("/tmp/", f"{tmp_path}/")  # noqa: S108
        said = shell.types(commands)
        typed += 1
        if "tollbar dev" in commands:
            shell.until("ready: webhook")
        wanted = output.strip() if not follows else ""
        while wanted not in "\n".join(line.rstrip() for line in said.splitlines()):
            said = shell.types(commands)  # an Event takes its time
    assert typed == 9
