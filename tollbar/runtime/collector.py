"""Settings of Python's cyclic garbage collector for a process whose caches are large and live long.

A collection stops the event loop, for up to a microsecond for each object that it examines where there are many.  So
the young generations are collected often, while they are small, and all generations rarely.
"""

import atexit
import gc
import time
from typing import Final

_FILLING: Final = (10_000, 5_000, 1_000)
"""While caches are filled, objects that get old are those of the caches and are not garbage; a full collection, which
would look at all of them, takes a second or more."""
_FILLED: Final = (10_000, 2, 1_000_000)
"""The last number keeps the interpreter from full collections, towards which every call of `look` counts."""
_ALL_EVERY: Final = 1800.0
"""Seconds between full collections.  One takes up to a second where many objects in the caches have been replaced.
Closed connections refer to themselves: those that have outlived a young collection are freed only by a full one."""
_looked_at = 0.0
"""When the last full collection was, on the monotonic clock, in seconds."""


def tune() -> None:
    """Collect the young generations alone while caches are filled, and nothing at the end of the process."""
    gc.set_threshold(*_FILLING)
    atexit.register(gc.freeze)


def leave_alone() -> None:
    """Exclude the objects that there are now, which are the caches, from all collections; `look` collects from now on.

    Those among them that are replaced are freed as ever, unless they refer to one another in a circle.
    """
    global _looked_at
    gc.freeze()
    gc.set_threshold(*_FILLED)
    _looked_at = time.monotonic()


def look() -> None:
    """Collect the young generations, and all of them once in `_ALL_EVERY` seconds.

    Call it when some objects in the caches have been replaced, and every minute: the interpreter counts what is made
    less what is freed, so that by itself it would collect only once there are very many young objects, and all of them
    never.  Does nothing before `leave_alone`, while everything that has been listed is young.
    """
    global _looked_at
    if gc.get_threshold() != _FILLED:
        return
    now = time.monotonic()
    is_due = now - _looked_at >= _ALL_EVERY
    if is_due:
        _looked_at = now
    gc.collect(2 if is_due else 1)
