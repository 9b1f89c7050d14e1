"""The ResourceClaim controller: generates claims from templates and deallocates those that no Pod uses.

It stands in for kube-controller-manager's controller, under its field manager.  The decisions are those of Tollbar's
own controller (`tollbar.decide.claims`), on what is in storage, and one worker carries them out.  There are no
PodGroups, and a Pod that was created with a Node gets no reservation.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tollbar import wellknown
from tollbar.decide.claims import consumers, resourceclaims
from tollbar.decide.claims.consumers import ConsumerFacts, statuses
from tollbar.decide.claims.resourceclaims import ClaimFacts, ClaimPlan, references_to_clean
from tollbar.devplane.embedded.garbage import without_finalizer
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.storage import Delta
from tollbar.devplane.embedded.writes import Writer
from tollbar.model import claims, pods, timestamps
from tollbar.model.ask import Absence, Answers, Ask, Get
from tollbar.model.objects import Key, Object, controller_of, key_of, uid_of
from tollbar.model.plan import Event
from tollbar.model.resources import EVENTS, POD_GROUPS, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource

_MANAGER: Final = "ResourceClaimController"
_Item = tuple[Resource, Key]


class ClaimController:
    """Implements `tollbar.decide.claims.resourceclaims.Lookup`."""

    def __init__(self, registry: Registry) -> None:
        self._writer = Writer(registry, _MANAGER)
        self._clock = registry.clock
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()

    def observe(self, stored: Resource, delta: Delta) -> None:
        """A change of anything."""
        if stored == PODS:
            self._queue.put_nowait((PODS, delta.key))
            for key in references_to_clean(delta.after or delta.before or {}):
                self._queue.put_nowait((RESOURCE_CLAIMS, key))
        elif stored == RESOURCE_CLAIMS:
            self._queue.put_nowait((RESOURCE_CLAIMS, delta.key))
        elif stored == RESOURCE_CLAIM_TEMPLATES and delta.after is not None:
            for pod in filter(pods.claim_references, self._writer.all(PODS, delta.key.namespace)):
                self._queue.put_nowait((PODS, key_of(pod)))

    async def run(self) -> None:
        while True:
            resource, key = await self._queue.get()
            obj = self._writer.get(resource, key)
            if obj is not None:
                await (self._reconcile_pod(obj) if resource == PODS else self._reconcile_claim(obj))

    def claim(self, key: Key) -> Object | None:
        return self._writer.get(RESOURCE_CLAIMS, key)

    def claims_owned_by(self, uid: str) -> Sequence[Object]:
        return [each for each in self._writer.all(RESOURCE_CLAIMS) if (controller_of(each) or {}).get("uid") == uid]

    def template(self, key: Key) -> Object | None:
        return self._writer.get(RESOURCE_CLAIM_TEMPLATES, key)

    def pod(self, key: Key) -> Object | None:
        return self._writer.get(PODS, key)

    def pod_group(self, _key: Key) -> Object | None:
        return None

    def serves_pod_groups(self) -> bool:
        return False

    def is_gone(self, _uid: str) -> bool:
        return False

    async def _reconcile_pod(self, pod: Object) -> None:
        """Create the Pod's missing claims and record their names in its status."""
        facts = ConsumerFacts(pod, self)
        plan = consumers.decide(facts)
        if isinstance(plan, Ask):
            plan = consumers.decide(replace(facts, answers=_absent(plan)))
        if isinstance(plan, Ask):
            return
        recorded = dict(plan.found)
        for creation in plan.creations:
            if isinstance(creation.claim, Get):
                raise TypeError("there are no stubs in storage")
            claim = await self._writer.create(RESOURCE_CLAIMS, creation.claim)
            if claim is None:
                return
            recorded[creation.reference] = key_of(claim).name
        if plan.failure is not None:
            await self._report(pod, plan.failure)
        elif recorded:
            meta = {"name": key_of(pod).name, "namespace": key_of(pod).namespace, "uid": uid_of(pod)}
            status = {"resourceClaimStatuses": statuses(pod, recorded)}
            await self._writer.apply(PODS, {"metadata": meta, "status": status}, "status")

    async def _report(self, pod: Object, failure: Event) -> None:
        key = key_of(pod)
        event = {
            "metadata": {"name": f"{key.name}.{uuid.uuid4().hex[:16]}", "namespace": key.namespace},
            "eventTime": timestamps.micro_time(self._clock.now()),
            "type": "Warning",
            "reason": failure.reason,
            "action": "Create",
            "note": failure.note,
            "reportingController": "resource_claim",
            "reportingInstance": "resource_claim-embedded",
            "regarding": {"apiVersion": "v1", "kind": "Pod", **key._asdict(), "uid": uid_of(pod)},
        }
        await self._writer.create(EVENTS, event)

    def _plan(self, claim: Object) -> ClaimPlan:
        facts = ClaimFacts(claim, self)
        plan = resourceclaims.decide(facts)
        if isinstance(plan, Ask):
            plan = resourceclaims.decide(replace(facts, answers=_absent(plan)))
        return plan if isinstance(plan, ClaimPlan) else ClaimPlan()

    async def _reconcile_claim(self, claim: Object) -> None:
        """Remove the entries of Pods that are done, and with the last one the allocation."""
        plan = self._plan(claim)
        if plan.deallocation is not None:
            await self._writer.edit(RESOURCE_CLAIMS, claim, self._freed, "status")
        if plan.deallocation is not None and plan.deallocation.unprotect:
            await self._writer.edit(RESOURCE_CLAIMS, claim, _unprotected)
        if plan.delete:
            await self._writer.delete(RESOURCE_CLAIMS, claim)

    def _freed(self, claim: Object) -> Object | None:
        """Decides again with each attempt: another Pod may use the claim by now."""
        plan = self._plan(claim).deallocation
        if plan is None or plan.status is None:
            return None
        return {"status": dict.fromkeys(claim.get("status") or {}) | plan.status}


def _unprotected(claim: Object) -> Object | None:
    return None if claims.allocation(claim) else without_finalizer(claim, wellknown.DELETE_PROTECTION_FINALIZER)


def _absent(ask: Ask) -> Answers:
    """What storage does not have does not exist; PodGroups are not served."""
    return {
        question: Absence.KIND if isinstance(question, Get) and question.resource == POD_GROUPS else Absence.OBJECT
        for question in ask.questions
    }
