"""The webhook process: `python -m webhooks`, or `tollbar webhook`.

Puts the parts together: caches and what fills them, the serving certificate, the admission server.  Any number of
replicas may run; each answers from its own caches and none of them writes.

Hazard: nothing here retries for the API server's sake.  It ignores a webhook that does not answer, and what was missed
is repaired by the controllers.
"""

import random
import sys
from collections.abc import Sequence
from functools import partial

from tollbar import cel
from tollbar.api.webhooks import PODS_PATH, RULES_PATH
from tollbar.runtime import options, process
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.config import Address, Configuration
from tollbar.runtime.health import Health, LoopLag
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.process import Connect
from tollbar.runtime.service import Background, Service
from tollbar.views.caches import Caches
from tollbar.views.reflectors import Reflectors
from webhooks.pods import PodHandler
from webhooks.rules import RulesHandler
from webhooks.server import AdmissionServer
from webhooks.tls import Certificate


async def assemble(configuration: Configuration, metrics: Metrics, connect: Connect) -> Sequence[Sequence[Service]]:
    """The services of this process, in the order in which they start; they stop in reverse."""
    clock = SystemClock()
    engine = cel.engine(configuration.cel_engine)
    caches = Caches(
        engine=engine,
        managed_namespaces=configuration.managed_namespace_selector,
        system_namespace=configuration.system_namespace,
    )
    reflectors = Reflectors(await connect(), caches.stores, clock=clock, rng=random.Random(), metrics=metrics)
    serving = configuration.webhook
    certificate = Certificate(serving.cert_file, serving.key_file, clock=clock, metrics=metrics)
    server = AdmissionServer(
        Address(serving.host, serving.port),
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


command = options.command(
    "webhook",
    partial(process.run, "webhook", assemble),
    help="Run the admission webhook: tolerate or gate Pods as they are created, check rules as they are written.",
    flags=(*options.SERVING, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
