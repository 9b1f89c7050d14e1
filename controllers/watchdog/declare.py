"""Declares a gate that this process releases: creates a SchedulingGate when the cluster has none for it.

Runs once for each, when the process becomes leader.  The manifests cannot contain the object because they contain its
CRD (decision 0007), which may be installed after the process.

Invariants: an existing object is never changed, whoever wrote it; errors here do not affect the controllers.

Hazards: it is not created again while the process runs.  After its deletion the defaults of the gate apply, which are
the same, until the next start; the `protective-gates` policies, which read it, protect nothing meanwhile.  Doubled, the
second creation fails with AlreadyExists.
"""

import logging
from typing import Final

from tollbar.model.objects import Object
from tollbar.runtime.client import Client
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import AlreadyExists, ApiError, NotFound
from tollbar.runtime.retry import WRITE
from tollbar.runtime.store import Store

_log: Final = logging.getLogger(__name__)

RETRY: Final = 10.0
"""Seconds until the creation is tried again when the CRD is not there."""


async def declare(client: Client, gates: Store, gate: Object, clock: Clock) -> None:
    """Create this SchedulingGate unless the cache has one for its gate.

    Tries again while the kind is not served.
    """
    await gates.synced.wait()
    while not gates.by_index("gate-name", gate["spec"]["gateName"]):
        try:
            await WRITE(client.create, gates.resource, gate)
        except NotFound:
            await clock.sleep(RETRY)
            continue
        except AlreadyExists:
            return  # the watch has not shown it yet
        except ApiError as error:
            _log.warning("the gate is not declared, the defaults apply", extra={"error": str(error)})
            return
        owners = ", ".join(gate["spec"]["owners"])
        _log.info("declared the gate", extra={"object": gate["metadata"]["name"], "owner": owners})
        return
