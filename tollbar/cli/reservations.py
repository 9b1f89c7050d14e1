"""`tollbar drain --reservations`: no claim is kept by an entry of ours any more, and no Pod loses its devices by that.

Every entry of ours is replaced by entries of the Pods that use the claim, in one write fenced by the claim's
resourceVersion; a claim that nobody uses is freed.  A last list proves that none is left.

Hazards: the controllers would put their entries back: stop them first, or let them run with `claims: Disabled`.
Interrupted, some claims keep our entry; run it again.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tollbar.decide.claims import draining
from tollbar.decide.claims.draining import DrainingFacts
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS
from tollbar.runtime import claimwrites, pager
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.runtime.retry import READ

_ATTEMPTS: Final = 5

_Result: TypeAlias = Literal["swapped", "freed", "meanwhile"] | str
"""What became of one claim; anything else is why it keeps our entry."""


@dataclass(frozen=True, slots=True)
class Swapped:
    """Numbers of claims: whose Pods took our entry's place, that were freed, and that still have it.

    `refused` are (claim, reason) pairs.
    """

    swapped: int
    freed: int
    refused: tuple[tuple[str, str], ...]
    remaining: int


async def swap_all(client: Client) -> Swapped:
    """Raises ApiError when even listing is refused."""
    if RESOURCE_CLAIMS.plural not in await READ(client.served, RESOURCE_CLAIMS.api_version):
        return Swapped(0, 0, (), 0)
    counts: Counter[str] = Counter()
    refused = []
    by_namespace: defaultdict[str, list[Object]] = defaultdict(list)
    for claim in await _reserved(client):
        by_namespace[key_of(claim).namespace].append(claim)
    for namespace, found in by_namespace.items():
        users = [pod async for pod in pager.every(client, PODS, namespace)]
        for claim in found:
            result = await _swap(client, claim, users)
            counts[result] += 1
            if result not in ("swapped", "freed", "meanwhile"):
                refused.append((str(key_of(claim)), result))
    remaining = len(await _reserved(client)) if by_namespace else 0
    return Swapped(counts["swapped"], counts["freed"], tuple(refused), remaining)


async def _reserved(client: Client) -> list[Object]:
    return [claim async for claim in pager.every(client, RESOURCE_CLAIMS) if draining.entries_of_ours(claim)]


async def _swap(client: Client, claim: Object, pods: list[Object]) -> _Result:
    key = key_of(claim)
    users = [pod for pod in pods if key.name in claims.names_of(pod)]
    for _ in range(_ATTEMPTS):
        plan = draining.decide(DrainingFacts(claim, users))
        if plan is None:
            return "meanwhile"
        try:
            await claimwrites.perform(client, claim, plan)
            return "freed" if plan.unprotect else "swapped"
        except NotFound:
            return "meanwhile"
        except Conflict:
            pass
        except ApiError as error:
            return str(error)
        try:
            claim = await READ(client.get, RESOURCE_CLAIMS, key.name, key.namespace)
        except NotFound:
            return "meanwhile"
        users = await _users(client, key)
    return "it changed at every attempt"


async def _users(client: Client, claim: Key) -> list[Object]:
    return [pod async for pod in pager.every(client, PODS, claim.namespace) if claim.name in claims.names_of(pod)]
