"""What a scenario says: objects that appear and go, the scheduler's and the kubelet's part, and what it waits for.

A scenario is an asynchronous function of a `World`, one namespace of a plane.  It plays the scheduler and the kubelet
itself, so that only the claim controller is free in what it does.  A wait that is in vain is part of the trace, not an
error: the other side must wait in vain as well.

Whatever both sides have to do the same about, they have to know the same of: a script goes on when what it did has been
seen, and it never does two things in a row that the controller may react to one by one or both at once.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from history.recording import Recorder

from parity.fences import FINALIZER, Fences
from tollbar.model.objects import Object, metadata, uid_of
from tollbar.model.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, Resource
from tollbar.runtime.client import Client, PatchType

POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
EXTENDED: Final = "resource.kubernetes.io/extended-resource-claim"
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", namespaced=True)
NODE: Final = "node-1"
GPU: Final = {"gpu": "gpu"}
"""The usual reference: to the template (or claim) gpu, which the Pod calls gpu."""
PATIENCE: Final = 60.0
"""Seconds for what both sides come to."""
SOON: Final = 10.0
"""Seconds, after a fence, for what one side never comes to, and the other one at once."""

_QUIET_SECONDS: Final = 0.5
_ENDLESS: Final = 100

References = Mapping[str, str]
"""Of a Pod or PodGroup: its own name for a claim, and the name of the template or claim."""


def asking(*, admin: bool = False, first_available: bool = False) -> Object:
    """A claim's spec: one request."""
    wanted: Object = {"deviceClassName": "gpu"}
    if first_available:
        return {"devices": {"requests": [{"name": "gpu", "firstAvailable": [{"name": "a100", **wanted}]}]}}
    exactly = {**wanted, "adminAccess": True} if admin else wanted
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def allocation(request: str = "gpu", device: str = "gpu-0") -> Object:
    result = {"request": request, "driver": "gpu.example.com", "pool": "pool", "device": device}
    return {"devices": {"results": [result]}}


def entry_of(obj: Object, resource: str = "pods", group: str = "") -> Object:
    """A consumer, as reservedFor has it."""
    entry = {"resource": resource, "name": metadata(obj)["name"], "uid": uid_of(obj)}
    return {**entry, "apiGroup": group} if group else entry


def a_deployment(name: str = "trainer") -> Object:
    """A consumer that is no Pod."""
    return {"apiGroup": "apps", "resource": "deployments", "name": name, "uid": "5f1a7b62-0000-4000-8000-000000000001"}


