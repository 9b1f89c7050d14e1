"""Reservations of workloads in `tollbar drain`: which claims have one, and how they lose it.

With `--reservations` the entries of workloads are removed from all claims, and no Pod loses its devices.

Each entry of a workload is replaced by entries of the Pods that use the claim, in one write with the claim's
resourceVersion as a precondition; a claim without consumers is deallocated.  A last list checks that none is left.

Hazards: running controllers would add their entries again: stop them first, or let them run with `claims: Disabled`.
If the command is interrupted, some claims keep the entry: run it again.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tollbar.decide.claims import draining
from tollbar.decide.claims.draining import DrainingFacts
from tollbar.model import claims
from tollbar.model.objects import Key, Object, key_of
from tollbar.model.resources import PODS, RESOURCE_CLAIMS
from tollbar.model.workloads import Reference
from tollbar.runtime import claimwrites, pager
from tollbar.runtime.client import Client
from tollbar.runtime.errors import ApiError, Conflict, NotFound
from tollbar.runtime.retry import READ

_ATTEMPTS: Final = 5

_Result: TypeAlias = Literal["handed over", "freed", "settled by others"] | str
"""What became of one claim; anything else is why it keeps our entry."""


@dataclass(frozen=True, slots=True)
class GivenBack:
    """Numbers of claims: handed over to the Pods that use them, freed, and still reserved for a workload.

    `refused` are (claim, reason) pairs.
    """

    handed_over: int
    freed: int
    refused: tuple[tuple[str, str], ...]
    remaining: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """A claim that has an entry of ours, and the Pods that refer to it."""

    claim: Object
    users: list[Object]

    def __str__(self) -> str:
        """`ResourceClaim shop/device, reserved for deployments.apps/web`."""
        ours = draining.entries_of_ours(self.claim)
        entries = [entry for entry in claims.reserved_for(self.claim) if entry.get("uid") in ours]
        kept_for = (Reference(str(each.get("apiGroup") or ""), each["resource"], each["name"]) for each in entries)
        return f"ResourceClaim {key_of(self.claim)}, reserved for {', '.join(map(str, kept_for))}"

    @property
    def is_to_be_freed(self) -> bool:
        """Whether nobody uses the claim, so that nobody takes the place of the workload."""
        plan = draining.decide(DrainingFacts(self.claim, self.users))
        return plan is not None and plan.unprotect


async def find(client: Client) -> list[Reserved]:
    """All of them, by namespace.  Raises ApiError when listing is refused."""
    if RESOURCE_CLAIMS.plural not in await READ(client.served, RESOURCE_CLAIMS.api_version):
        return []
    by_namespace: defaultdict[str, list[Object]] = defaultdict(list)
    async for claim in pager.every(client, RESOURCE_CLAIMS):
        if draining.entries_of_ours(claim):
            by_namespace[key_of(claim).namespace].append(claim)
    found = []
    for namespace, reserved in by_namespace.items():
        pods = [pod async for pod in pager.every(client, PODS, namespace)]
        found += [Reserved(claim, _using(claim, pods)) for claim in reserved]
    return found


def _using(claim: Object, pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if key_of(claim).name in claims.names_of(pod)]


async def give_back(client: Client) -> GivenBack:
    """Remove the entries of workloads from all claims.  Raises ApiError when even listing is refused."""
    counts: Counter[str] = Counter()
    refused = []
    found = await find(client)
    for reserved in found:
        result = await _give_back(client, reserved.claim, reserved.users)
        counts[result] += 1
        if result not in ("handed over", "freed", "settled by others"):
            refused.append((str(key_of(reserved.claim)), result))
    remaining = len(await find(client)) if found else 0
    return GivenBack(counts["handed over"], counts["freed"], tuple(refused), remaining)


async def _give_back(client: Client, claim: Object, users: list[Object]) -> _Result:
    key = key_of(claim)
    for _ in range(_ATTEMPTS):
        plan = draining.decide(DrainingFacts(claim, users))
        if plan is None:
            return "settled by others"
        try:
            await claimwrites.perform(client, claim, plan)
            return "freed" if plan.unprotect else "handed over"
        except NotFound:
            return "settled by others"
        except Conflict:
            pass
        except ApiError as error:
            return str(error)
        try:
            claim = await READ(client.get, RESOURCE_CLAIMS, key.name, key.namespace)
        except NotFound:
            return "settled by others"
        users = await _users(client, key)
    return "it changed at every attempt"


async def _users(client: Client, claim: Key) -> list[Object]:
    return [pod async for pod in pager.every(client, PODS, claim.namespace) if claim.name in claims.names_of(pod)]
