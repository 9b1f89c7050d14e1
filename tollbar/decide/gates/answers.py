"""What a gate says of a Pod: hold it, release it with these changes, or leave it alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tollbar.model.objects import Object
from tollbar.model.plan import Event, Reason


@dataclass(frozen=True, slots=True)
class Mutation:
    """What changes in the Pod beside its gate: only what the API server allows while a Pod is gated (KEP-3838).

    `tolerations` are appended, `node_selector` is added to `spec.nodeSelector`.  `required` are
    NodeSelectorRequirements that every term of the required node affinity gets, so that fewer Nodes are left;
    `preferred` are PreferredSchedulingTerms that are appended.  `labels` and `annotations` are set.  False when it
    changes nothing.
    """

    tolerations: tuple[Object, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[Object, ...] = ()
    preferred: tuple[Object, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(
            self.tolerations or self.node_selector or self.required or self.preferred or self.labels or self.annotations
        )


NOTHING: Mutation = Mutation()


@dataclass(frozen=True, slots=True)
class Release:
    """The gate comes off, with this change; at creation, the Pod gets the change and no gate.

    `gives` says for a person what the change is (`the zone of its team`), `because` why, for the log; `events` go with
    the release, `warnings` to whoever creates the Pod if it is decided then.
    """

    mutation: Mutation = NOTHING
    gives: str = "its changes"
    because: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def changes(self) -> object:
        """What other admission may refuse while it allows the release as such; false when that is nothing."""
        return self.mutation


@dataclass(frozen=True, slots=True)
class Hold:
    """The Pod waits for the `subject` (`ConfigMap ml/zone`), for a `reason` in one CamelCase word (`ZoneMissing`).

    Neither is empty.  Of a reason that is a `Code`, `tollbar explain` shows the meaning as what to do.  `otherwise` is
    the release at maxHold if nothing has come until then, where the SchedulingGate says Release.  `again` is in how
    many seconds the class, or its ledger, is asked anew though nothing has changed; inf for never.
    """

    reason: str
    subject: str
    otherwise: Release = Release()
    again: float = math.inf


@dataclass(frozen=True, slots=True)
class NotMine:
    """The gate has no business with this Pod: it gets no gate, and one that it has comes off."""


Answer: TypeAlias = Hold | Release | NotMine
