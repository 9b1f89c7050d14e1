"""Mode: reports on the Lease which claims mode is active, and whether it fits the cluster.

Hazard: down or behind, the report on the Lease is stale.
"""

from functools import partial

from controllers.mode.condition import Generators, LeaseCondition, Observed
from tollbar.runtime.manager import Manager
from tollbar.views import kinds
from tollbar.views.oscillations import Oscillations
from tollbar.views.reservations import ReservationStates
from tollbar.views.takeover import Takeover


def disabled(manager: Manager) -> None:
    """Report on the Lease that the mode is Disabled."""
    LeaseCondition(manager.configuration.claims, manager.lease_annotations, manager.clock)


def setup(manager: Manager, takeover: Takeover | None, states: ReservationStates, oscillations: Oscillations) -> None:
    """Runs periodically, not after events."""
    store = manager.caches.store
    condition = LeaseCondition(manager.configuration.claims, manager.lease_annotations, manager.clock)
    observed = Observed(store(kinds.PENDING_PODS), store(kinds.TEMPLATES), states, oscillations, takeover)
    generators = Generators(store(kinds.CLAIMS_WITH_STATUS))
    manager.leads("claims mode", partial(condition.run, manager.client, observed, generators))
