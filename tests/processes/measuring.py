"""What processes take of the machine (proc(5)).  Linux only."""

from pathlib import Path


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
