"""Which claims and WorkloadClaims a change wakes: those that it concerns, and nobody else."""

from typing import Any

import pytest
from builders import Built, claim, pod, template
from fakes import FakeEngine

from controllers.reservations import mappers
from tollbar.model.claims import pod_entry
from tollbar.model.objects import Key, Object
from tollbar.runtime.clock import SystemClock
from tollbar.runtime.metrics import Metrics
from tollbar.runtime.workqueue import WorkQueue
from tollbar.views.caches import ClaimCaches

KEPT = claim("kept").annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})
OTHER = claim("other")


def workload_claim(name: str, **spec: Any) -> Built:
    return Built(kind="WorkloadClaim", metadata={"namespace": "ml", "name": name, "uid": name}, spec=spec)


MADE = workload_claim("made", resourceClaimTemplateName="one")
ADOPTED = workload_claim("adopting", resourceClaimName="other")


class World:
    def __init__(self) -> None:
        self.caches = ClaimCaches(engine=FakeEngine(), managed_namespaces={}, system_namespace="tollbar-system")
        for each in (KEPT, OTHER):
            self.caches.claims.apply(each)
        for each in (MADE, ADOPTED):
            self.caches.workload_claims.apply(each)
        self.queues = {
            name: WorkQueue[Key](name, clock=SystemClock(), metrics=Metrics())
            for name in ("reservations", "workloadclaims")
        }
        mappers.subscribe(self.caches, self.queues)

    async def woken(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for name, queue in self.queues.items():
            while len(queue):
                key = await queue.get()
                queue.done(key)
                found.setdefault(name, set()).add(key.name)
        return found


async def test_who_begins_looks_at_what_is_there() -> None:
    assert await World().woken() == {"reservations": {"kept"}, "workloadclaims": {"made", "adopting"}}


CHANGES: dict[str, tuple[str, Object, dict[str, set[str]]]] = {
    "a claim that is kept": ("claims", KEPT.allocated(), {"reservations": {"kept"}}),
    "a claim of a WorkloadClaim": ("claims", OTHER.allocated(), {"workloadclaims": {"adopting"}}),
    "a claim that nobody keeps": ("claims", claim("nobodys"), {}),
    "a claim of which nothing but our entry is left": (
        "claims",
        claim("other").allocated().pinned({"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u1"}),
        {"reservations": {"other"}, "workloadclaims": {"adopting"}},
    ),
    "a claim that nobody keeps any more": (
        "claims",
        claim("kept").allocated().reserved(pod_entry(pod())),
        {"reservations": {"kept"}},
    ),
    "a Pod of a claim that is kept": ("claim_users", pod().claims("kept", "other"), {"reservations": {"kept"}}),
    "a Pod of other claims": ("claim_users", pod().claims("other"), {}),
    "a template": ("templates", template("one"), {"workloadclaims": {"made"}}),
    "another template": ("templates", template("two"), {}),
    "a WorkloadClaim whose claim exists": (
        "workload_claims",
        ADOPTED.but("spec.release", "WhenIdle"),
        {"reservations": {"other"}, "workloadclaims": {"adopting"}},
    ),
    "a WorkloadClaim whose claim does not exist": (
        "workload_claims",
        MADE.but("spec.release", "WhenIdle"),
        {"workloadclaims": {"made"}},
    ),
}


@pytest.mark.parametrize(("store", "changed", "want"), CHANGES.values(), ids=CHANGES)
async def test_changes(store: str, changed: Object, want: dict[str, set[str]]) -> None:
    world = World()
    await world.woken()
    getattr(world.caches, store).apply(changed)
    assert await world.woken() == want


async def test_a_workload_claim_that_is_gone_wakes_its_claim() -> None:
    world = World()
    await world.woken()
    world.caches.workload_claims.remove(ADOPTED)
    assert await world.woken() == {"reservations": {"other"}, "workloadclaims": {"adopting"}}


async def test_every_claim_that_is_kept_is_looked_at_when_what_may_be_reserved_changes() -> None:
    world = World()
    await world.woken()
    mappers.replay(world.caches, world.queues["reservations"])
    assert await world.woken() == {"reservations": {"kept"}}
