"""What RBAC grants an account by manifests, and what the account has used of it by the audit log."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tollbar.devplane.audit import Record
from tollbar.model.objects import Object, labels_of, metadata

_OF_EVERYBODY = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
"""Groups whose reviews every authenticated user may create about itself."""


class Right(NamedTuple):
    """`name` is empty where the right is for every object."""

    verb: str
    group: str
    resource: str
    name: str = ""

    def __str__(self) -> str:
        where = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {where}{f' {self.name}' if self.name else ''}"

    def covers(self, use: "Right") -> bool:
        return self == (use if self.name else use._replace(name=""))


def granted(objects: Iterable[Object], account: str) -> set[Right]:
    """To the ServiceAccount of this name, by the roles among the objects; an aggregated one has those it selects."""
    known = list(objects)
    roles = {(each["kind"], metadata(each)["name"]): each for each in known if each["kind"] in ("Role", "ClusterRole")}
    found: set[Right] = set()
    for binding in known:
        subjects = binding["subjects"] if binding["kind"] in ("RoleBinding", "ClusterRoleBinding") else ()
        if any(subject["kind"] == "ServiceAccount" and subject["name"] == account for subject in subjects):
            to = binding["roleRef"]
            found.update(_of_role(roles[to["kind"], to["name"]], known))
    return found


def _of_role(role: Object, known: list[Object]) -> Iterator[Right]:
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors", ()):
        for other in known:
            if other["kind"] == "ClusterRole" and selector["matchLabels"].items() <= labels_of(other).items():
                yield from _of_role(other, known)
    for rule in role.get("rules") or ():
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or ("",):
                        yield Right(verb, group, resource, name)


def used(records: Iterable[Record], user: str) -> set[Right]:
    """By this user, whatever the answer: a watch has none while it lasts."""
    return {
        Right(record.verb, record.group, "/".join(filter(None, (record.resource, record.subresource))), record.name)
        for record in records
        if record.user == user and record.group not in _OF_EVERYBODY
    }


def unused(grants: Iterable[Right], uses: Iterable[Right]) -> set[str]:
    made = set(uses)
    return {str(grant) for grant in grants if not any(map(grant.covers, made))}


def missing(grants: Iterable[Right], uses: Iterable[Right]) -> set[str]:
    given = set(grants)
    return {str(use) for use in uses if not {use, use._replace(name="")} & given}
