"""The webhook process: `python -m webhooks`, or `tollbar webhook`.

Puts the parts together: caches and what fills them, the serving certificate, the admission server.  Any number of
replicas may run; each answers from its own caches and none of them writes.

Hazard: nothing here retries for the API server's sake.  It ignores a webhook that does not answer, and what was missed
is repaired by the controllers.
"""

import asyncio
import logging
import random
import sys
from collections.abc import Sequence
from typing import Final

import tollbar
from tollbar import cel
from tollbar.api.webhooks import PODS_PATH, RULES_PATH
from tollbar.runtime import log, manager, options
from tollbar.runtime.client import Client
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.config import Address, Configuration
from tollbar.runtime.errors import KubeconfigError
from tollbar.runtime.health import Health, LoopLag
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.service import Background, Service
from tollbar.views.caches import Caches
from tollbar.views.reflectors import Reflectors
from webhooks.pods import PodHandler
from webhooks.rules import RulesHandler
from webhooks.server import AdmissionServer
from webhooks.tls import Certificate

_log: Final = logging.getLogger(__name__)

_USER_AGENT: Final = f"tollbar-webhook/{tollbar.__version__}"


def assemble(configuration: Configuration, client: Client, metrics: Metrics) -> Sequence[Sequence[Service]]:
    """The services of this process, in the order in which they start; they stop in reverse."""
    clock = SystemClock()
    metrics.gauge("tollbar_build_info").labels(tollbar.__version__).set(1)
    engine = cel.engine(configuration.cel_engine)
    caches = Caches(
        engine=engine,
        managed_namespaces=configuration.managed_namespace_selector,
        system_namespace=configuration.system_namespace,
    )
    reflectors = Reflectors(client, caches.stores, clock=clock, rng=random.Random(), metrics=metrics)
    serving = configuration.webhook
    certificate = Certificate(serving.cert_file, serving.key_file, clock=clock, metrics=metrics)
    server = AdmissionServer(
        Address("", serving.port),
        certificate.context,
        {
            PODS_PATH: PodHandler(caches, engine=engine, mode=configuration.admission, metrics=metrics),
            RULES_PATH: RulesHandler(caches, engine=engine),
        },
        clock=clock,
        metrics=metrics,
    )
    lag = LoopLag(clock)
    health = Health(metrics)
    health.alive("event-loop", lag.check)
    health.ready("caches", reflectors.unsynced)
    health.ready("watches", reflectors.silent)
    health.ready("certificate", certificate.problem)
    return (
        (*health.servers(configuration.health.bind_address, configuration.metrics.bind_address), lag),
        (Background("reflectors", reflectors.run), Background("certificate", certificate.run)),
        (server,),
        (health.readiness,),
    )


async def _process(configuration: Configuration, kubeconfig: str | None) -> int:
    metrics = Metrics()
    connection = configuration.client_connection
    client = await Client.connect(
        kubeconfig=kubeconfig,
        qps=connection.qps,
        burst=connection.burst,
        in_flight=connection.in_flight,
        metrics=metrics,
        user_agent=_USER_AGENT,
    )
    try:
        return await manager.run(assemble(configuration, client, metrics))
    finally:
        await client.close()


def run(configuration: Configuration, kubeconfig: str | None) -> int:
    """Run until SIGTERM or SIGINT.  0 then, 1 when a part failed or there is no way to the API server."""
    log.configure(configuration.log.format, configuration.log.verbosity)
    try:
        return asyncio.run(_process(configuration, kubeconfig))
    except KubeconfigError as error:
        _log.error("no way to the API server", extra={"error": str(error)})
        return 1


command = options.command(
    "webhook",
    run,
    help="Run the admission webhook: tolerate or gate Pods as they are created, check rules as they are written.",
    flags=(*options.SERVING, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
