"""The webhook process: `python -m webhooks`, or `tollbar webhook`.

Any number of replicas may run; each answers from its own caches and none of them writes.

Hazard: while no replica answers, the API server admits Pods unchanged (failurePolicy Ignore); the controllers add the
tolerations late.
"""

import sys
from functools import partial

from tollbar.api.webhooks import CLAIMS_PATH, PODS_PATH, RULES_PATH, gate_path
from tollbar.gates import registry
from tollbar.gates.evaluation import GateEvaluator
from tollbar.runtime import options, process
from tollbar.runtime.config import Address
from tollbar.runtime.manager import Manager
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.gatherer import Gatherer
from tollbar.views.lease import ControllersLease
from webhooks.claims import ClaimHandler
from webhooks.gates import GateHandler
from webhooks.pods import PodHandler
from webhooks.review import Handler
from webhooks.rules import RulesHandler
from webhooks.server import AdmissionServer
from webhooks.tls import Certificate, FileCertificate, SignedCertificate


async def setup(manager: Manager) -> None:
    gatherer, lease = Gatherer(manager.caches.store, manager.configuration), ControllersLease(manager)
    clock, metrics, serving = manager.clock, manager.metrics, manager.configuration.webhook
    certificate: Certificate = (
        FileCertificate(serving.cert_file, serving.key_file, serving.client_ca_file, clock=clock, metrics=metrics)
        if serving.cert_file
        else SignedCertificate(manager)
    )
    manager.background("certificate", certificate.run)
    manager.health.ready("certificate", certificate.problem)
    handlers: dict[str, Handler] = {
        PODS_PATH: PodHandler(
            gatherer, mode=manager.configuration.admission, metrics=metrics, releasing=lease.is_renewed
        ),
        CLAIMS_PATH: ClaimHandler(DeviceTolerations(gatherer, metrics, lease.keeps_tolerations)),
        RULES_PATH: RulesHandler(gatherer, lease.keeps_tolerations),
    }
    for gate in registry.enabled(manager.configuration.gates):
        evaluator = GateEvaluator(gate, manager.caches.store, gatherer, metrics)
        releasing = partial(lease.releases, gate.name)
        handlers[gate_path(gate.name)] = GateHandler(evaluator, metrics=metrics, releasing=releasing)
    address = Address(serving.host, serving.port)
    manager.serves(AdmissionServer(address, certificate.context, handlers, clock=clock, metrics=metrics))


command = options.command(
    "webhook",
    partial(process.run, "webhook", setup),
    load=registry.load,
    help="Run the admission webhook: add tolerations to new Pods or gate them, and check rules before they are stored.",
    flags=(*options.SERVING, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
