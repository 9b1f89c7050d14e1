"""Ends a plane when the process that started it is gone, however it went.

The launcher runs `python -m tollbar.devplane.real.guard DIRECTORY` with a pipe as stdin and never writes to it: the end
of the pipe means that the launcher is no more.  After an orderly stop there is nothing left to do.
"""

import sys
from pathlib import Path

from tollbar.devplane.real import state


def main() -> int:
    sys.stdin.buffer.read()
    state.stop(Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
