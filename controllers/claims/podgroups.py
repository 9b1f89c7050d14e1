"""PodGroups (scheduling.k8s.io, KEP-4671): in which version this cluster serves them."""

from dataclasses import replace
from typing import Final

from tollbar.runtime.client import Client
from tollbar.runtime.resources import POD_GROUPS, Resource
from tollbar.runtime.retry import READ

_VERSIONS: Final = ("v1", "v1beta1", "v1alpha3")


async def served(client: Client) -> Resource:
    """PodGroups in the best version that discovery lists; in the usual one when it lists none, for they may come."""
    for version in _VERSIONS:
        found = replace(POD_GROUPS, version=version)
        if found.plural in await READ(client.served, found.api_version):
            return found
    return POD_GROUPS
