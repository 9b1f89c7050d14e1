"""What decides how Tollbar lives with this cluster's own controllers: its version, what it serves, who may what.

Asked by the controllers when they begin, for their log, and by `tollbar status`, as an administrator.
"""

from dataclasses import dataclass, replace
from typing import Final

import orjson

from tollbar.model.objects import Object
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Forbidden, NotFound
from tollbar.runtime.resources import POD_GROUPS, RESOURCE_CLAIMS, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from tollbar.runtime.retry import READ

_SUBJECT_ACCESS_REVIEWS: Final = replace(
    SELF_SUBJECT_ACCESS_REVIEWS, plural="subjectaccessreviews", kind="SubjectAccessReview"
)
_POD_GROUP_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")
_BINDING: Final = {"group": RESOURCE_CLAIMS.group, "resource": RESOURCE_CLAIMS.plural, "subresource": "binding"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`version` as the API server says it; `pod_groups` is the apiVersion in which it serves PodGroups, empty when it
    does not; `may_bind` whether reservations may be written (`resourceclaims/binding`), None when that is not known.
    """

    version: str
    pod_groups: str
    may_bind: bool | None


async def look_around(client: Client, user: str = "") -> Surroundings:
    """For `user`, or for whoever asks.  Raises ApiError when the API server does not answer."""
    groups = await pod_groups(client)
    return Surroundings(
        await _version(client), groups.api_version if groups is not None else "", await _may_bind(client, user)
    )


async def _version(client: Client) -> str:
    answer: Object = orjson.loads(await READ(client.raw, "GET", "/version"))
    return str(answer.get("gitVersion") or "")


async def pod_groups(client: Client) -> Resource | None:
    """PodGroups (scheduling.k8s.io, KEP-4671) in the best version that is served; None when none is."""
    for version in _POD_GROUP_VERSIONS:
        found = replace(POD_GROUPS, version=version)
        if found.plural in await READ(client.served, found.api_version):
            return found
    return None


async def _may_bind(client: Client, user: str) -> bool | None:
    """Both verbs that the API server asks for, from 1.36 on, when allocation or reservations change."""
    for verb in ("update", "patch"):
        attributes = {**_BINDING, "verb": verb}
        kind = _SUBJECT_ACCESS_REVIEWS if user else SELF_SUBJECT_ACCESS_REVIEWS
        subject: Object = {"user": user, "groups": ["system:authenticated"]} if user else {}
        review = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "spec": {**subject, "resourceAttributes": attributes},
        }
        try:
            answer: Object = await READ(client.create, kind, review)
        except (Forbidden, NotFound):
            return None
        if not answer["status"]["allowed"]:
            return False
    return True


async def described(client: Client) -> Object:
    """For a log line; what cannot be found out is said, never raised."""
    try:
        found = await look_around(client)
    except ApiError as error:
        return {"error": str(error)}
    return {"server": found.version, "podGroups": found.pod_groups, "mayBind": found.may_bind}
