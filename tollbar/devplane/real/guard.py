"""Ends a plane when the process that started it is gone, even when that was killed.

That process runs `python -m tollbar.devplane.real.guard DIRECTORY` with a pipe as stdin and never writes to it: when
the pipe ends, the process is gone.  After an orderly stop there is nothing left to do.
"""

import sys
from pathlib import Path

from tollbar.devplane import state


def main() -> int:
    sys.stdin.buffer.read()
    state.stop(Path(sys.argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
