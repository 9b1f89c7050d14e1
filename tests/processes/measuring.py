"""What evaluations and processes cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tollbar.cel import CostBudget, Program
from tollbar.cel.core.limits import MAX_ALLOCATION, CostTracker
from tollbar.cel.engines import closures, compiled


class Measured(NamedTuple):
    """An answer and what it cost: steps, and bytes allocated."""

    answer: Any
    steps: int
    allocated: int


def measure(program: Program, inputs: Mapping[str, Any]) -> Measured:
    """Evaluate once."""
    trackers: list[CostTracker] = []

    def tracker(charged: int) -> CostTracker:
        trackers.append(CostTracker(charged))
        return trackers[-1]

    budget = CostBudget(0)
    with patch.object(closures, "CostTracker", tracker), patch.object(compiled, "CostTracker", tracker):
        answer = program.evaluate(inputs, budget)
    return Measured(answer, -budget.steps, MAX_ALLOCATION - trackers[-1].bytes_left if trackers else 0)


def most_memory(pid: int) -> int:
    """The largest resident set of a process so far, in bytes (proc_pid_status(5))."""
    return _status(pid, "VmHWM")


def memory(pid: int) -> int:
    """The resident set of a process, in bytes (proc_pid_status(5))."""
    return _status(pid, "VmRSS")


def open_files(pid: int) -> int:
    """Files that a process has open, its connections among them (proc_pid_fd(5))."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def _status(pid: int, field: str) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])
