"""Free ports on loopback, for processes that have to be given one.

A port is free when it is chosen; another process may take it before it is used.
"""

import secrets
import socket
from contextlib import ExitStack, suppress
from typing import Final

HOST: Final = "127.0.0.1"
_RANGE: Final = range(20_000, 30_000)
"""Below every usual range of ephemeral ports, so that no outgoing connection takes one while nobody listens."""


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now; all are bound until the last one is known, so they differ."""
    chosen: list[int] = []
    with ExitStack() as held:
        while len(chosen) < count:
            candidate = held.enter_context(socket.socket())
            port = _RANGE.start + secrets.randbelow(len(_RANGE))
            with suppress(OSError):
                candidate.bind((HOST, port))
                chosen.append(port)
    return chosen
