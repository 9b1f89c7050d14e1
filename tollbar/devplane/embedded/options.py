"""CreateOptions, UpdateOptions, PatchOptions, DeleteOptions and ListOptions, from queries and bodies.

Invalid values raise Refused with the API server's texts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tollbar.api import durations
from tollbar.devplane.embedded import decoding, errors, storage
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.requests import WriteOptions
from tollbar.model.fields import FieldError, forbidden, required, too_long, unsupported
from tollbar.model.objects import Key, Object
from tollbar.runtime.client import PatchType

_MANAGER_MAX: Final = 128
_POLICIES: Final = ("Background", "Foreground", "Orphan")
_DIGITS: Final = re.compile("[0-9]{1,19}")


def write(
    name: str, query: Mapping[str, str], dry_runs: Sequence[str], agent: str, media: PatchType | None = None
) -> WriteOptions:
    """Options of the kind `name`; `agent` is the User-Agent, which is the field manager unless the query names one."""
    causes = []
    if any(each != "All" for each in dry_runs):
        listed = ",".join(f'"{each}"' for each in dry_runs)
        causes.append(FieldError("dryRun", f'Unsupported value: [{listed}]: supported values: "All"'))
    level = query.get("fieldValidation") or "Warn"
    if level not in decoding.LEVELS:
        causes.append(unsupported("fieldValidation", level, decoding.LEVELS))
    manager = query.get("fieldManager") or ""
    if media is PatchType.APPLY and not manager:
        causes.append(required("fieldManager", "is required for apply patch"))
    force = query.get("force", "").lower() in ("1", "true")
    if force and media is not PatchType.APPLY:
        causes.append(forbidden("force", "may not be specified for non-apply patch"))
    if len(manager) > _MANAGER_MAX:
        causes.append(too_long("fieldManager", _MANAGER_MAX))
    if causes:
        raise errors.invalid("meta.k8s.io", name, "", causes)
    raw: Object = {"apiVersion": "meta.k8s.io/v1", "kind": name}
    raw |= {"dryRun": list(dry_runs)} if dry_runs else {}
    raw |= {key: query[key] for key in ("fieldManager", "fieldValidation") if query.get(key)}
    return WriteOptions(
        manager or agent.partition("/")[0][:_MANAGER_MAX] or "unknown", bool(dry_runs), level, force, raw
    )


def seconds(query: Mapping[str, str]) -> float | None:
    """For how long a request may be worked on; None without a limit.  Raises Refused for what is no duration."""
    text = query.get("timeout") or "0s"
    try:
        return durations.parse(text) or None
    except ValueError as error:
        why = f'time: invalid duration "{text}"'
        raise errors.bad_request(f"invalid timeout specified in the request URL - {why}") from error


def delete(query: Mapping[str, str], body: Object) -> Object:
    """DeleteOptions from the body, or from the query where there is none."""
    found: dict[str, Any] = dict(body)
    if not found and query.get("gracePeriodSeconds"):
        found["gracePeriodSeconds"] = _number("gracePeriodSeconds", query["gracePeriodSeconds"])
    if not body and query.get("propagationPolicy"):
        found["propagationPolicy"] = query["propagationPolicy"]
    if "orphanDependents" in {*query, *found}:
        raise errors.not_implemented("orphanDependents: send propagationPolicy")
    policy = found.get("propagationPolicy")
    if policy not in (None, *_POLICIES):
        cause = unsupported("propagationPolicy", policy, _POLICIES)
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    return found


class Listing(NamedTuple):
    """Where a list starts, and its revision; 0 is the newest."""

    limit: int
    revision: int
    start: Key | None


def listing(query: Mapping[str, str], current: int) -> Listing:
    """Raises Refused: 400 for malformed numbers and tokens, 504 for a resourceVersion of the future."""
    limit = _number("limit", query.get("limit") or "0")
    if token := query.get("continue"):
        try:
            revision, start = storage.position(token)
        except ValueError as error:
            raise errors.bad_request("invalid continue token: continue key is not valid") from error
        return Listing(limit, revision, start)
    version, match = query.get("resourceVersion") or "", query.get("resourceVersionMatch") or ""
    if match and not version:
        why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
        raise errors.invalid("meta.k8s.io", "ListOptions", "", [forbidden("resourceVersionMatch", why)])
    revision = _number("resourceVersion", version or "0", "invalid resource version: ")
    if revision > current:
        said = f"Too large resource version: {revision}, current: {current}"
        cause = FieldError("", "Too large resource version", "ResourceVersionTooLarge")
        raise Refused(504, "Timeout", f"Timeout: {said}", causes=[cause], retry_after=1)
    exact = match == "Exact" or (limit and not match)
    return Listing(limit, revision if exact else 0, None)


class Watching(NamedTuple):
    """What a watch asks for.

    It starts after `revision`, or with ADDED for all objects if that is None.  With `initial_end` a bookmark tells when
    all of these were sent (`sendInitialEvents`).  It ends after `seconds`, or when the server likes if that is 0.
    """

    revision: int | None
    initial_end: bool
    seconds: int


def watching(query: Mapping[str, str], current: int) -> Watching:
    """Raises Refused."""
    version, initial = query.get("resourceVersion") or "", query.get("sendInitialEvents", "").lower()
    if initial and query.get("resourceVersionMatch") != "NotOlderThan":
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise errors.invalid("meta.k8s.io", "ListOptions", "", [forbidden("resourceVersionMatch", why)])
    seconds = _number("timeoutSeconds", query.get("timeoutSeconds") or "0")
    if version and not _DIGITS.fullmatch(version):
        raise Refused(500, "", f'resourceVersion: Invalid value: "{version}": not a number')
    if initial == "true" or (not initial and version in ("", "0")):
        return Watching(None, initial == "true", seconds)
    return Watching(int(version) if version not in ("", "0") else current, False, seconds)


def _number(name: str, text: str, context: str = "") -> int:
    if not _DIGITS.fullmatch(text):
        raise errors.bad_request(f'{context}{name}: Invalid value: "{text}": not a number')
    return int(text)
