"""The audit log: a line for every request that is no read, as kube-apiserver writes it at `Metadata` level.

`tollbar.devplane.audit` reads it.  A line is written before its answer is sent: whoever has the answer finds it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import orjson
from aiohttp import web

from tollbar.devplane.audit import COMPLETE
from tollbar.devplane.embedded import paths
from tollbar.devplane.embedded.access import Access
from tollbar.devplane.embedded.errors import Refused
from tollbar.model import timestamps
from tollbar.runtime.clock import Clock

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


def auditing(path: Path, access: Access, clock: Clock) -> Any:
    """The middleware, which keeps the file open."""
    log = path.open("ab", buffering=0)

    @web.middleware
    async def audited(request: web.Request, handler: Handler) -> web.StreamResponse:
        response = await handler(request)
        if request.method not in ("GET", "HEAD"):
            log.write(orjson.dumps(_event(request, response.status, access, clock.now())) + b"\n")
        return response

    return audited


def _event(request: web.Request, code: int, access: Access, now: float) -> dict[str, Any]:
    """An audit.k8s.io/v1 Event."""
    target = paths.parse(request.rel_url.raw_path)
    event: dict[str, Any] = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "stage": COMPLETE,
        "requestURI": request.rel_url.raw_path_qs,
        "verb": paths.action(request.method, request.path, request.query, target).verb,
        "user": _user(request, access),
        "userAgent": request.headers.get("User-Agent", ""),
        "responseStatus": {"code": code},
        "stageTimestamp": timestamps.micro_time(now),
    }
    if target is not None and target.plural:
        members = ("apiGroup", "apiVersion", "namespace", "resource", "name", "subresource")
        event["objectRef"] = {member: value for member, value in zip(members, target, strict=True) if value}
    return event


def _user(request: web.Request, access: Access) -> dict[str, Any]:
    try:
        return access.user(request.headers.get("Authorization", "")).info()
    except Refused:
        return {"username": "system:anonymous"}
