"""What the workers of the claims controller share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from controllers.claims.view import View
from tollbar.model.objects import Key
from tollbar.runtime.client import Client
from tollbar.runtime.events import Recorder
from tollbar.runtime.metrics import Metrics


@dataclass(frozen=True, slots=True)
class Deps:
    client: Client
    view: View
    recorder: Recorder
    metrics: Metrics
    learn: Callable[[str], Awaitable[bool]]
    """`HandOver.learn`: asked before claims are created in a namespace."""
    doubtful: set[tuple[str, Key]] = field(default_factory=set)
    """Kinds and keys of Pods and PodGroups for which a claim may have been created although the answer was lost."""
