"""Ports of loopback for processes that have to be told one.  Used for control planes, and for Tollbar's own processes.

Hazard: a port is free when it is chosen; who starts something in the same range meanwhile may take it.
"""

import secrets
import socket
from contextlib import ExitStack, suppress
from typing import Final

HOST: Final = "127.0.0.1"
_RANGE: Final = range(20_000, 30_000)
"""Below every usual range of ephemeral ports, so that no outgoing connection takes one while nobody listens."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now; all are held until the last one is known, so they differ."""
    chosen: list[int] = []
    with ExitStack() as held:
        while len(chosen) < count:
            candidate = held.enter_context(socket.socket())
            port = _RANGE.start + secrets.randbelow(len(_RANGE))
            with suppress(OSError):
                candidate.bind((HOST, port))
                chosen.append(port)
    return chosen
