"""What the workers of the claims controller share."""

from dataclasses import dataclass

from controllers.claims.unseen import UnseenClaims
from tollbar.runtime.asking import Asker
from tollbar.runtime.client import Client
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.store import Store
from tollbar.views.lookup import ClaimLookup
from tollbar.views.takeover import Takeover


@dataclass(frozen=True, slots=True)
class Deps:
    """`pending` has the Pods without a node as they are, with their annotations; `instance` names this process."""

    client: Client
    lookup: ClaimLookup
    unseen: UnseenClaims
    asker: Asker
    pending: Store
    recorder: Recorder
    metrics: Metrics
    takeover: Takeover
    instance: str
