"""Clocks that tests move by hand.  Sleeping on them is sleeping on the event loop."""

from objects.builders import CREATED

from tollbar.runtime.clock import SystemClock


class Aged(SystemClock):
    """Wall time: `age` seconds after what `objects.builders` makes was created."""

    def __init__(self, age: float = 1.0) -> None:
        self.age = age

    def now(self) -> float:
        return CREATED + self.age


class Hand(SystemClock):
    """Monotonic time: so many `seconds`."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds
