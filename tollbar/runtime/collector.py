"""The garbage collector of a process whose caches are large and live long.

The event loop stands still while it looks at objects, about a microsecond for each in a large process.  So it looks at
few at a time, the young ones, and all the more rarely at all of them.
"""

import atexit
import gc
from typing import Final

_FILLING: Final = (10_000, 5_000, 1_000)
"""While caches are filled, objects that get old are those of the caches and are not garbage; a full collection, which
would look at all of them, takes a second or more."""
_FILLED: Final = (2_000, 2, 50_000)


def tune() -> None:
    """Collect young objects alone; nothing at the end of the process, which would only take time."""
    gc.set_threshold(*_FILLING)
    atexit.register(gc.freeze)


def leave_alone() -> None:
    """Never look again at the objects that there are now, which are the caches, and then collect as usual.

    Those among them that are replaced are freed as ever, unless they refer to one another in a circle.
    """
    gc.freeze()
    gc.set_threshold(*_FILLED)
