"""Turns in creating objects that tenants make large: a few at one time, while what is short waits for nobody.

As long as a call has no answer, its text is in memory, with copies on its way to the socket, and any number of workers
may make such calls while the API server hangs.

Invariant: of what is created within `turn`, `AT_ONCE` objects that may be large are in memory as text.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Final

from tollbar.model.ask import Get
from tollbar.model.objects import Object
from tollbar.runtime.footprint import footprint

AT_ONCE: Final = 8
"""Objects.  The API server takes 1.5 MB of text, which is there some five times while it is sent."""
SHORT: Final = 64 * 1024
"""Bytes of memory that an object takes at most which waits for no turn."""


def turn(creating: asyncio.Semaphore, given: Object | Get) -> AbstractAsyncContextManager[None]:
    """Within it this object may be created, or what is made of the answer to the question, which may be large.

    `creating` is what all who create in a process share (`Manager.creating`).  Nobody may wait for it within
    `Manager.reading`.
    """
    return nullcontext() if isinstance(given, dict) and footprint(given) <= SHORT else creating
