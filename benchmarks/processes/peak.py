"""The command `tollbar`, with the most memory that it has had; it imports nothing else, since its memory is measured.

That is written at the end, in kB, into the file that the environment variable `FILE` names: VmHWM of
proc_pid_status(5), which begins when the program is executed.  ru_maxrss of getrusage(2) begins with the size of the
process that has started it.
"""

import atexit
import os
from pathlib import Path
from typing import Final

from tollbar.cli import main

FILE: Final = "TOLLBAR_BENCHMARK_PEAK"


def _write(file: Path) -> None:
    status = Path("/proc/self/status").read_text()
    file.write_text(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:")))


if __name__ == "__main__":
    atexit.register(_write, Path(os.environ[FILE]))
    main(prog_name="tollbar")
