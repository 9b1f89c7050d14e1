"""What is served, as clients ask for it: groups, resources, both at once (aggregated discovery), the version.

Called by the server.  Made anew for every request from the table of kinds and the reviews, which is small.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from tollbar.devplane.embedded.kinds import EVERY_VERB, Kind, Kinds
from tollbar.model.objects import Object

VERSION: Final = {
    "major": "1",
    "minor": "37",
    "gitVersion": "v1.37.0+tollbar-embedded",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

_STATUS_VERBS: Final = ["get", "patch", "update"]


class Subresource(NamedTuple):
    """Group and kind of what is sent, where it is not the object itself, and the verbs."""

    group: str
    kind: str
    verbs: list[str]


SUBRESOURCES: Final = {
    "binding": Subresource("", "Binding", ["create"]),
    "token": Subresource("authentication.k8s.io", "TokenRequest", ["create"]),
    "finalize": Subresource("", "", ["update"]),
    "status": Subresource("", "", _STATUS_VERBS),
    "resize": Subresource("", "", _STATUS_VERBS),
}


class Review(NamedTuple):
    """A resource that answers and stores nothing."""

    group: str
    plural: str
    kind: str


REVIEWS: Final = (
    Review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    Review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    Review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
)


def groups(kinds: Kinds) -> dict[str, list[str]]:
    """Versions by named group; the core group is not among them."""
    found: dict[str, list[str]] = {each.group: ["v1"] for each in REVIEWS}
    for kind in kinds:
        versions = found.setdefault(kind.resource.group, [])
        if kind.resource.version not in versions:
            versions.append(kind.resource.version)
    found.pop("", None)
    return found


def answer(kinds: Kinds, path: str) -> Object | None:
    """What is at `/api`, `/apis`, `/apis/GROUP` and `/version`; None elsewhere."""
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
    if path == "/apis":
        listed = [_group(name, versions) for name, versions in groups(kinds).items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}
    if path == "/version":
        return dict(VERSION)
    name = path.removeprefix("/apis/")
    served = groups(kinds).get(name)
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, served)} if served else None


def _group(name: str, versions: list[str]) -> Object:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": served, "preferredVersion": served[0]}


def resource_list(kinds: Kinds, group_: str, version: str) -> Object | None:
    """`/api/v1` and `/apis/GROUP/VERSION`; None when that is not served."""
    found = [_resource(*each) for each in _resources(kinds, group_, version)]
    if not found:
        return None
    name = f"{group_}/{version}" if group_ else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": found}


def aggregated(kinds: Kinds, *, core: bool) -> Object:
    """The discovery of the core group or of all others in one answer (KEP-3352)."""
    served = {"": ["v1"]} if core else groups(kinds)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": name} if name else {},
                "versions": [
                    {"version": version, "freshness": "Current", "resources": list(_discovered(kinds, name, version))}
                    for version in versions
                ],
            }
            for name, versions in served.items()
        ],
    }


def _resources(kinds: Kinds, group_: str, version: str) -> Iterator[tuple[str, Kind | Review]]:
    """Every path with what it is a path of."""
    served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group_, version)]
    for kind in sorted(served, key=lambda each: each.resource.plural):
        yield kind.resource.plural, kind
        for subresource in sorted(kind.subresources):
            yield f"{kind.resource.plural}/{subresource}", kind
    for review in REVIEWS:
        if review.group == group_ and version == "v1":
            yield review.plural, review


def _resource(path: str, served: Kind | Review) -> Object:
    if isinstance(served, Review):
        return {"name": path, "singularName": "", "namespaced": False, "kind": served.kind, "verbs": ["create"]}
    res, (_, _, subresource) = served.resource, path.partition("/")
    found: dict[str, Any] = {"name": path, "singularName": "", "namespaced": res.namespaced, "kind": res.kind}
    if subresource:
        group_, kind, verbs = SUBRESOURCES[subresource]
        named = {"group": group_, "version": "v1"} if group_ else {}
        return {**found, **named, "kind": kind or res.kind, "verbs": verbs}
    found |= {"singularName": served.singular, "verbs": list(EVERY_VERB)}
    found |= {"shortNames": list(served.short_names)} if served.short_names else {}
    return {**found, "categories": list(served.categories)} if served.categories else found


def _discovered(kinds: Kinds, group_: str, version: str) -> Iterator[Object]:
    """The same in the words of aggregated discovery: subresources within their resources."""
    last: Object = {}
    for path, served in _resources(kinds, group_, version):
        said = _resource(path, served)
        kind = {"group": said.get("group", group_), "version": version, "kind": said["kind"]}
        plural, _, subresource = path.partition("/")
        if subresource:
            found = {"subresource": subresource, "responseKind": kind, "verbs": said["verbs"]}
            last.setdefault("subresources", []).append(found)
            continue
        if last:
            yield last
        last = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if said["namespaced"] else "Cluster",
            "singularResource": said["singularName"],
            "verbs": said["verbs"],
            **{key: said[key] for key in ("shortNames", "categories") if key in said},
        }
    if last:
        yield last
