"""When Pods were let go by one PodQuota of cores that shares fairly, and since when they could have been.

From the states of its Pods as a watch shows them, in the order in which they were stored.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tollbar.model.objects import Key

K = TypeVar("K", bound=Hashable)


class Sized(NamedTuple):
    """A Pod as far as the quota knows it."""

    key: Key
    cores: int
    priority: int

    @property
    def alike(self) -> "Sized":
        """Equal for Pods that the quota tells apart by their age alone."""
        return self._replace(key=self.key._replace(name=""))


class State(NamedTuple):
    """One stored state of a Pod: when it was seen, and the cores that are used from then on."""

    uid: str
    pod: Sized
    out: bool
    deleted: bool
    seen: float
    used: int


class Release(NamedTuple):
    """When it was seen, since when the Pod could have gone, and for how long it was held.

    It could go when it fitted, by its namespace's share too, and there was room for it beside all that went before it:
    what the watch shows as room may have been given to others, whose release it is yet to show.
    """

    fitted: float
    seen: float
    waited: float

    @property
    def late(self) -> float:
        return self.seen - self.fitted


def may_go(held: Mapping[K, Sized], used: Counter[str], limit: int) -> set[K]:
    """Those that fit, and bring their namespace no larger share than one that does not fit would bring its own."""
    room = limit - used.total()
    reach = {name: used[pod.key.namespace] + pod.cores for name, pod in held.items()}
    least = min((reach[name] for name, pod in held.items() if pod.cores > room), default=math.inf)
    return {name for name, pod in held.items() if pod.cores <= room and reach[name] <= least}


def releases(states: Iterable[State], limits: Sequence[tuple[float, int]]) -> Iterator[Release]:
    """`limits` are the limit of the quota by when it was written."""
    held: dict[str, Sized] = {}
    alike: Counter[Sized] = Counter()
    created: dict[str, float] = {}
    out: dict[str, Sized] = {}
    since: dict[Sized, float] = {}
    """By what Pods have in common that are alike."""
    used: Counter[str] = Counter()
    changes, limit, ended, let_go = list(limits), 0, 0, 0
    room: list[tuple[float, int]] = []

    def look(now: float) -> None:
        able = may_go({each: each for each, count in alike.items() if count}, used, limit)
        for each in since.keys() - able:
            del since[each]
        for each in able - since.keys():
            since[each] = now

    for state in states:
        while changes and changes[0][0] <= state.seen:
            moment, limit = changes.pop(0)
            room.append((moment, limit + ended))
            look(moment)
        if (before := out.pop(state.uid, None)) is not None:
            used[before.key.namespace] -= before.cores
            if state.deleted:
                ended += before.cores
                room.append((state.seen, limit + ended))
        if (waited := held.pop(state.uid, None)) is not None:
            alike[waited.alike] -= 1
            if state.out and not state.deleted:
                let_go += waited.cores
                began = created[state.uid]
                fitted = max(began, since.get(waited.alike, state.seen), _roomy(room, let_go))
                yield Release(min(fitted, state.seen), state.seen, state.seen - began)
        if state.out and not state.deleted:
            out[state.uid] = state.pod
            used[state.pod.key.namespace] += state.pod.cores
        elif not state.deleted:
            held[state.uid] = state.pod
            alike[state.pod.alike] += 1
            created.setdefault(state.uid, state.seen)
        look(state.seen)


def _roomy(room: Sequence[tuple[float, int]], cores: int) -> float:
    """Since when so many cores could have been let go in all; `room` says how many from when on."""
    since = math.inf
    for moment, allowed in reversed(room):
        if allowed < cores:
            break
        since = moment
    return since