def owned_by(obj: Object) -> list[Object]:
    """ownerReferences of what belongs to this Pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata(obj)["name"], "uid": uid_of(obj), "controller": True}
    return [owner]


def _references(templates: References | None, claims: References | None) -> list[Object]:
    return [
        *({"name": own, "resourceClaimTemplateName": each} for own, each in (templates or {}).items()),
        *({"name": own, "resourceClaimName": each} for own, each in (claims or {}).items()),
    ]


@dataclass
class World:
    """One namespace.  Methods wait until what they did is seen here; only those that say so wait for the controller.

    `down` and `up` stop and start the controller under test, for all scenarios of the round at once.
    """

    client: Client
    recorder: Recorder
    fences: Fences
    namespace: str
    down: Callable[[], Awaitable[None]]
    up: Callable[[], Awaitable[None]]
    in_vain: list[str] = field(default_factory=list)
    """What was waited for and did not come."""
    is_down: bool = False

    # What is there.

    def get(self, kind: str, name: str) -> Object | None:
        return self.recorder.objects[self.namespace].get((kind, name))

    def all(self, kind: str) -> list[Object]:
        return [obj for (of, _), obj in self.recorder.objects[self.namespace].items() if of == kind]

    def claim_of(self, pod: str = "web", own: str = "gpu", *, kind: str = "Pod") -> str:
        """The name that the Pod's status has for one of its claims, "" without."""
        status = (self.get(kind, pod) or {}).get("status") or {}
        named = {each["name"]: each.get("resourceClaimName", "") for each in status.get("resourceClaimStatuses") or ()}
        return named.get(own, "")

    def reserved(self, claim: str) -> list[str]:
        """Names of the claim's consumers."""
        status = (self.get("ResourceClaim", claim) or {}).get("status") or {}
        return [each["name"] for each in status.get("reservedFor") or ()]

    def is_allocated(self, claim: str) -> bool:
        return "allocation" in ((self.get("ResourceClaim", claim) or {}).get("status") or {})

    def has_finalizer(self, claim: str) -> bool:
        found = self.get("ResourceClaim", claim)
        return found is not None and FINALIZER in metadata(found).get("finalizers", ())

    # What is waited for.

    async def until(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE) -> bool:
        """Wait for the controller; whether it came."""
        if await self.recorder.until(holds, seconds):
            return True
        self.in_vain.append(what)
        return False

    async def named(self, pod: str = "web", *own: str, kind: str = "Pod", seconds: float = PATIENCE) -> bool:
        """Wait until the controller has generated these claims (by default gpu) and said so, and they exist."""

        def holds() -> bool:
            names = [self.claim_of(pod, each, kind=kind) for each in own or ("gpu",)]
            return all(name and self.get("ResourceClaim", name) for name in names)

        return await self.until(f"{pod} has its claims", holds, seconds)

    async def gone(self, kind: str, name: str) -> bool:
        return await self.until(f"{kind} {name} is gone", lambda: self.get(kind, name) is None)

    async def freed(self, claim: str) -> bool:
        """Wait until nothing is left of a claim's allocation."""
        return await self.until(
            "freed",
            lambda: not self.is_allocated(claim) and not self.reserved(claim) and not self.has_finalizer(claim),
        )

    async def known(self) -> None:
        """Wait until the controller knows everything that happened; one that is down learns it when it starts."""
        if not self.is_down and not await self.fences.passed():
            self.in_vain.append("the fence")

    async def quiet(self) -> None:
        """Wait until the controller has looked at everything that happened, and nothing happens any more."""
        await self.known()
        await self.recorder.quiet(frozenset({self.namespace}), _QUIET_SECONDS)

    async def silence(self) -> None:
        """Wait until nothing happens any more, or so much has that there is no end to it."""
        await self.known()
        changes = self.recorder.changes[self.namespace]
        begun = len(changes)
        while len(changes) - begun < _ENDLESS:
            if await self.recorder.quiet(frozenset({self.namespace}), _QUIET_SECONDS, limit=_QUIET_SECONDS):
                break

    @asynccontextmanager
    async def while_down(self) -> AsyncGenerator[None, None]:
        """The controller does not run within the block.  For scenarios of the round "restart"."""
        await self.down()
        self.is_down = True
        yield
        await self.up()
        self.is_down = False

    # What users do.

    async def template(self, name: str = "gpu", *, spec: Object | None = None, **meta: Any) -> None:
        """One that the controller knows; `meta` is for the claims: labels, annotations."""
        body = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"metadata": meta, "spec": spec or asking()},
        }
        await self.client.create(RESOURCE_CLAIM_TEMPLATES, body)
        await self.known()

    async def drop_template(self, name: str = "gpu") -> None:
        """The controller knows."""
        await self.client.delete(RESOURCE_CLAIM_TEMPLATES, name, self.namespace)
        await self.known()

    async def claim(self, name: str = "", *, spec: Object | None = None, **meta: Any) -> str:
        """A claim made by hand; without a name it has a generateName.  Its name."""
        named = {"name": name} if name else {}
        body = {"metadata": {"namespace": self.namespace, **named, **meta}, "spec": spec or asking()}
        return str(metadata(await self._create(RESOURCE_CLAIMS, body))["name"])

    async def pod(
        self,
        name: str = "web",
        *,
        templates: References | None = None,
        claims: References | None = None,
        gates: tuple[str, ...] = (),
        group: str = "",
        spec: Object | None = None,
        **meta: Any,
    ) -> Object:
        """A Pod that nobody schedules but the scenario, unless `spec` says otherwise."""
        wanted: Object = {
            "containers": [{"name": "main", "image": "example.com/app"}],
            "schedulerName": "scenario",
            "resourceClaims": _references(templates, claims),
        }
        if gates:
            wanted["schedulingGates"] = [{"name": gate} for gate in gates]
        if group:
            wanted["schedulingGroup"] = {"podGroupName": group}
        body = {"metadata": {"name": name, "namespace": self.namespace, **meta}, "spec": {**wanted, **(spec or {})}}
        return await self._create(PODS, body)

    async def pod_group(
        self, name: str = "group", *, templates: References | None = None, claims: References | None = None
    ) -> Object:
        body = {
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"schedulingPolicy": {"basic": {}}, "resourceClaims": _references(templates, claims)},
        }
        return await self._create(POD_GROUPS, body)

    async def _create(self, resource: Resource, body: Object) -> Object:
        created: Object = await self.client.create(resource, body)
        await self._seen(created)
        return created

    async def _seen(self, obj: Object) -> None:
        """Wait until the recorder has seen this state or a later one: or the past might be what is waited for next."""

        def holds() -> bool:
            latest = reversed(self.recorder.changes[self.namespace])
            return any(uid_of(each.object) == uid_of(obj) and _version(each.object) >= _version(obj) for each in latest)

        await self.until("the recorder", holds)

    async def delete(self, resource: Resource, name: str) -> None:
        await self.client.delete(resource, name, self.namespace)

    async def delete_claim(self, name: str) -> None:
        await self.client.delete(RESOURCE_CLAIMS, name, self.namespace)

    async def record(self, pod: str, **claims: str) -> None:
        """Write claims into the Pod's status, as the controller would; "" is a claim that is not needed."""
        statuses = [{"name": own, **({"resourceClaimName": name} if name else {})} for own, name in claims.items()]
        await self.patch(PODS, pod, {"status": {"resourceClaimStatuses": statuses}}, "status")

    async def patch(self, resource: Resource, name: str, body: Object, subresource: str = "") -> None:
        """A merge patch."""
        await self._patch(resource, name, body, PatchType.MERGE, subresource)

    async def _patch(self, resource: Resource, name: str, body: Object, kind: PatchType, subresource: str) -> None:
        patched = await self.client.patch(
            resource,
            name,
            body,
            namespace=self.namespace,
            patch_type=kind,
            subresource=subresource,
            field_manager="scenario",
        )
        await self._seen(patched)

    # What the scheduler does.

    async def protect(self, claim: str) -> None:
        await self.patch(RESOURCE_CLAIMS, claim, {"metadata": {"finalizers": [FINALIZER]}})

    async def allocate(self, claim: str, *entries: Object, request: str = "gpu") -> None:
        """Allocation and consumers in one write, without the finalizer that comes before (`protect`)."""
        status = {"allocation": allocation(request), "reservedFor": list(entries)}
        await self.patch(RESOURCE_CLAIMS, claim, {"status": status}, "status")

    async def reserve(self, claim: str, entry: Object) -> None:
        """One more consumer, and the controller knows: or it might reserve for a Pod that is bound then."""
        await self._patch(RESOURCE_CLAIMS, claim, {"status": {"reservedFor": [entry]}}, PatchType.STRATEGIC, "status")
        await self.known()

    async def bind(self, pod: str = "web") -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        await self.client.raw("POST", PODS.path(self.namespace, pod, "binding"), orjson.dumps(body))

    async def schedule(self, pod: Object, *claims: str, request: str = "gpu") -> None:
        """Protect, allocate for, or reserve for, this Pod; bind and start it; the controller knows."""
        for claim in claims:
            current = await self.client.get(RESOURCE_CLAIMS, claim, self.namespace)
            if "allocation" in (current.get("status") or {}):
                await self.reserve(claim, entry_of(pod))
            else:
                await self.protect(claim)
                await self.allocate(claim, entry_of(pod), request=request)
        await self.bind(metadata(pod)["name"])
        await self.phase("Running", metadata(pod)["name"])
        await self.known()

    # What the kubelet does.

    async def phase(self, phase: str, pod: str = "web") -> None:
        await self.patch(PODS, pod, {"status": {"phase": phase}}, "status")

    async def finish(self, pod: str = "web") -> None:
        await self.phase("Succeeded", pod)

    async def terminate(self, pod: str = "web") -> None:
        """Ask for deletion: a bound Pod goes on until its kubelet is done (`remove`)."""
        await self.client.delete(PODS, pod, self.namespace)

    async def remove(self, pod: str = "web") -> None:
        """The Pod is no more."""
        await self.client.delete(PODS, pod, self.namespace, grace_period_seconds=0)


def _version(obj: Object) -> int:
    return int(metadata(obj)["resourceVersion"])


Script = Callable[[World], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Scenarios of a round run at one time."""

    sentence: str
    script: Script
    round: str

    @property
    def namespace(self) -> str:
        return self.script.__name__.replace("_", "-")


SCENARIOS: Final[dict[str, Scenario]] = {}
"""By sentence."""


def scenario(sentence: str, *, turn: str = "usual") -> Callable[[Script], Script]:
    """Rounds: usual; restart, where the controller is stopped and started; groups, with PodGroups
    served; loops, after which the plane is worn out."""

    def register(script: Script) -> Script:
        SCENARIOS[sentence] = Scenario(sentence, script, turn)
        return script

    return register
