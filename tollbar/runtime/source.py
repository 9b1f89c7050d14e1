"""Sources of events, predicates and mappers, as in controller-runtime: what adds keys to a controller's queue.

A source is a store, which sends every change of its objects, or a channel for events of the process itself.  A `Watch`
is one row of a controller's table: the predicate drops events that cannot change anything, the mapper returns the keys
to reconcile.
"""

import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from tollbar.model.objects import Key, Object, key_of, spec
from tollbar.runtime.workqueue import LIVE, RELIST, WorkQueue

_log: Final = logging.getLogger(__name__)

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of an object: addition (no old), update, or deletion (no new).

    `initial` is true for changes that a list found and for a replay, false for watch events.
    """

    old: Object | None
    new: Object | None
    initial: bool

    @property
    def objects(self) -> Iterable[Object]:
        """The object before and after the change, where it exists."""
        return (obj for obj in (self.old, self.new) if obj is not None)


class Source(Protocol[E_co]):
    """Something that sends events."""

    def subscribe(self, handler: Callable[[E_co], None]) -> None:
        """Call the handler with every event from now on, in the order in which they happen."""
        ...

    def replay(self, handler: Callable[[E_co], None]) -> None:
        """Call the handler with the present state, as initial events."""
        ...


class Channel(Generic[E]):
    """Events that a part of this process sends; they are not stored.  `present` returns those of the present state.

    Handlers are called one after the other and must return quickly.  An exception of one is logged, and the others
    are called all the same.  One of `present` is logged too, and ends that replay.
    """

    def __init__(self, name: str, present: Callable[[], Iterable[E]] = lambda: ()) -> None:
        self._name = name
        self._present = present
        self._handlers: list[Callable[[E], None]] = []

    def __bool__(self) -> bool:
        """Whether there are handlers."""
        return bool(self._handlers)

    def subscribe(self, handler: Callable[[E], None]) -> None:
        if handler not in self._handlers:  # who leads again subscribes again
            self._handlers.append(handler)

    def replay(self, handler: Callable[[E], None]) -> None:
        try:
            for event in self._present():
                self.call(handler, event)
        except Exception:
            _log.exception("the present state could not be told", extra={"source": self._name})

    def send(self, event: E) -> None:
        for handler in self._handlers:
            self.call(handler, event)

    def call(self, handler: Callable[[E], None], event: E) -> None:
        """Call one handler with an event; an exception is logged."""
        try:
            handler(event)
        except Exception:
            _log.exception("a handler failed", extra={"source": self._name})


def always(_event: object) -> bool:
    """The predicate that drops nothing."""
    return True


def spec_changed(delta: Delta) -> bool:
    """The predicate that drops updates which leave the spec as it is, such as writes of the status."""
    return delta.old is None or delta.new is None or spec(delta.old) != spec(delta.new)


def itself(delta: Delta) -> Iterable[Key]:
    """The mapper to the key of the object that changed."""
    return {key_of(obj) for obj in delta.objects}


def key_itself(key: K) -> Iterable[K]:
    """The mapper for a channel that sends keys."""
    return (key,)


@dataclass(frozen=True, slots=True)
class Watch(Generic[E, K]):
    """Adds the keys that `mapper` returns for the events that pass `predicate`.

    With `initial`, the objects that are there when the controller starts count as events; or it returns the keys to add
    then, where it would take long to make an event of each object.  `delay` is in seconds: the keys are added only
    then, so that one reconcile handles a whole burst.  `priority` is that of events that do not count as initial, where
    there is no delay.
    """

    source: Source[E]
    mapper: Callable[[E], Iterable[K]]
    predicate: Callable[[E], bool] = always
    initial: bool | Callable[[], Iterable[K]] = False
    delay: float = 0.0
    priority: int = LIVE

    def connect(self, queue: WorkQueue[K]) -> None:
        """Add keys to the queue from now on, with `initial` also those of the present state."""
        self.source.subscribe(self._handler(queue))
        self.replay(queue)

    def replay(self, queue: WorkQueue[K]) -> None:
        """With `initial`, add the keys of the present state again."""
        if callable(self.initial):
            self._add(queue, self.initial(), RELIST)
        elif self.initial:
            self.source.replay(self._handler(queue))

    def _handler(self, queue: WorkQueue[K]) -> Callable[[E], None]:
        def handle(event: E) -> None:
            if self.predicate(event):
                self._add(queue, self.mapper(event), RELIST if getattr(event, "initial", False) else self.priority)

        return handle

    def _add(self, queue: WorkQueue[K], keys: Iterable[K], priority: int) -> None:
        for key in keys:
            if self.delay:
                queue.add_after(key, self.delay)
            else:
                queue.add(key, priority=priority)
