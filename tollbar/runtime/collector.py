"""The garbage collector of a process whose caches are large and live long.

The event loop stands still while it looks at objects, which takes up to a microsecond for each where they are many and
were made a while ago.  So it looks at few at a time, soon after they were made, and all the more rarely at all of them.
"""

import atexit
import gc
import time
from typing import Final

_FILLING: Final = (10_000, 5_000, 1_000)
"""While caches are filled, objects that get old are those of the caches and are not garbage; a full collection, which
would look at all of them, takes a second or more."""
_FILLED: Final = (10_000, 2, 1_000_000)
"""By itself practically never at all objects, towards which each call of `look` would count."""
_ALL_EVERY: Final = 1800.0
"""Seconds from one look at all objects to the next, where there is something to look at: it takes up to a second where
many have been replaced.  What refers to itself, as connections do that strangers have opened and closed, stays until
then."""


def tune() -> None:
    """Collect young objects alone; nothing at the end of the process, which would only take time."""
    gc.set_threshold(*_FILLING)
    atexit.register(gc.freeze)


class _Looked:
    at = 0.0
    """When all objects were last looked at; on the monotonic clock, in seconds."""


def leave_alone() -> None:
    """Never look again at the objects that there are now, which are the caches, and then collect as usual.

    Those among them that are replaced are freed as ever, unless they refer to one another in a circle.
    """
    gc.freeze()
    gc.set_threshold(*_FILLED)
    _Looked.at = time.monotonic()


def look() -> None:
    """Look at the young objects now, and once in `_ALL_EVERY` seconds at all that are not left alone.

    Call it when some objects in the caches have been replaced.
    The interpreter counts what is made less what is freed, so that by itself it would look once there are very many.
    While caches are filled it does nothing: all that has been listed is young then.
    """
    if gc.get_threshold() != _FILLED:
        return
    now = time.monotonic()
    is_due = now - _Looked.at >= _ALL_EVERY
    if is_due:
        _Looked.at = now
    gc.collect(2 if is_due else 1)
