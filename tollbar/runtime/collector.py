"""The garbage collector of a process whose caches are large and live long."""

import atexit
import gc
from typing import Final

_THRESHOLDS: Final = (50_000, 50, 1_000)
"""With the default ones the collector takes most of the time of a first list."""


def tune() -> None:
    """Collect more rarely, and not at the end of the process, which would take a fifth of a second."""
    gc.set_threshold(*_THRESHOLDS)
    atexit.register(gc.freeze)
