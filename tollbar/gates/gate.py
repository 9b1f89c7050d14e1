"""The base class of a gate: it decides whether a Pod is held, and declares which objects it reads for that.

    class Zone(Gate):
        name = "example.com/zone"
        reads = (Reads(CONFIG_MAPS, lambda pod: [Key(key_of(pod).namespace, "zone")]),)

        def decide(self, facts: Facts) -> Answer:
            ...

A decision gets the declared objects and no others, and the Pod is decided again when one of them changes: so no
decision is based on objects whose changes are missed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

from tollbar.api import durations
from tollbar.decide.gates.answers import Answer
from tollbar.gates.explanation import ClusterCopy, GateExplanation
from tollbar.model.objects import Key, Object
from tollbar.runtime.caches import Cached
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Channel


@dataclass(frozen=True, slots=True)
class Reads:
    """Which objects of one kind the decision about a Pod reads.

    `of_pod` returns for a Pod the keys of these objects, or with `by` the values under which the index of that name of
    `cached` has them.  It depends on the Pod alone.  The Pod is also decided again when a missing object appears.
    """

    cached: Cached
    of_pod: Callable[[Object], Iterable[Hashable]]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The input of a decision.

    At its creation `pod` has no uid, no status, and with generateName no name.  `namespace` is the Namespace object,
    with its metadata only.
    """

    pod: Object
    namespace: Object
    at_admission: bool
    objects: Mapping[str, Sequence[Object]]
    """By the name of their `Cached`."""

    def of(self, cached: Cached) -> Sequence[Object]:
        """The existing objects that `reads` names for this Pod.  Raises KeyError for a kind that is not declared."""
        return self.objects[cached.name]


class Ledger(ABC):
    """Decides about many Pods together, in the leading process: for example which of them fit into a quota.

    It has stores and watches of its own, and decides without awaiting: a release counts at once for the next Pod,
    before the cache shows it.

    A subclass must not use the names of the methods below, and `changed`, for anything else.
    """

    def __init__(self) -> None:
        self.changed = Channel[Key]("ledger", self.may_go)
        """Pods for which the answer of `decide` may have changed: they are decided again, before all others."""

    async def begun(self) -> None:  # noqa: B027  # most ledgers know at once
        """Return when `decide` can decide, after the process has begun to lead; by default at once.

        Until then, and for at most ten seconds, no Pod is decided: to decide each of them twice would delay what the
        ledger waits for.  A ledger of few Pods may return at once, hold the Pods, and send them to `changed` later.  If
        it raises, it counts as begun.
        """

    def may_go(self) -> Iterable[Key]:
        """Pods that have the gate and may be released: they are decided first when the process begins to lead.

        An exception is logged, and the Pods are then decided in any order.
        """
        return ()

    @abstractmethod
    def decide(self, facts: Facts) -> Answer:
        """The answer for a Pod that has the gate.  It is called in place of `Gate.decide`."""

    def sending(self, _pod: Object) -> AbstractContextManager[None]:
        """A context around the patch that releases a Pod.

        The patch raises ApiError when the API server answers with an error, and CancelledError when this process ceases
        to lead before there is an answer.  After an error that is `refused`, this patch has not released the Pod.
        After any other error the Pod may have been released, by an earlier patch without an answer or by another
        client: the release has to count until it is known whether it took place.
        """
        return nullcontext()


class Gate(ABC):
    """One scheduling gate (KEP-3521) and its decision.  One instance is made in each process, without arguments."""

    name: ClassVar[str]
    """The gate in `spec.schedulingGates`: a qualified name, such as `example.com/zone`."""
    reads: ClassVar[Sequence[Reads]] = ()
    """What `decide` reads besides the Pod and its Namespace."""
    applies_to: ClassVar[str] = "true"
    """CEL over `object`, the Pod: for which Pods the API server calls the webhook (a matchCondition)."""
    max_hold: ClassVar[str | None] = None
    """`spec.maxHold` of the SchedulingGate that the controllers create, such as `10m`.  None: no limit."""
    on_expiry: ClassVar[Literal["Report", "Release"]] = "Report"
    """`spec.onExpiry` of that SchedulingGate: after `max_hold` a Pod is released, as `Hold.otherwise` says, or
    reported."""
    namespaces: ClassVar[Sequence[Object]] = ()
    """LabelSelectorRequirements: for Pods of which Namespaces the API server calls the webhook."""
    rights: ClassVar[Sequence[Object]] = ()
    """RBAC PolicyRules that the controllers need beside reading what `reads` names, for a ledger."""
    narrows: ClassVar[bool] = True
    """Whether a release may change node selector or node affinity.  With False, the component `ceiling` refuses
    that."""
    fails_open: ClassVar[bool] = True
    """Whether Pods are created without the gate while no webhook answers or no controller leads.  With False their
    creation fails while no webhook answers, and they wait for a controller.  A user can still opt a Pod out, with the
    label `tollbar.dev/skip`."""

    explain_reads: ClassVar[Sequence[Cached]] = ()
    """Kinds that `explain` reads besides Namespaces and what `reads` names."""

    @property
    def max_hold_seconds(self) -> float | None:
        """`max_hold` in seconds; None without a limit.  Raises ValueError for what is no duration."""
        return None if self.max_hold is None else durations.parse(self.max_hold)

    @abstractmethod
    def decide(self, facts: Facts) -> Answer:
        """The answer for the Pod.  A pure function, called when the Pod is created and when something that it reads
        changes.

        It should raise nothing: an exception is reported, and holds the Pod.
        """

    def explain(self, facts: Facts, copy: ClusterCopy) -> GateExplanation:  # noqa: ARG002
        """What `tollbar explain` shows for a Pod that has the gate, decided on a copy of the cluster.

        By default the answer of `decide`.  A class with a ledger returns here what the ledger would decide.
        """
        return GateExplanation(self.decide(facts))

    def ledger(self, manager: Manager) -> Ledger | None:  # noqa: ARG002
        """The ledger of a class that decides about Pods together: the leader calls it in place of `decide`.

        Called once, while the controllers are set up, so that the ledger can declare its stores and tasks.
        """
        return None
