"""Method, path and query of a request, parsed: which resource, and which verb RBAC is asked for.

Source: RequestInfo in k8s.io/apiserver/pkg/endpoints/request.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote

from tollbar.devplane.embedded.access import Action

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_OF_NAMESPACES: Final = ("status", "finalize")
"""Subresources of a namespace, at the place in a path where the plural of a namespaced kind can be."""


class Target(NamedTuple):
    """A path below a group version; `plural` is empty for the group version itself."""

    group: str
    version: str
    namespace: str = ""
    plural: str = ""
    name: str = ""
    subresource: str = ""


_OF_LISTS: Final = ("list", "watch", "deletecollection")


def parse(path: str) -> Target | None:
    """None for a path that is no resource's: discovery above group versions, health, OpenAPI."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if (parts[0] == "api" and len(parts) > 1) or (parts[0] == "apis" and len(parts) > 2):
        group, version, *rest = ["", *parts[1:]] if parts[0] == "api" else parts[1:]
    else:
        return None
    namespace = ""
    if rest[:1] == ["namespaces"] and (len(rest) > 3 or (len(rest) == 3 and rest[2] not in _OF_NAMESPACES)):
        _, namespace, *rest = rest
    plural, name, *more = (*rest, "", "")[: max(2, len(rest))]
    return Target(group, version, namespace, plural, name, "/".join(more))


def action(method: str, path: str, query: Mapping[str, str], target: Target | None) -> Action:
    """What RBAC is asked for."""
    if target is None or not target.plural:
        return Action(_VERBS.get(method, "delete" if method == "DELETE" else "get"), path=path)
    if method in ("GET", "HEAD"):
        verb = "get" if target.name else "watch" if watches(query) else "list"
    elif method == "DELETE":
        verb = "delete" if target.name else "deletecollection"
    else:
        verb = _VERBS.get(method, method.lower())
    name = target.name or (_selected_name(query) if verb in _OF_LISTS else "")
    return Action(verb, target.group, target.plural, target.subresource, target.namespace, name)


def _selected_name(query: Mapping[str, str]) -> str:
    """The name that a list is about: a right to objects of this name permits it."""
    requirements = (part.partition("=") for part in query.get("fieldSelector", "").split(","))
    return next((value.removeprefix("=") for field, _, value in requirements if field == "metadata.name"), "")


def watches(query: Mapping[str, str]) -> bool:
    return query.get("watch", "").lower() in ("1", "true")
