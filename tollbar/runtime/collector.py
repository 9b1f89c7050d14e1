"""The garbage collector of a process whose caches are large and live long.

The event loop stands still while it looks at objects, which takes up to a microsecond for each where they are many and
were made a while ago.  So it looks at few at a time, soon after they were made, and all the more rarely at all of them.
"""

import atexit
import gc
from typing import Final

_FILLING: Final = (10_000, 5_000, 1_000)
"""While caches are filled, objects that get old are those of the caches and are not garbage; a full collection, which
would look at all of them, takes a second or more."""
_FILLED: Final = (10_000, 2, 10_000)


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


def look() -> None:
    """Look at the young objects now; call it when some objects in the caches have been replaced.

    The interpreter counts what is made less what is freed, so that by itself it would look once there are very many.
    """
    gc.collect(1)
