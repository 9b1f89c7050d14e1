"""The scheduler process, with the longest garbage collection; it imports nothing else, since its memory is measured.

That takes so many milliseconds, written into the file that the environment variable `FILE` names.
"""

import gc
import os
import sys
import time
from pathlib import Path
from typing import Final

from controllers.scheduler.__main__ import command

FILE: Final = "TOLLBAR_BENCHMARK_PAUSE"


def _watch(file: Path) -> None:
    """Write it down whenever there is a longer one."""
    began, longest = 0.0, 0.0
    file.write_text("0")

    def note(phase: str, _info: object) -> None:
        nonlocal began, longest
        if phase == "start":
            began = time.perf_counter()
        elif (took := (time.perf_counter() - began) * 1000) > longest:
            longest = took
            file.write_text(str(longest))

    gc.callbacks.append(note)


if __name__ == "__main__":
    _watch(Path(os.environ[FILE]))
    sys.exit(command())
