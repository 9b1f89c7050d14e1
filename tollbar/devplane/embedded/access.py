"""Authentication by bearer tokens, authorization by RBAC, and access reviews.

The rules of stored roles and bindings are cached until one of those changes.  Members of `system:masters` may do
everything.  Tokens are random, kept in memory and end with the process.
"""

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from tollbar.devplane.embedded import builtin, errors
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.requests import AUTHENTICATED, MASTERS, User
from tollbar.devplane.embedded.storage import Storage
from tollbar.model import timestamps
from tollbar.model.objects import Key, Object
from tollbar.model.selectors import matches
from tollbar.runtime.clock import Clock

_TABLES: Final = (builtin.ROLES, builtin.ROLE_BINDINGS, builtin.CLUSTER_ROLES, builtin.CLUSTER_ROLE_BINDINGS)
_TOKEN_SECONDS: Final = 3600
_ACCOUNT: Final = "system:serviceaccount:"
_PUBLIC: Final = ("/readyz", "/livez", "/healthz", "/version")


class Action(NamedTuple):
    """What RBAC is asked to permit.  For a path that is no resource's, only verb and path are set."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class _Grant(NamedTuple):
    """One rule of one binding; the namespace is "" for a ClusterRoleBinding."""

    subject: tuple[str, str]
    namespace: str
    rule: Mapping[str, Any]


@dataclass(slots=True)
class Access:
    """Authentication and authorization."""

    storage: Storage
    clock: Clock
    tokens: dict[str, tuple[User, float]] = field(default_factory=dict)
    """By token: the user and the time at which the token expires."""
    _grants: list[_Grant] = field(default_factory=list)
    _read_at: tuple[int, ...] = ()

    def user(self, authorization: str) -> User:
        """The user of an Authorization header.  Raises Refused (401)."""
        scheme, _, token = authorization.partition(" ")
        known = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if known is None or known[1] < self.clock.now() or not self._is_valid(known[0]):
            raise errors.unauthorized()
        return known[0]

    def _is_valid(self, user: User) -> bool:
        """False for a ServiceAccount that was deleted, whose tokens are no longer valid."""
        namespace, _, name = user.name.removeprefix(_ACCOUNT).partition(":")
        if not user.name.startswith(_ACCOUNT):
            return True
        account = self.storage.get(builtin.SERVICE_ACCOUNTS, Key(namespace, name))
        return account is not None and account.field("metadata.uid") == user.uid

    def issue(self, user: User, seconds: float) -> str:
        """A token for a user."""
        token, now = secrets.token_urlsafe(32), self.clock.now()
        self.tokens = {known: until for known, until in self.tokens.items() if until[1] >= now}
        self.tokens[token] = (user, now + seconds)
        return token

    def token_request(self, account: Object, wanted: Object) -> Object:
        """The answer to a TokenRequest for a ServiceAccount."""
        meta, seconds = account["metadata"], (wanted.get("spec") or {}).get("expirationSeconds") or _TOKEN_SECONDS
        token = self.issue(account_user(meta["namespace"], meta["name"], meta["uid"]), seconds)
        status = {"token": token, "expirationTimestamp": timestamps.time(self.clock.now() + seconds)}
        return {**wanted, "metadata": wanted.get("metadata") or {}, "status": status}

    def check(self, user: User, action: Action) -> None:
        """Raises Refused (403) with RBAC's text."""
        if not self.allowed(user, action):
            raise _forbidden(user, action)

    def allowed(self, user: User, action: Action) -> bool:
        if MASTERS in user.groups or action.path in _PUBLIC:
            return True
        subjects = {("User", user.name), *(("Group", group) for group in user.groups)}
        return any(
            grant.subject in subjects
            and grant.namespace in ("", action.namespace)
            and _covers(grant.rule, action, everywhere=not grant.namespace)
            for grant in self._current()
        )

    def _current(self) -> list[_Grant]:
        read_at = tuple(self.storage.version(each) for each in _TABLES)
        if read_at != self._read_at:
            self._grants, self._read_at = list(_grants(self.storage)), read_at
        return self._grants

    def review(self, user: User, spec: Mapping[str, Any]) -> Object:
        """The status of a (Self)SubjectAccessReview with this spec."""
        asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
        if asked is None:
            action = Action(path.get("verb", ""), path=path.get("path", ""))
        else:
            action = Action(*(asked.get(each, "") for each in Action._fields[:-1]))
        return {"allowed": self.allowed(user, action)}


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a ServiceAccount is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid)


def _grants(storage: Storage) -> Iterator[_Grant]:
    for table, namespaced in ((builtin.ROLE_BINDINGS, True), (builtin.CLUSTER_ROLE_BINDINGS, False)):
        for key, entry in storage.items(table):
            binding = entry.decoded()
            role = binding["roleRef"]
            local = role["kind"] == "Role"
            found = storage.get(
                builtin.ROLES if local else builtin.CLUSTER_ROLES, Key(key.namespace if local else "", role["name"])
            )
            rules = _rules(storage, found.decoded()) if found is not None else []
            for subject in binding.get("subjects") or ():
                for rule in rules:
                    yield _Grant(_subject(subject, key.namespace), key.namespace if namespaced else "", rule)


def _rules(storage: Storage, role: Object) -> list[Object]:
    """The rules of a role, with those that its aggregationRule selects."""
    rules = list(role.get("rules") or ())
    for selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        for _, entry in storage.items(builtin.CLUSTER_ROLES):
            if matches(selector, entry.labels):
                rules += entry.decoded().get("rules") or ()
    return rules


def _subject(subject: Object, namespace: str) -> tuple[str, str]:
    if subject["kind"] != "ServiceAccount":
        return subject["kind"], subject["name"]
    return "User", account_user(subject.get("namespace") or namespace, subject["name"]).name


def _covers(rule: Mapping[str, Any], action: Action, *, everywhere: bool) -> bool:
    if not among(action.verb, rule.get("verbs")):
        return False
    if action.path:
        urls = rule.get("nonResourceURLs") or ()
        return everywhere and any(
            url in ("*", action.path) or (url.endswith("*") and action.path.startswith(url[:-1])) for url in urls
        )
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    named = rule.get("resourceNames")
    return (
        among(action.group, rule.get("apiGroups"))
        and (among(resource, rule.get("resources")) or f"*/{action.subresource}" in (rule.get("resources") or ()))
        and (not named or action.name in named)
    )


def among(wanted: str, given: Any) -> bool:
    """Whether a rule's list has the value or `*`."""
    return "*" in (given or ()) or wanted in (given or ())


def _forbidden(user: User, action: Action) -> Refused:
    if action.path:
        said = f'User "{user.name}" cannot {action.verb} path "{action.path}"'
        return Refused(403, "Forbidden", f"forbidden: {said}", details={})
    resource = f"{action.resource}/{action.subresource}" if action.subresource else action.resource
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    said = f'User "{user.name}" cannot {action.verb} resource "{resource}" in API group "{action.group}" {where}'
    return errors.forbidden(action.group, action.resource, action.name, said)
