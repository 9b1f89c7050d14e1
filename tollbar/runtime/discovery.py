"""Finds the resource for a group and a plural name by API discovery.

Nothing is cached: what is served changes with every CRD.
"""

from collections.abc import Iterable
from typing import Final

from tollbar.model.objects import Object
from tollbar.model.resources import Resource
from tollbar.runtime.client import Client, decoded
from tollbar.runtime.errors import NotFound

_VERBS: Final = frozenset({"get", "list", "watch"})


async def find(client: Client, group: str, plural: str) -> Resource | None:
    """The resource in the group's preferred version, or else in any other version.

    None when discovery does not list it, or lists it without get, list and watch (as for reviews and metrics).
    Raises ApiError when discovery itself fails, in which case nothing is known.
    """
    for version in await _versions(client, group):
        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
        for found in (await _get(client, prefix)).get("resources") or ():
            if found.get("name") == plural and set(found.get("verbs") or ()) >= _VERBS:
                return Resource(group, version, plural, str(found["kind"]), bool(found.get("namespaced")))
    return None


async def _versions(client: Client, group: str) -> Iterable[str]:
    """Versions of a group, the preferred one first."""
    if not group:
        return ("v1",)
    answer = await _get(client, f"/apis/{group}")
    served = [str(each["version"]) for each in answer.get("versions") or ()]
    preferred = (answer.get("preferredVersion") or {}).get("version")
    return sorted(served, key=lambda version: version != preferred)


async def _get(client: Client, path: str) -> Object:
    """The decoded answer; an empty object for 404."""
    try:
        return decoded("GET", await client.raw("GET", path))
    except NotFound:
        return {}
