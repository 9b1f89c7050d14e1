"""How much of what tenants make a process keeps in memory, and what it leaves out when that is too much.

The API server limits the size of an object, and nothing limits how many of them a tenant makes.  So stores that can do
with a stub of an object share a budget.  When it is exceeded, the namespace that takes the most gives way: of its
objects one of the largest becomes a stub, and among those the one that came last.  A namespace that takes no more than
the budget divided by the number of namespaces loses nothing, whatever the others do.

What became a stub is kept whole again when it comes again, by a watch event or a list, and there is room by then.

Invariants: what is kept never takes more than `most` bytes between two calls; nothing here awaits.
"""

import logging
import math
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from tollbar.model.objects import Key

_log: Final = logging.getLogger(__name__)

SHARE: Final = 3 / 8
"""Of the memory of the process, for what has a budget: the rest is for itself, other objects, and requests."""
_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Where a container reads its limit: cgroup v2, v1."""


def memory_limit(files: Iterable[Path] = _LIMITS) -> int:
    """Bytes of memory that this process can have: the limit of its container, or all that the machine has."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in files:
        with suppress(OSError, ValueError):  # no such cgroup, or "max"
            found.append(int(file.read_text()))
    return min(found)


class Holder(Protocol):
    """Whoever keeps objects by key: a store."""

    def leave_out(self, key: Key) -> None:
        """Keep a stub of this object."""
        ...


Entry: TypeAlias = tuple[Holder, Key]


@dataclass(slots=True)
class _Share:
    """What a namespace takes: bytes, objects by the number of bits of their size, the latest ones last, and stubs."""

    used: int = 0
    by_size: dict[int, dict[Entry, None]] = field(default_factory=dict)
    stubs: int = 0
    short: bool = False
    """Whether it was said that there are stubs."""


class Budget:
    """At most `most` bytes in all, of objects by namespace."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.used = 0
        """Bytes of what is kept."""
        self._kept: dict[Entry, int] = {}
        self._out: dict[Entry, int] = {}
        """What is left out, with the size that it would have."""
        self._shares: dict[str, _Share] = {}

    def keep(self, entry: Entry, size: int) -> list[Entry]:
        """Count an object, with this size from now on; what has to become a stub for it, itself perhaps.

        What was left out before makes others give way only where its namespace takes no more than an equal part with
        it: it stays then, so that lists that bring things back come to an end.
        """
        if entry in self._out and not self._has_room(entry, size):
            self._out[entry] = size
            return [entry]
        self._remove(entry)
        self._add(entry, size)
        found = []
        while self.used > self.most:
            found.append(self._leave_out())
        self._tell(_namespace(entry), *map(_namespace, found))
        return found

    def forget(self, entry: Entry) -> None:
        """Do not count this object any more."""
        self._remove(entry)
        self._tell(_namespace(entry))

    def would_keep_more(self, holder: Holder) -> bool:
        """Whether something that this holder has a stub of would be kept, if it came again."""
        return any(entry[0] is holder and self._has_room(entry, size) for entry, size in self._out.items())

    def _has_room(self, entry: Entry, size: int) -> bool:
        """Whether this would be kept, which was left out."""
        share = self._shares[_namespace(entry)]
        return self.used + size <= self.most or share.used + size <= self.most / len(self._shares)

    def _leave_out(self) -> Entry:
        """What goes next; it counts as left out."""
        share = max(self._shares.values(), key=_used)
        entry = next(reversed(share.by_size[max(share.by_size)]))
        self._out[entry] = self._remove(entry)
        share.stubs += 1
        return entry

    def _add(self, entry: Entry, size: int) -> None:
        share = self._shares.setdefault(_namespace(entry), _Share())
        share.by_size.setdefault(size.bit_length(), {})[entry] = None
        share.used += size
        self.used += size
        self._kept[entry] = size

    def _remove(self, entry: Entry) -> int:
        """Its size; 0 for what is not kept."""
        share = self._shares.get(_namespace(entry), _Share())
        if self._out.pop(entry, None) is not None:
            share.stubs -= 1
        size = self._kept.pop(entry, 0)
        if size:
            alike = share.by_size[size.bit_length()]
            del alike[entry]
            if not alike:
                del share.by_size[size.bit_length()]
            share.used -= size
            self.used -= size
        return size

    def _tell(self, *namespaces: str) -> None:
        """Say where stubs have come or the last has gone, and forget namespaces that have nothing."""
        for name in dict.fromkeys(namespaces):
            share = self._shares.get(name)
            if share is None:
                continue
            if share.short != bool(share.stubs):
                share.short = bool(share.stubs)
                about = {"namespace": name, "bytes": share.used, "budget": self.most}
                _log.log(logging.WARNING if share.short else logging.INFO, _SAID[share.short], extra=about)
            if not share.by_size and not share.stubs:
                del self._shares[name]


_SAID: Final = {
    True: "memory is short: rules about claims do not see the largest claims and templates of the namespace",
    False: "memory is no longer short: rules see all claims and templates of the namespace",
}


def _namespace(entry: Entry) -> str:
    _, key = entry
    return key.namespace


def _used(share: _Share) -> int:
    return share.used
