"""The page about simulations: every command is run, and every output shown is what comes out."""

import os
import subprocess
import sys
from pathlib import Path

from processes.transcripts import steps

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "tasks" / "simulate.md").read_text()


def test_what_the_page_shows_is_what_comes_out(tmp_path: Path) -> None:
    program = tmp_path / "tollbar"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tollbar.cli "$@"\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
    shown = steps(PAGE)
    assert sum(bool(step.output) for step in shown) >= 6
    for step in shown:
        done = subprocess.run(
            ["bash"],
            input=step.commands.replace("/tmp/", f"{tmp_path}/"),  # noqa: S108 - the reader's
            cwd=ROOT / "manifests" / "examples" / "quickstart",
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.stdout == step.output, step.commands
