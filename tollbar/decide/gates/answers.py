"""The answers of a gate for a Pod: hold it, release it with these changes, or leave it alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tollbar.model.objects import Object
from tollbar.model.plan import Event, Reason


@dataclass(frozen=True, slots=True)
class Mutation:
    """Changes of the Pod besides its gate: only those that the API server allows while a Pod is gated (KEP-3838).

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
    """The gate is removed, with this change; at creation, the Pod gets the change and no gate.

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
    the release at maxHold if the Pod is still held then and the SchedulingGate says Release.  `again` is the number of
    seconds after which the class, or its ledger, is asked again although nothing has changed; inf for never.
    """

    reason: str
    subject: str
    otherwise: Release = Release()
    again: float = math.inf


@dataclass(frozen=True, slots=True)
class NotMine:
    """The gate is not for this Pod: the Pod gets no gate, and one that it has is removed."""


Answer: TypeAlias = Hold | Release | NotMine
