"""Detects what decides how Tollbar works beside kube-controller-manager: server version, served APIs, permissions."""

import logging
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

import orjson

from tollbar.model.claims import requests_of
from tollbar.model.objects import Object
from tollbar.model.resources import (
    DEVICE_TAINT_RULES,
    POD_GROUPS,
    RESOURCE_CLAIMS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from tollbar.runtime.client import Client, decoded
from tollbar.runtime.clock import Clock
from tollbar.runtime.errors import ApiError, Forbidden, NotFound
from tollbar.runtime.reflector import ListerWatcher
from tollbar.runtime.retry import READ
from tollbar.runtime.source import Channel

_log: Final = logging.getLogger(__name__)

_NEW: Final = (sys.maxsize, 0)
_POD_GROUP_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")
_DEVICE_TAINT_RULE_VERSIONS: Final = ("v1", "v1beta2")
_TOLERATION: Final = {"key": "tollbar.dev/tried", "operator": "Exists"}
_REQUEST: Final = {"name": "tried", "exactly": {"deviceClassName": "tollbar.dev", "tolerations": [_TOLERATION]}}
_TOLERATING: Final = {
    **RESOURCE_CLAIMS.type_meta,
    "metadata": {"generateName": "tollbar-tried-"},
    "spec": {"devices": {"requests": [_REQUEST]}},
}
"""A claim that is only tried."""
_KEEPS: Final = "the API server keeps tolerations of devices in claims"
_DROPS: Final = "the API server drops tolerations of devices from claims"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the API server serves and permits, as far as it decides how Tollbar works.

    `version` is the API server's gitVersion; `pod_groups` the apiVersion in which it serves PodGroups, empty when it
    does not; `may_bind` whether reservations may be written (`resourceclaims/binding`), None when that is not known.
    """

    version: str
    pod_groups: str
    may_bind: bool | None


async def capabilities(client: Client, user: str = "") -> Capabilities:
    """Those of this API server; `may_bind` is about `user`, or else about this client's own user.  Raises ApiError."""
    groups = await pod_groups(client)
    return Capabilities(
        await _version(client), groups.api_version if groups is not None else "", await _may_bind(client, user)
    )


class ServerVersion:
    """The API server's version, read again every `AGE` seconds because a cluster may be upgraded meanwhile.

    When it cannot be read, the last known version stays, and it is read again after `RETRY` seconds.
    """

    AGE: Final = 300.0
    RETRY: Final = 30.0

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known = _NEW
        self._due = float("-inf")

    async def is_before(self, minor: tuple[int, int]) -> bool:
        """Whether it is older than this minor version; an unknown version counts as newer."""
        if self._clock.monotonic() >= self._due:
            try:
                version = await _version(self._client)
            except ApiError as error:
                _log.log(
                    error.level(logging.WARNING),
                    "cannot read the version of the API server",
                    extra={"error": str(error)},
                )
                version = ""
            self._known = minor_of(version) if version else self._known
            self._due = self._clock.monotonic() + (self.AGE if version else self.RETRY)
        return self._known < minor


def minor_of(version: str) -> tuple[int, int]:
    """The minor version of a gitVersion such as `v1.36.3` or `v1.35.4-gke.100`; very high when it cannot be parsed.

    `v0.0.0-master+…` is the version of a build without version information.
    """
    found = re.match(r"v?([1-9]\d*)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else _NEW


async def _version(client: Client) -> str:
    """Empty when the answer has no gitVersion.  Raises ApiError."""
    answer: bytes = await READ(client.raw, "GET", "/version")
    return str(decoded("GET", answer).get("gitVersion") or "")


async def pod_groups(client: ListerWatcher) -> Resource | None:
    """PodGroups (scheduling.k8s.io, KEP-4671) in the newest version that is served; None when none is."""
    return await _newest(client, POD_GROUPS, _POD_GROUP_VERSIONS)


class ServedPodGroups:
    """The PodGroups that the API server serves, asked again at most every `AGE` seconds."""

    AGE: Final = 30.0

    def __init__(self, client: ListerWatcher, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._known: Resource | None = None
        self._due = float("-inf")

    async def resource(self) -> Resource | None:
        """As `pod_groups`.  Raises ApiError when it asks."""
        if self._clock.monotonic() >= self._due:
            self._known = await pod_groups(self._client)
            self._due = self._clock.monotonic() + self.AGE
        return self._known


async def device_taint_rules(client: ListerWatcher) -> Resource | None:
    """DeviceTaintRules (resource.k8s.io, KEP-5055) in the newest version that is served; None when none is."""
    return await _newest(client, DEVICE_TAINT_RULES, _DEVICE_TAINT_RULE_VERSIONS)


class KeptTolerations:
    """Whether the API server keeps tolerations of devices in requests of claims (KEP-5055).

    Without the feature gate DRADeviceTaints, which is off by default before 1.36, it drops them from what is written
    and says nothing.  So it is asked by a claim that is created without effect, every `AGE` seconds, and after a
    failure every `RETRY`.  `changes` sends the first answer and every other one.
    """

    AGE: Final = 300.0
    RETRY: Final = 30.0

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        """`namespace` is that of the claim."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._known: bool | None = None
        self._is_failing = False
        self.changes: Channel[bool] = Channel("kept tolerations")

    def kept(self) -> bool:
        """True until the API server has answered."""
        return self._known is not False

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            found = await self._ask()
            if found is not None and found is not self._known:
                _log.info(_KEEPS if found else _DROPS)
                self._known = found
                self.changes.send(found)
            await self._clock.sleep(self.RETRY if found is None else self.AGE)

    async def _ask(self) -> bool | None:
        """None without an answer."""
        path, body = RESOURCE_CLAIMS.path(self._namespace), orjson.dumps(_TOLERATING)
        found: bool | None
        try:
            answer: bytes = await READ(self._client.raw, "POST", path, body, query={"dryRun": "All"})
            found = _tolerates(decoded("POST", answer))
        except ApiError as error:
            level = logging.DEBUG if self._is_failing else error.level(logging.WARNING)
            _log.log(level, "cannot find out whether tolerations of devices are kept", extra={"error": str(error)})
            found = None
        self._is_failing = found is None
        return found


def _tolerates(claim: Object) -> bool:
    """Whether a request of the claim has tolerations."""
    exactly = [each.get("exactly") for each in requests_of(claim) if isinstance(each, dict)]
    return any(each.get("tolerations") for each in exactly if isinstance(each, dict))


async def _newest(client: ListerWatcher, resource: Resource, versions: Iterable[str]) -> Resource | None:
    for version in versions:
        found = replace(resource, version=version)
        if found.plural in await READ(client.served, found.api_version):
            return found
    return None


async def user_name(client: Client) -> str:
    """The user name that the API server knows this client by (SelfSubjectReview).  Raises ApiError."""
    answer: Object = await READ(client.create, SELF_SUBJECT_REVIEWS, SELF_SUBJECT_REVIEWS.type_meta)
    return str(answer["status"]["userInfo"]["username"])


async def may(client: Client, verb: str, group: str, resource: str, subresource: str = "", *, user: str = "") -> bool:
    """Whether `user`, or else this client's own user, may do that on the whole cluster.  Raises ApiError.

    Asks by SubjectAccessReview or SelfSubjectAccessReview.
    """
    kind = SUBJECT_ACCESS_REVIEWS if user else SELF_SUBJECT_ACCESS_REVIEWS
    subject: Object = {"user": user, "groups": ["system:authenticated"]} if user else {}
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    review = {**kind.type_meta, "spec": {**subject, "resourceAttributes": attributes}}
    answer: Object = await READ(client.create, kind, review)
    return bool(answer["status"]["allowed"])


async def _may_bind(client: Client, user: str) -> bool | None:
    """Whether both verbs are granted that the API server checks, from 1.36 on, when `allocation` or `reservedFor`
    change; None when access reviews are forbidden or not served."""
    for verb in ("update", "patch"):
        try:
            if not await may(client, verb, RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural, "binding", user=user):
                return False
        except (Forbidden, NotFound):
            return None
    return True
