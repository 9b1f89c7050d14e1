"""The garbage collector of a process whose caches are large and live long."""

import atexit
import gc
from typing import Final

_FILLING: Final = (50_000, 1_000, 1_000)
"""While caches are filled, objects that get old are those of the caches and are not garbage; a full collection, which
would look at all of them, takes a second or more."""
_FILLED: Final = (50_000, 5, 1_000)


def tune() -> None:
    """Collect more rarely and young objects alone; nothing at the end of the process, which would only take time."""
    gc.set_threshold(*_FILLING)
    atexit.register(gc.freeze)


def leave_alone() -> None:
    """Never look again at the objects that there are now, which are the caches, and then collect as usual.

    Those among them that are replaced are freed as ever, unless they refer to one another in a circle.
    """
    gc.freeze()
    gc.set_threshold(*_FILLED)
