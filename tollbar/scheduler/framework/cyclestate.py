"""What plugins remember from one extension point to the next, for one Pod in one scheduling cycle."""

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """Values by key, by convention the name of the plugin that wrote them.

    `skip_filter` and `skip_score` name the plugins whose PreFilter or PreScore returned Skip, `skip_pre_bind` and
    `parallel_pre_bind` those whose PreBindPreFlight returned Skip or allowed others beside it.  `record_metrics` says
    whether each plugin is timed in this cycle.
    """

    def __init__(self) -> None:
        self.skip_filter: frozenset[str] = frozenset()
        self.skip_score: frozenset[str] = frozenset()
        self.skip_pre_bind: frozenset[str] = frozenset()
        self.parallel_pre_bind: frozenset[str] = frozenset()
        self.record_metrics = False
        self._values: dict[str, Any] = {}

    def write(self, key: str, value: object) -> None:
        self._values[key] = value

    def read(self, key: str, kind: type[T]) -> T | None:
        """The value of this key if it is of this kind."""
        value = self._values.get(key)
        return value if isinstance(value, kind) else None

    def get(self, key: str, kind: type[T]) -> T:
        """The value of this key.  KeyError if none of this kind was written: the extension point before was skipped."""
        value = self.read(key, kind)
        if value is None:
            raise KeyError(key)
        return value

    def clone(self) -> "CycleState":
        """A copy for one trial of preemption: values with a method `clone` are copies as well, all others are shared.

        Those are the values that `add_pod` and `remove_pod` change.
        """
        copied = CycleState()
        copied.skip_filter, copied.skip_score = self.skip_filter, self.skip_score
        copied._values = {key: v.clone() if hasattr(v, "clone") else v for key, v in self._values.items()}
        return copied
