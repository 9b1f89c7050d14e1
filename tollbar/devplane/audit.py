"""The API server's audit log as typed records: what was written, by whom, and how often.

The audit policy of a real plane (`real.components.audit_policy`) logs every write and the reads of everybody but
administrators and the control plane itself; requests about Pods carry their bodies.  Reading is incremental: take a
`position`, act, call the plane's `audit_fence`, then read the records since that position.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
COMPLETE: Final = "ResponseComplete"

_BLOCK: Final = 64 * 1024
_STORES_NOTHING: Final = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_CREDENTIAL: Final = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Record:
    """One audit event; empty strings where the request had no such part."""

    stage: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    user_agent: str
    code: int
    at: str
    uri: str = ""
    request: Mapping[str, Any] | list[Any] | None = field(default=None, hash=False)
    """The body as sent (a JSON Patch is a list), for requests about Pods."""
    credential: str = ""
    """The id of the credentials: of a ServiceAccount's token `JTI=` and its claim `jti` (KEP-4193)."""

    @property
    def is_write(self) -> bool:
        """Whether the request could change what is stored: reviews, tokens and dry runs cannot."""
        return (
            self.verb in WRITES
            and self.group not in _STORES_NOTHING
            and self.subresource != "token"
            and "dryRun=All" not in self.uri
        )


class AuditLog:
    """Reader of one audit log file.  The file may not exist yet: then it is empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def position(self) -> int:
        """Where the log ends now, in bytes: the `since` of a later read.  A line still being written is after it."""
        if not self.path.exists():
            return 0
        with self.path.open("rb") as log:
            end = log.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - _BLOCK)
                log.seek(start)
                lines = log.read(end - start).rfind(b"\n") + 1
                if lines:
                    return start + lines
                end = start
        return 0

    def records(self, since: int = 0) -> Iterator[Record]:
        """Every record after a position, oldest first.  A line still being written is left for the next read."""
        if not self.path.exists():
            return
        with self.path.open("rb") as log:
            log.seek(since)
            for line in log:
                if line.endswith(b"\n"):
                    yield parse(json.loads(line))

    def writes(
        self, since: int = 0, *, user: str = "", user_agent: str = "", resource: str = "", namespace: str = ""
    ) -> list[Record]:
        """Completed requests that could change something, refused ones included: look at `code`.

        user and resource match exactly, user_agent is a prefix; an empty filter matches everything.
        """
        return [
            record
            for record in self.records(since)
            if record.is_write
            and record.stage == COMPLETE
            and user in ("", record.user)
            and resource in ("", record.resource)
            and namespace in ("", record.namespace)
            and record.user_agent.startswith(user_agent)
        ]


def parse(event: Mapping[str, Any]) -> Record:
    """A record from a decoded audit.k8s.io/v1 Event.  An impersonated user counts as the user."""
    reference = event.get("objectRef") or {}
    user = event.get("impersonatedUser") or event.get("user") or {}
    return Record(
        stage=event.get("stage", ""),
        verb=event.get("verb", ""),
        group=reference.get("apiGroup", ""),
        resource=reference.get("resource", ""),
        subresource=reference.get("subresource", ""),
        namespace=reference.get("namespace", ""),
        name=reference.get("name", ""),
        user=user.get("username", ""),
        user_agent=event.get("userAgent", ""),
        code=(event.get("responseStatus") or {}).get("code", 0),
        at=event.get("stageTimestamp", ""),
        uri=event.get("requestURI", ""),
        request=event.get("requestObject"),
        credential="".join((user.get("extra") or {}).get(_CREDENTIAL) or ()),
    )
