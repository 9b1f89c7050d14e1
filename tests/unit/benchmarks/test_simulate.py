"""The simulations of the benchmark `simulate` come to what they are measured for: one that fails may be a fast one."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.workloads import simulate
from tollbar.cli import main


@pytest.mark.parametrize("name", simulate.CASES)
def test_as_many_pods_get_a_node_as_it_says(name: str, tmp_path: Path) -> None:
    case = simulate.CASES[name](20, 5)
    done = CliRunner().invoke(main, simulate.write(case, tmp_path))
    found = json.loads(done.stdout)["pods"]
    placed = sum(each["node"] is not None for each in found)
    assert (done.exit_code, placed) == (0 if case.placed == len(found) else 1, case.placed)


def test_the_most_memory_is_the_command_s_own(tmp_path: Path) -> None:
    """However large the process is that measures it."""
    ballast = [b"x" * 2**28]
    figures = simulate.played(simulate.CASES["mixed"](20, 5), tmp_path)
    ballast.clear()
    assert 10 < figures[simulate.MEMORY.name] < 256
