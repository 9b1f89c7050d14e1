"""What an HTTP request asks of a Kubernetes API server, in RBAC's words.  Pure; used by the rules of the proxy."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_TRUE: Final = ("1", "true")


@dataclass(frozen=True, slots=True)
class Request:
    """Empty strings where the request has no such part; a path outside /api and /apis is no resource's."""

    method: str
    path: str
    verb: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    query: Mapping[str, str] = field(default_factory=dict, hash=False)
    user_agent: str = ""

    @property
    def is_watch(self) -> bool:
        return self.verb == "watch"

    @property
    def is_continuation(self) -> bool:
        """The second or a later page of a list."""
        return bool(self.query.get("continue"))


def parse(method: str, target: str, user_agent: str = "") -> Request:
    """From the method and the request target (path and query, percent-encoded) of the request line."""
    split = urlsplit(target)
    query = dict(parse_qsl(split.query))
    parts = [unquote(part) for part in split.path.strip("/").split("/")]
    group, rest = _after_version(parts)
    if not rest:
        return Request(method, split.path, query=query, user_agent=user_agent)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return Request(
        method=method,
        path=split.path,
        verb=_verb(method, name, query),
        group=group,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
        query=query,
        user_agent=user_agent,
    )


def _after_version(parts: list[str]) -> tuple[str, list[str]]:
    if parts[0] == "api":
        return "", parts[2:]
    return (parts[1], parts[3:]) if parts[0] == "apis" and len(parts) > 3 else ("", [])


def _verb(method: str, name: str, query: Mapping[str, str]) -> str:
    if method == "GET":
        return "watch" if query.get("watch") in _TRUE else "get" if name else "list"
    if method == "DELETE":
        return "delete" if name else "deletecollection"
    return _VERBS.get(method, method.lower())
