"""What a gate controller is: one class that says of a Pod whether to hold it, and what it reads for that.

    class Zone(Gate):
        name = "example.com/zone"
        reads = (Reads(CONFIG_MAPS, lambda pod: [Key(key_of(pod).namespace, "zone")]),)

        def decide(self, facts: Facts) -> Answer:
            ...

What a gate declares to read for a Pod is all that it is given, and all that wakes the Pod: a decision cannot miss a
change of what it was made by.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Literal

from tollbar.api import durations
from tollbar.decide.gates.answers import Answer
from tollbar.gates.telling import Copy, Told
from tollbar.model.objects import Key, Object
from tollbar.runtime.caches import Cached
from tollbar.runtime.manager import Manager
from tollbar.runtime.source import Channel


@dataclass(frozen=True, slots=True)
class Reads:
    """Which objects of one kind the decision about a Pod reads.

    `of_pod` returns for a Pod the keys of these objects, or with `by` the values under which the index of that name of
    `cached` has them.  It depends on the Pod alone.  An object that is not there is waited for.
    """

    cached: Cached
    of_pod: Callable[[Object], Iterable[Hashable]]
    by: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a decision is made by.

    `pod` at its creation has no uid, no status, and with generateName no name; `namespace` is the Namespace object,
    of which there is the metadata only.
    """

    pod: Object
    namespace: Object
    at_admission: bool
    objects: Mapping[str, Sequence[Object]]
    """By the name of their `Cached`."""

    def of(self, cached: Cached) -> Sequence[Object]:
        """The objects that `reads` names for this Pod, those that exist.  KeyError for a kind that is not declared."""
        return self.objects[cached.name]


class Ledger(ABC):
    """What the leader decides about many Pods at once, such as which of them fit into a quota.

    It has stores and watches of its own, and decides about all of them in one go, without awaiting: what it grants one
    Pod is taken from what is left for the next, long before the cache shows the release.

    The names of the methods below and `changed` are taken: a subclass uses them for nothing else.
    """

    def __init__(self) -> None:
        self.changed = Channel[Key]("ledger", self.may_go)
        """Pods about which `decide` may say something else from now on: each is looked at again, before all others."""

    async def begun(self) -> None:  # noqa: B027  # most ledgers know at once
        """Return once `decide` knows what to say, after the process has begun to lead; by default at once.

        No Pod is looked at before, but for at most ten seconds: looking at each of them twice would delay what the
        ledger waits for.  A ledger of few Pods may begin at once, hold them, and send them to `changed` when it knows.
        One that raises counts as begun.
        """

    def may_go(self) -> Iterable[Key]:
        """Pods that are let go and held yet: they are looked at before all others when the process begins to lead.

        What it raises is logged, and the Pods are looked at in any order.
        """
        return ()

    @abstractmethod
    def decide(self, facts: Facts) -> Answer:
        """What is to become of a Pod that has the gate; as `Gate.decide`, in whose place it stands."""

    def sending(self, _pod: Object) -> AbstractContextManager[None]:
        """Around the patch that releases a Pod, which raises what the API server answers (ApiError), or CancelledError
        where this process ceases to lead before it has an answer.

        Where that is `refused`, this patch has not released the Pod.  One that was sent before and had no answer may
        have, and after a Conflict, Invalid or NotFound somebody else may have taken the gate off.  So in all other
        cases what was granted counts on until it is known what became of the Pod.
        """
        return nullcontext()


class Gate(ABC):
    """One scheduling gate (KEP-3521) and what is decided about it.  Made once in each process, without arguments."""

    name: ClassVar[str]
    """The gate in `spec.schedulingGates`: a qualified name, such as `example.com/zone`."""
    reads: ClassVar[Sequence[Reads]] = ()
    applies_to: ClassVar[str] = "true"
    """CEL over `object`, the Pod: which Pods the API server asks the webhook about (a matchCondition)."""
    max_hold: ClassVar[str | None] = None
    """Of the SchedulingGate that the controllers create: how long a Pod may be held, such as `10m`.  None: no limit."""
    on_expiry: ClassVar[Literal["Report", "Release"]] = "Report"
    """Of the same: whether a Pod is released then, as `Hold.otherwise` says, or only reported."""
    namespaces: ClassVar[Sequence[Object]] = ()
    """LabelSelectorRequirements: in which Namespaces the API server asks the webhook."""
    rights: ClassVar[Sequence[Object]] = ()
    """RBAC PolicyRules that the controllers need beside reading what `reads` names, for a ledger."""
    narrows: ClassVar[bool] = True
    """Whether a release may change node selector or node affinity: without, the component `ceiling` refuses that."""
    fails_open: ClassVar[bool] = True
    """Whether Pods are created without the gate while no webhook answers or no controller leads.  With False their
    creation fails while no webhook answers, and they wait for a controller.  Whoever writes a Pod can opt out all the
    same, with the label `tollbar.dev/skip`."""

    tells_by: ClassVar[Sequence[Cached]] = ()
    """Kinds that `tell` looks at beside Namespaces and what `reads` names."""

    @property
    def max_hold_seconds(self) -> float | None:
        return None if self.max_hold is None else durations.parse(self.max_hold)

    @abstractmethod
    def decide(self, facts: Facts) -> Answer:
        """What is to become of the Pod.  A pure function: it is called at creation and after every change of what it
        reads.

        Raises nothing; what it raises all the same is reported, and holds the Pod.
        """

    def tell(self, facts: Facts, copy: Copy) -> Told:  # noqa: ARG002
        """What `tollbar explain` says of a Pod that has the gate, on a copy of the cluster.

        For a class with a ledger: what that would decide.  Otherwise it is what `decide` answers.
        """
        return Told(self.decide(facts))

    def ledger(self, manager: Manager) -> Ledger | None:  # noqa: ARG002
        """For a class that decides about Pods together: what the leader asks in place of `decide`.

        Called once, while the controllers are set up: it declares its stores and registers what it runs.
        """
        return None
