"""How much of what tenants make a process keeps in memory, and what it leaves out when that is too much.

The API server limits the size of an object, and nothing limits how many of them a tenant makes.  So stores that can do
with a stub of an object share a budget, in which stubs count as well.  When it is exceeded, the namespace that takes
the most gives way: of its objects one of the largest becomes a stub, and among those the one that came last.  A
namespace that takes no more than the budget divided by the number of namespaces loses nothing, whatever the others do.

What became a stub is kept whole again when it comes again, by a watch event or a list, and there is room by then.

Invariants: between two calls what is kept takes no more than `most` bytes, unless each namespace has nothing but stubs
or takes no more than an equal part; nothing here awaits.
"""

import logging
import math
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Protocol, TypeAlias

from tollbar.model.objects import Key

_log: Final = logging.getLogger(__name__)

SHARE: Final = 3 / 8
"""The part of a process's memory for what has a budget; the rest is for other objects, requests and Python itself."""
_CGROUPS: Final = "sys/fs/cgroup"
_LIMIT_V1: Final = f"{_CGROUPS}/memory/memory.limit_in_bytes"


def memory_limit(root: Path = Path("/")) -> int:
    """Bytes of memory that this process can have: all that the machine has, or less by a limit.

    Of cgroup v2 the smallest limit (memory.max) of the cgroup of the process and of those around it, as far as they can
    be seen: where a container has no cgroup namespace of its own, the mount shows those of the whole machine.  Of
    cgroup v1 the limit of the container, which is what is mounted.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    own = _own_cgroup(root)
    files = (root / _CGROUPS / each / "memory.max" for each in (own, *own.parents))
    for file in (*files, root / _LIMIT_V1):
        with suppress(OSError, ValueError):  # no such cgroup, or "max"
            found.append(int(file.read_text()))
    return min(found)


def _own_cgroup(root: Path) -> PurePosixPath:
    """The cgroup v2 of this process, below where they are mounted; that place itself where there is none."""
    with suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            hierarchy, _, path = line.split(":", 2)
            if hierarchy == "0":
                return PurePosixPath(path.lstrip("/"))
    return PurePosixPath()


class Holder(Protocol):
    """Whoever keeps objects by key: a store."""

    def leave_out(self, key: Key) -> None:
        """Keep a stub of this object."""
        ...


Entry: TypeAlias = tuple[Holder, Key]


@dataclass(slots=True)
class _Share:
    """What a namespace takes."""

    used: int = 0
    """Bytes, stubs included."""
    by_size: dict[int, dict[Entry, None]] = field(default_factory=dict)
    """The objects that are kept whole, oldest first, by the bit length of the bytes that a stub of each would save."""
    left_out: int = 0
    """Objects that are left out."""
    warned: bool = False
    """Whether the log says that objects are left out."""


class Budget:
    """At most `most` bytes in all, of objects by namespace."""

    def __init__(self, most: float = math.inf) -> None:
        self.most = most
        self.used = 0
        """Bytes of what is kept, stubs included."""
        self._kept: dict[Entry, int] = {}
        """Of each object that is kept whole, the bytes that its stub would save."""
        self._stubs: dict[Entry, int] = {}
        """Of each object, whole or not, the bytes that its stub takes."""
        self._out: dict[Entry, int] = {}
        """Of each object that is left out, the bytes that it would take beside its stub."""
        self._shares: dict[str, _Share] = {}

    def keep(self, entry: Entry, size: int, stub: int = 0) -> list[Entry]:
        """Count an object in the place of what was counted of it before; returns what has to become a stub for it.

        That may be the object itself.  Its stub takes `stub` bytes, and all of it `size` more: 0 where there is nothing
        but a stub.  What was left out before makes others give way only where its namespace takes no more than an equal
        part with it: then it stays, so that lists that bring objects back come to an end.
        """
        found: list[Entry] = []
        if size and entry in self._out and not self._has_room(entry, size):
            self._out[entry] = size
            found.append(entry)
        else:
            self._remove(entry)
            self._add(entry, size)
        self._count_stub(entry, stub)
        while self.used > self.most and (gone := self._leave_out()) is not None:
            found.append(gone)
        self._tell(_namespace(entry), *map(_namespace, found))
        return found

    def forget(self, entry: Entry) -> None:
        """Do not count this object any more."""
        self._remove(entry)
        self._count_stub(entry, 0)
        self._tell(_namespace(entry))

    def would_keep_more(self, holder: Holder) -> bool:
        """Whether an object of this holder that is left out would be kept whole if it came again."""
        return any(entry[0] is holder and self._has_room(entry, size) for entry, size in self._out.items())

    def _has_room(self, entry: Entry, size: int) -> bool:
        """Whether an object that was left out would be kept whole now."""
        share = self._shares[_namespace(entry)]
        return self.used + size <= self.most or share.used + size <= self.most / len(self._shares)

    def _leave_out(self) -> Entry | None:
        """Count the next object as left out that has to give way, and return it; None when nobody has to lose any."""
        share = max((each for each in self._shares.values() if each.by_size), key=_used, default=None)
        if share is None or share.used <= self.most / len(self._shares):
            return None
        entry = next(reversed(share.by_size[max(share.by_size)]))
        self._out[entry] = self._remove(entry)
        share.left_out += 1
        return entry

    def _add(self, entry: Entry, size: int) -> None:
        share = self._shares.setdefault(_namespace(entry), _Share())
        if size:
            share.by_size.setdefault(size.bit_length(), {})[entry] = None
            share.used += size
            self.used += size
            self._kept[entry] = size

    def _remove(self, entry: Entry) -> int:
        """Do not count this object, but for its stub; returns what it took beside that, 0 if it was not kept whole."""
        share = self._shares.get(_namespace(entry), _Share())
        if self._out.pop(entry, None) is not None:
            share.left_out -= 1
        size = self._kept.pop(entry, 0)
        if size:
            alike = share.by_size[size.bit_length()]
            del alike[entry]
            if not alike:
                del share.by_size[size.bit_length()]
            share.used -= size
            self.used -= size
        return size

    def _count_stub(self, entry: Entry, size: int) -> None:
        more = size - self._stubs.pop(entry, 0)
        if size:
            self._stubs[entry] = size
        if more:
            self._shares[_namespace(entry)].used += more
            self.used += more

    def _tell(self, *namespaces: str) -> None:
        """Log where the first object was left out or none is any more, and forget namespaces that take nothing."""
        for name in dict.fromkeys(namespaces):
            share = self._shares.get(name)
            if share is None:
                continue
            if share.warned != bool(share.left_out):
                share.warned = bool(share.left_out)
                about = {"namespace": name, "bytes": share.used, "budget": self.most}
                _log.log(logging.WARNING if share.warned else logging.INFO, _MESSAGES[share.warned], extra=about)
            if not share.used and not share.left_out:
                del self._shares[name]


_MESSAGES: Final = {
    True: "memory is short: rules about claims do not see the largest claims and templates of the namespace",
    False: "memory is no longer short: rules see all claims and templates of the namespace",
}


def _namespace(entry: Entry) -> str:
    _, key = entry
    return key.namespace


def _used(share: _Share) -> int:
    return share.used
