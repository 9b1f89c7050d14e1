"""Declares our own gate: one SchedulingGate, created when the cluster has none that names it.

Called once by the controllers process, when it leads and its caches are filled, beside its loops.  The object cannot
come with the manifests: its kind does (decision 0007), and that may come after the process.

Invariants: an object that is there is never changed, whoever wrote it; nothing that goes wrong here concerns the loops.

Hazards: it is not created again while the process runs.  Who deletes it gets the built-in defaults, which are the same,
until the next start; the `protective-gates` policies, which read it, protect nothing meanwhile.  Doubled, the second
one is told that it exists.
"""

import logging
from typing import Final

from tollbar import wellknown
from tollbar.api.gates import shipped_gate
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound
from tollbar.runtime.retry import WRITE
from tollbar.runtime.store import Store

_log: Final = logging.getLogger(__name__)

RETRY: Final = 10.0
"""Seconds until the creation is tried again when the CRD is not there."""


async def declare(client: Client, gates: Store, user: str, clock: Clock) -> None:
    """Create the shipped SchedulingGate, owned by `user`, unless one of the (filled) cache is about our gate.

    Tries again while the kind is not served.
    """
    gate = shipped_gate(owners=(user,))
    while not gates.by_index("gate-name", wellknown.GATE):
        try:
            await WRITE(client.create, gates.resource, gate)
        except NotFound:
            await clock.sleep(RETRY)
            continue
        except AlreadyExists:
            return  # by somebody who was quicker than our watch
        except ApiError as error:
            _log.warning("the gate is not declared, the defaults apply", extra={"error": str(error)})
            return
        _log.info("declared the gate", extra={"object": gate["metadata"]["name"], "owner": user})
        return
