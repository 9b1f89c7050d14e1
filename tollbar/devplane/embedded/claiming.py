"""ResourceClaims of Pods: generated from templates, and given back when nobody uses them.

Run by `controllers`, in the place of kube-controller-manager's claim controller and under its name; switched off where
another one runs (`claims=False`).  Only what a plane for trials needs: one worker, Pods alone as consumers.
"""

import asyncio
import uuid
from typing import Final

from tollbar import wellknown
from tollbar.decide import deallocation
from tollbar.devplane.embedded.following import Seen
from tollbar.devplane.embedded.garbage import without_finalizer
from tollbar.devplane.embedded.registry import Registry
from tollbar.devplane.embedded.writes import Writer
from tollbar.model import claims, names, pods, timestamps
from tollbar.model.objects import Key, Object, annotations_of, key_of, labels_of, uid_of
from tollbar.runtime.resources import (
    EVENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)

_MANAGER: Final = "ResourceClaimController"
_Item = tuple[Resource, Key]


class Claiming:
    def __init__(self, registry: Registry) -> None:
        self._writer = Writer(registry, _MANAGER)
        self._clock = registry.clock
        self._queue: asyncio.Queue[_Item] = asyncio.Queue()

    def note(self, stored: Resource, seen: Seen) -> None:
        """A change of anything."""
        if stored == PODS:
            self._queue.put_nowait((PODS, seen.key))
            for name in claims.names_of(seen.after or seen.before or {}):
                self._queue.put_nowait((RESOURCE_CLAIMS, Key(seen.key.namespace, name)))
        elif stored == RESOURCE_CLAIMS:
            self._queue.put_nowait((RESOURCE_CLAIMS, seen.key))
        elif stored == RESOURCE_CLAIM_TEMPLATES and seen.after is not None:
            for pod in self._writer.all(PODS, seen.key.namespace):
                if any(each.get("resourceClaimTemplateName") == seen.key.name for each in pods.claim_references(pod)):
                    self._queue.put_nowait((PODS, key_of(pod)))

    async def run(self) -> None:
        while True:
            resource, key = await self._queue.get()
            obj = self._writer.get(resource, key)
            if obj is None:
                continue
            if resource == PODS:
                await self._generate(obj)
            else:
                await self._give_back(obj)

    async def _generate(self, pod: Object) -> None:
        """Claims for the references to templates that have none, and their names into the Pod's status."""
        if pods.is_deleting(pod) or pods.is_terminal(pod):
            return
        known = {each["name"]: each for each in (pod.get("status") or {}).get("resourceClaimStatuses") or ()}
        missing = [
            each for each in pods.claim_references(pod) if claims.resolve(pod, each) is claims.Unresolved.NOT_CREATED
        ]
        for reference in missing:
            claim = self._adopted(pod, reference) or await self._created(pod, reference)
            if claim is None:
                return
            name = {"name": reference["name"], "resourceClaimName": key_of(claim).name}
            known[reference["name"]] = name
        if missing:
            status = {"resourceClaimStatuses": [known[name] for name in sorted(known)]}
            meta = {"name": key_of(pod).name, "namespace": key_of(pod).namespace, "uid": uid_of(pod)}
            await self._writer.apply(PODS, {"metadata": meta, "status": status}, "status")

    def _adopted(self, pod: Object, reference: Object) -> Object | None:
        """The claim that was made for it before its name could be written down."""
        found = (
            claim
            for claim in self._writer.all(RESOURCE_CLAIMS, key_of(pod).namespace)
            if claims.owned_by_pod(claim, pod) and claims.reference_of(claim) == reference["name"]
        )
        return next(found, None)

    async def _created(self, pod: Object, reference: Object) -> Object | None:
        """A claim after the template; None, and the Pod is told, when there is no such template."""
        key = key_of(pod)
        name = reference["resourceClaimTemplateName"]
        template = self._writer.get(RESOURCE_CLAIM_TEMPLATES, Key(key.namespace, name))
        if template is None:
            missing = f'resource claim template "{name}": resourceclaimtemplate.resource.k8s.io "{name}" not found'
            await self._tell(pod, f"PodResourceClaim {reference['name']}: {missing}")
            return None
        pattern = template["spec"]
        meta = {
            "generateName": names.generate_name(key.name, reference["name"]),
            "namespace": key.namespace,
            "labels": labels_of(pattern),
            "annotations": {**annotations_of(pattern), wellknown.POD_CLAIM_NAME_ANNOTATION: reference["name"]},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid_of(pod), "controller": True}
            ],
        }
        return await self._writer.create(RESOURCE_CLAIMS, {"metadata": meta, "spec": pattern["spec"]})

    async def _tell(self, pod: Object, note: str) -> None:
        key = key_of(pod)
        event = {
            "metadata": {"name": f"{key.name}.{uuid.uuid4().hex[:16]}", "namespace": key.namespace},
            "eventTime": timestamps.micro_time(self._clock.now()),
            "type": "Warning",
            "reason": "FailedResourceClaimCreation",
            "action": "Create",
            "note": note,
            "reportingController": "resource_claim",
            "reportingInstance": "resource_claim-embedded",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": key.name,
                "namespace": key.namespace,
                "uid": uid_of(pod),
            },
        }
        await self._writer.create(EVENTS, event)

    async def _give_back(self, claim: Object) -> None:
        """Take away the entries of Pods that are done; the last one takes the allocation along."""
        namespace = key_of(claim).namespace
        gone = {
            entry["uid"]
            for entry in claims.reserved_for(claim)
            if claims.is_pod_entry(entry) and self._is_done(Key(namespace, entry["name"]), entry["uid"])
        }
        plan = deallocation.remove(claim, gone) or deallocation.finish(claim)
        if plan is None:
            return
        if plan.status is not None:
            status = dict.fromkeys(claim.get("status") or {}) | plan.status
            await self._writer.edit(RESOURCE_CLAIMS, claim, lambda _: {"status": status}, "status")
        if plan.unprotect:
            await self._writer.edit(
                RESOURCE_CLAIMS,
                claim,
                lambda found: without_finalizer(found, wellknown.DELETE_PROTECTION_FINALIZER),
            )

    def _is_done(self, key: Key, uid: str) -> bool:
        pod = self._writer.get(PODS, key)
        return pod is None or uid_of(pod) != uid or pods.is_done(pod)
