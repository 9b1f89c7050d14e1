"""Which Pods have been scheduled, from the API server's audit log.

The log has the times of the answers by the API server's clock, and reading it costs neither the server nor a scheduler
anything; a watch would have the server encode every Pod once more.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import orjson

from tollbar.devplane.audit import AuditLog
from tollbar.model import timestamps
from tollbar.model.objects import Object

PodKey: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass
class Observer:
    """Follows the log from now on; `read` brings the rest up to date.

    `bound` has the time (seconds since the epoch) at which each Pod got its Node; `attempted` the Pods of which a
    scheduler has said that none fits; `writes` how often each user has written what, by plural and subresource.
    """

    log: AuditLog
    bound: dict[PodKey, float] = field(default_factory=dict)
    attempted: set[PodKey] = field(default_factory=set)
    writes: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    latest: dict[str, float] = field(default_factory=dict)
    """When each user has written last; records are not quite in the order of their times."""
    _at: int = 0
    _tail: bytes = b""

    def __post_init__(self) -> None:
        self._at = self.log.position()

    def read(self) -> list[PodKey]:
        """The Pods that were bound since the last call."""
        found: list[PodKey] = []
        for line, record in self._records(self.log.path):
            reference: Mapping[str, str] = record.get("objectRef") or {}
            what = f"{reference.get('resource')}/{reference.get('subresource', '')}".rstrip("/")
            at = timestamps.parse(record["stageTimestamp"])
            user = record["user"]["username"]
            self.writes.setdefault((user, what), []).append(at)
            self.latest[user] = max(at, self.latest.get(user, at))
            key = (reference.get("namespace", ""), reference.get("name", ""))
            if what == "pods/binding":
                self.bound[key] = at
                found.append(key)
            elif what == "pods/status" and b'"PodScheduled"' in line:
                self.attempted.add(key)
        return found

    def _records(self, path: Path) -> Iterator[tuple[bytes, Object]]:
        """Granted writes of schedulers, with their lines; the lines of others are not decoded."""
        with path.open("rb") as log:
            log.seek(self._at)
            new = log.read()
        self._at += len(new)
        *lines, self._tail = (self._tail + new).split(b"\n")
        for line in lines:
            if b"-scheduler" not in line or b'"ResponseComplete"' not in line:
                continue
            record = orjson.loads(line)
            is_write = record["verb"] in ("create", "update", "patch", "delete")
            is_theirs = record["user"]["username"].endswith("-scheduler")
            if is_write and is_theirs and record.get("responseStatus", {}).get("code", 500) < 300:
                yield line, record
