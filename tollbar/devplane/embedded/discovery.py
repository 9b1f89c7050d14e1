"""API discovery: groups, resources, the version.

Every answer is made from the served kinds and the reviews, which are few.  There is no aggregated discovery: kubectl
then asks for each group version, and caches the answers.
"""

from typing import Any, Final

from tollbar.devplane.embedded.builtin import SENT
from tollbar.devplane.embedded.kinds import Kind, Kinds
from tollbar.model.objects import Object

VERSION: Final = {
    **dict.fromkeys(("gitCommit", "goVersion", "compiler", "platform"), ""),
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+tollbar-embedded",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
}
_VERBS: Final = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
_CREATED: Final[Object] = {"verbs": ["create"]}
_WRITTEN: Final[Object] = {"verbs": ["get", "patch", "update"]}
SUBRESOURCES: Final[dict[str, Object]] = {
    "binding": {"kind": "Binding", **_CREATED},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest", **_CREATED},
    "status": _WRITTEN,
    "resize": _WRITTEN,
}
"""The verbs of subresources, and the kind that is sent where it is not the object's own."""


REVIEWS: Final = {(*where, f"{kind.lower()}s"): kind for kind, where in SENT.items() if kind.endswith("Review")}
"""The kinds that are answered and never stored, by group, version and plural."""


def groups(kinds: Kinds) -> dict[str, list[str]]:
    """Versions by group."""
    found = {group: [version] for group, version, _ in REVIEWS}
    for kind in kinds:
        versions = found.setdefault(kind.resource.group, [])
        if kind.resource.version not in versions:
            versions.append(kind.resource.version)
    return found


def answer(kinds: Kinds, path: str) -> Object | None:
    """What is at `/api`, `/apis`, `/apis/GROUP` and `/version`; None elsewhere."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        listed = [_group(name, versions) for name, versions in groups(kinds).items() if name]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    if path == "/version":
        return VERSION
    name = path.removeprefix("/apis/")
    served = groups(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, served)} if served else None


def _group(name: str, versions: list[str]) -> Object:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def resource_list(kinds: Kinds, group: str, version: str) -> Object | None:
    """`/api/v1` and `/apis/GROUP/VERSION`; None when that is not served."""
    found = []
    for kind in sorted(kinds, key=lambda each: each.resource.plural):
        if (kind.resource.group, kind.resource.version) == (group, version):
            found += _resources(kind)
    for (*where, plural), kind_ in REVIEWS.items():
        if where == [group, version]:
            found.append({"name": plural, "kind": kind_, "singularName": "", "namespaced": False, **_CREATED})
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": found} if found else None


def _resources(kind: Kind) -> list[Object]:
    """A kind and its subresources."""
    res = kind.resource
    common = {"kind": res.kind, "namespaced": res.namespaced}
    found: dict[str, Any] = {**common, "name": res.plural, "singularName": kind.singular, "verbs": _VERBS}
    found |= {"shortNames": kind.short_names} if kind.short_names else {}
    found |= {"categories": kind.categories} if kind.categories else {}
    below = {name: {**common, "name": f"{res.plural}/{name}", "singularName": ""} for name in sorted(kind.subresources)}
    return [found, *({**each, **SUBRESOURCES[name]} for name, each in below.items())]
