"""The controllers process: `python -m controllers`, or `tollbar controllers`.

Each controller is one folder, whose `setup` declares its watches, its stores and its reconcile function.  State that
several of them share is created here.
"""

import sys
from functools import partial

from controllers import certificates, claims, gates, mode, placement, quotas, reservations, rules, swaps, watchdog
from tollbar import wellknown
from tollbar.gates import controller, registry
from tollbar.gates.placement import PlacementGate
from tollbar.gates.quota import PodQuotas
from tollbar.model.gates import released_text
from tollbar.runtime import options, process
from tollbar.runtime.detection import KeptTolerations, user_name
from tollbar.runtime.manager import Manager
from tollbar.views import kinds
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.gatherer import Gatherer
from tollbar.views.matches import Matches
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover


async def setup(manager: Manager) -> None:
    """Set up all controllers of the configured mode."""
    gatherer = Gatherer(manager.caches.store, manager.configuration)
    matches = Matches(manager.caches.store(kinds.PENDING_PODS))
    gates.setup(manager, gatherer, matches)
    classes = registry.enabled(manager.configuration.gates)
    manager.lease_annotations[wellknown.ANNOTATION_GATES] = released_text(each.name for each in classes)
    for each in classes:
        controller.setup(manager, gatherer, each)
        if isinstance(each, PodQuotas):
            quotas.setup(manager, each.quota_ledger)
        if isinstance(each, PlacementGate):
            placement.setup(manager)
    kept = KeptTolerations(manager.client, manager.clock, manager.configuration.system_namespace)
    kept.changes.subscribe(partial(_say, manager.lease_annotations))
    manager.leads("kept tolerations", kept.run)
    rules.setup(manager, gatherer, matches, kept)
    watchdog.setup(manager, await user_name(manager.client), classes)
    if manager.configuration.certificates.managed:
        certificates.setup(manager)
    states = ReservationStates(manager.metrics)
    if manager.configuration.claims == "Disabled":
        mode.disabled(manager)
        return
    tolerations = DeviceTolerations(gatherer, manager.metrics, kept.kept)
    takeover = Takeover() if manager.configuration.claims == "Replace" else None
    oscillations = Oscillations(manager.caches.store(kinds.CLAIMS_WITH_STATUS), manager.clock)
    if takeover is not None:
        claims.setup(manager, takeover, tolerations)
    reservations.setup(manager, takeover, states, oscillations, tolerations)
    swaps.setup(manager, gatherer)
    mode.setup(manager, takeover, states, oscillations)


def _say(annotations: dict[str, str], kept: bool) -> None:
    """On the Lease, for the webhook."""
    annotations[wellknown.ANNOTATION_DEVICE_TOLERATIONS] = wellknown.KEPT if kept else wellknown.DROPPED


command = options.command(
    "controllers",
    partial(process.run, "controllers", setup),
    load=registry.load,
    help="Run the controllers: release gated Pods, add tolerations late, report on rules.",
    flags=(*options.LEADING, *options.COMMON),
)

if __name__ == "__main__":
    sys.exit(command())
