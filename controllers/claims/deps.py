"""What the workers of the claims controller share."""

from dataclasses import dataclass

from controllers.claims.competing import CompetingGenerators
from controllers.claims.unseen import UnseenClaims
from tollbar.runtime.asking import Asker
from tollbar.runtime.events import Recorder
from tollbar.runtime.manager import Manager
from tollbar.runtime.store import Store
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.lookup import ClaimLookup
from tollbar.views.takeover import Takeover


@dataclass(frozen=True, slots=True)
class Deps:
    """`pending` has the Pods without a node as they are, with their annotations."""

    manager: Manager
    lookup: ClaimLookup
    unseen: UnseenClaims
    competing: CompetingGenerators
    asker: Asker
    pending: Store
    recorder: Recorder
    takeover: Takeover
    tolerations: DeviceTolerations
