"""The answer of a plugin, as kube-scheduler's framework.Status.

Success is `None` everywhere: a plugin returns a Status only when it has something to say.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

T = TypeVar("T")


class Code(Enum):
    """What a call of a plugin came to; the values are upstream's names, which metrics show."""

    SUCCESS = "Success"
    ERROR = "Error"
    """An internal error: the cycle ends, and the Pod is tried again after a back-off."""
    UNSCHEDULABLE = "Unschedulable"
    """Not now: preemption, or an event, may help."""
    UNSCHEDULABLE_AND_UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """Preemption on that Node cannot help."""
    WAIT = "Wait"
    """Of Permit alone: the binding waits until the plugins that said so allow it."""
    SKIP = "Skip"
    """There is nothing to do: of PreFilter and PreScore, so that Filter and Score are not called; of Bind, so that the
    next plugin is asked; of PreBindPreFlight, so that PreBind is not called."""
    PENDING = "Pending"
    """Rejected until something outside the scheduler happens; tried again without back-off when a hint says so."""

    __hash__ = object.__hash__
    """There is one object for each code; the hash of an Enum is a call of Python code."""


REJECTED = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})


@dataclass(frozen=True, slots=True)
class Status:
    """`plugin` names the plugin that has returned it; the framework sets it."""

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    error: Exception | None = field(default=None, compare=False)
    """The exception behind an internal error, where there is one; it does not count when Statuses are compared."""

    @property
    def message(self) -> str:
        return ", ".join(self.reasons)

    @property
    def is_rejected(self) -> bool:
        """Whether the Pod was refused, not broken: Unschedulable, UnschedulableAndUnresolvable or Pending."""
        return self.code in REJECTED

    def with_plugin(self, plugin: str) -> "Status":
        """The same in the name of this plugin; a Status that names a plugin already is returned as it is."""
        return self if self.plugin else Status(self.code, self.reasons, plugin, self.error)


SKIP = Status(Code.SKIP)
NOT_CONCERNED = Status(Code.SKIP)
"""Skip, for this Pod and for every Pod with the same `pod.spec`, whatever its labels: PreFilter or PreScore need not be
called again.  `pod.spec` has the fields that scheduling reads; a plugin that looks at `pod.object` must not return it.
"""


def unschedulable(*reasons: str) -> Status:
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """UnschedulableAndUnresolvable."""
    return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)


def failed(reason: str, error: Exception | None = None) -> Status:
    """An internal error."""
    return Status(Code.ERROR, (reason,), error=error)


def by_identity(said: Iterable[T]) -> dict[int, T]:
    """Each object once, by its `id`: thousands of Nodes share few answers, and to hash all of them takes longer."""
    return {id(each): each for each in said}
