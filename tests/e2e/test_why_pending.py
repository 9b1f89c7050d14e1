"""docs/tasks/why-is-my-pod-pending.md: every command of it is run, and prints what the page shows."""

import shlex
import sys
from pathlib import Path

import pytest
from planes.objects import Cluster
from processes.stack import eventually
from processes.transcripts import Terminal, steps

pytestmark = [pytest.mark.timeout(300), pytest.mark.real]

PAGE = (Path(__file__).parents[2] / "docs" / "tasks" / "why-is-my-pod-pending.md").read_text()


def test_what_the_page_says_is_what_happens(cluster: Cluster, tmp_path: Path) -> None:
    kubectl = cluster.kubectl
    kubectl("wait", "--for=create", "schedulinggate/tolerations", "--timeout=60s")
    kubectl("patch", "schedulinggate", "tolerations", "--type=merge", "-p", '{"spec":{"maxHold":"10m"}}')
    reader = Terminal(kubectl, cluster.namespace, tmp_path, tmp_path)
    for name in ("tollbar", "kubectl-tollbar"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m tollbar.cli "$@"\n')
        program.chmod(0o755)
    for step in steps(PAGE.replace("default/", f"{cluster.namespace}/")):
        said = ""

        def shown(commands: str = step.commands, output: str = step.output) -> bool:
            nonlocal said
            said = reader.types(commands)
            return reader.told(output) in reader.told(said)

        try:
            eventually(shown, what=step.output)
        except AssertionError as error:
            raise AssertionError(f"{error}\nbut\n{said}") from None
