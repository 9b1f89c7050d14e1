"""API objects for tests, written as sentences: `pod("web").gated().claims("gpu")`.

Every builder is the object itself, a plain dict as decoded JSON; every method answers a changed copy that shares what
did not change.  Defaults are what the API server would store, less what no decision looks at.
"""

from collections.abc import Mapping
from typing import Any, Self

from tollbar import wellknown
from tollbar.model import timestamps
from tollbar.model.objects import Object

CREATED = timestamps.parse("2026-01-01T00:00:00Z")
"""When every object was created, in epoch seconds."""
NAMESPACE = "ml"


def toleration(key: str, operator: str = "Exists", effect: str = "NoSchedule", **more: Any) -> Object:
    return {"key": key, "operator": operator, "effect": effect, **more}


class Built(dict[str, Any]):
    """An API object."""

    def but(self, path: str, value: Any) -> Self:
        """A copy with `value` at the dotted path, or without what is there if it is None."""
        copy = type(self)(self)
        *way, last = path.split(".")
        part: dict[str, Any] = copy
        for step in way:
            part[step] = dict(part.get(step) or {})
            part = part[step]
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
        return copy

    def at(self, path: str, default: Any = None) -> Any:
        found: Any = self
        for step in path.split("."):
            if step not in found:
                return default
            found = found[step]
        return found

    def labelled(self, labels: Mapping[str, str] | None = None, **more: str) -> Self:
        return self.but("metadata.labels", {**self.at("metadata.labels", {}), **(labels or {}), **more})

    def annotated(self, annotations: Mapping[str, str]) -> Self:
        return self.but("metadata.annotations", {**self.at("metadata.annotations", {}), **annotations})

    def owned_by(self, kind: str, name: str = "owner", *, api_version: str = "v1", uid: str = "") -> Self:
        """Controlled by that object; its uid is what its builder gives it unless said otherwise."""
        owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid or _uid(name), "controller": True}
        return self.but("metadata.ownerReferences", [*self.at("metadata.ownerReferences", []), owner])

    def created(self, seconds: float) -> Self:
        return self.but("metadata.creationTimestamp", timestamps.time(seconds))


class Pod(Built):
    def gated(self, *names: str) -> Self:
        """Held by these gates, by ours alone if none is named; with our label if ours is one."""
        gates = names or (wellknown.GATE,)
        held = self.but("spec.schedulingGates", [{"name": name} for name in gates])
        return held.labelled({wellknown.LABEL_GATE: wellknown.GATE_HELD}) if wellknown.GATE in gates else held

    def claims(self, *names: str) -> Self:
        """Refers to ResourceClaims by name."""
        return self._referring(*({"name": name, "resourceClaimName": name} for name in names))

    def templates(self, *names: str) -> Self:
        """Refers to ResourceClaimTemplates."""
        return self._referring(*({"name": name, "resourceClaimTemplateName": name} for name in names))

    def _referring(self, *references: Object) -> Self:
        return self.but("spec.resourceClaims", [*self.at("spec.resourceClaims", []), *references])

    def generated(self, reference: str, claim_name: str | None) -> Self:
        """The status names the claim of a template reference, or says that none is needed (None)."""
        status = {"name": reference} if claim_name is None else {"name": reference, "resourceClaimName": claim_name}
        return self.but("status.resourceClaimStatuses", [*self.at("status.resourceClaimStatuses", []), status])

    def wants(self, requests: Mapping[str, str], *, init: bool = False, member: str = "requests") -> Self:
        """One more container, with these resources."""
        kind = "initContainers" if init else "containers"
        others = self.at(f"spec.{kind}", [])
        container = {"name": f"{kind}-{len(others)}", "resources": {member: dict(requests)}}
        return self.but(f"spec.{kind}", [*others, container])

    def tolerating(self, *tolerations: Object) -> Self:
        return self.but("spec.tolerations", [*self.at("spec.tolerations", []), *tolerations])

    def bound(self) -> Self:
        return self.but("spec.nodeName", "node-1")

    def deleting(self) -> Self:
        return self.but("metadata.deletionTimestamp", "2026-01-01T00:00:01Z")

    def phase(self, phase: str) -> Self:
        return self.but("status.phase", phase)

    def in_group(self, name: str) -> Self:
        return self.but("spec.schedulingGroup", {"podGroupName": name})

    def for_extended_resources(self, claim_name: str) -> Self:
        """kube-scheduler has made this claim for it."""
        return self.but("status.extendedResourceClaimStatus", {"resourceClaimName": claim_name})

    def being_created(self, *, generate_name: bool = False) -> Self:
        """As admission sees it: the API server has given it no uid, no time and, with generateName, no name."""
        new = self.but("metadata.uid", None).but("metadata.creationTimestamp", None)
        return new.but("metadata.name", None).but("metadata.generateName", "web-") if generate_name else new


class Claim(Built):
    requests_path = "spec.devices.requests"

    def request(self, *device_classes: str, selectors: tuple[str, ...] = ()) -> Self:
        """One more request: for exactly this class, or for the first available of several."""
        others = self.at(self.requests_path, [])
        name = f"r{len(others)}"
        wanted: list[Object] = [{"deviceClassName": each, **_selectors(selectors)} for each in device_classes]
        request = (
            {"name": name, "exactly": wanted[0]}
            if len(wanted) == 1
            else {"name": name, "firstAvailable": [{"name": f"o{i}", **each} for i, each in enumerate(wanted)]}
        )
        return self.but(self.requests_path, [*others, request])

    def generated_for(self, pod: Object, reference: str = "") -> Self:
        """Controlled by the Pod, and annotated with the entry of its `spec.resourceClaims`, if that is named."""
        meta = pod["metadata"]
        owned = self.owned_by("Pod", meta["name"], uid=meta["uid"])
        return owned.annotated({wellknown.POD_CLAIM_NAME_ANNOTATION: reference}) if reference else owned

    def allocated(self) -> Self:
        """As kube-scheduler does it: with the finalizer."""
        protected = self.but("metadata.finalizers", [wellknown.DELETE_PROTECTION_FINALIZER])
        return protected.but("status.allocation", {"devices": {"results": [{"device": "gpu-0"}]}})

    def reserved(self, *entries: Object) -> Self:
        return self.but("status.reservedFor", [*self.at("status.reservedFor", []), *entries])

    def pinned(self, *entries: Object) -> Self:
        """Reserved by these entries, which Tollbar added: the API server remembers who."""
        fields = {f'k:{{"uid":"{entry["uid"]}"}}': {".": {}, "f:name": {}} for entry in entries}
        return self.reserved(*entries).written_by("tollbar-reservations", {"f:status": {"f:reservedFor": fields}})

    def written_by(self, manager: str, fields: Object) -> Self:
        written = {"manager": manager, "operation": "Update", "fieldsV1": fields, "time": "2026-01-01T00:00:00Z"}
        return self.but("metadata.managedFields", [*self.at("metadata.managedFields", []), written])

    def deleting(self) -> Self:
        return self.but("metadata.deletionTimestamp", "2026-01-01T00:00:01Z")


class Template(Claim):
    requests_path = "spec.spec.devices.requests"

    def giving(self, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Self:
        """Its claims have these labels and annotations."""
        return self.but("spec.metadata.labels", labels).but("spec.metadata.annotations", annotations)


class DeviceClass(Built):
    def selecting(self, *expressions: str) -> Self:
        return self.but("spec", {**self.at("spec", {}), **_selectors(expressions)})

    def backing(self, resource: str) -> Self:
        """Kubernetes serves this extended resource through the class."""
        return self.but("spec.extendedResourceName", resource)


class TolerationRule(Built):
    def cel(self, expression: str) -> Self:
        return self.but("spec.match", {"type": "CEL", "cel": {"expression": expression}})

    def extended(self, *names: str) -> Self:
        return self.but("spec.match", {"type": "ExtendedResource", "extendedResource": {"names": list(names)}})

    def device(self, driver: str, **attributes: Object) -> Self:
        prototype = {"driver": driver, "attributes": attributes}
        return self.but("spec.match", {"type": "Device", "device": {"prototypes": [prototype]}})

    def mode(self, mode: str) -> Self:
        return self.but("spec.mode", mode)

    def when(self, alternatives: str) -> Self:
        return self.but("spec.whenAlternatives", alternatives)

    def in_namespaces(self, **labels: str) -> Self:
        return self.but("spec.namespaceSelector", {"matchLabels": labels})

    def giving(self, *tolerations: Object) -> Self:
        return self.but("spec.tolerations", list(tolerations))

    def giving_devices(self, *tolerations: Object) -> Self:
        """A rule for requests of claims, not for Pods."""
        return self.but("spec.tolerations", None).but("spec.deviceTolerations", list(tolerations))


class SchedulingGate(Built):
    def expiring(self, max_hold: str | None, on_expiry: str = "Release") -> Self:
        return self.but("spec.maxHold", max_hold).but("spec.onExpiry", on_expiry)

    def ready(self, status: str, reason: str) -> Self:
        return self.but("status.conditions", [{"type": wellknown.CONDITION_READY, "status": status, "reason": reason}])


def pod(name: str = "web", namespace: str = NAMESPACE) -> Pod:
    """A Pod with one container that wants nothing special, and without tolerations."""
    return Pod(_named("v1", "Pod", name, namespace), spec={"containers": [{"name": "main"}]})


def pod_group(name: str = "gang", namespace: str = NAMESPACE) -> Pod:
    """It refers to claims in the fields in which a Pod does."""
    return Pod(_named("scheduling.k8s.io/v1beta1", "PodGroup", name, namespace), spec={})


def claim(name: str = "gpu", namespace: str = NAMESPACE) -> Claim:
    return Claim(_named("resource.k8s.io/v1", "ResourceClaim", name, namespace), spec={})


def template(name: str = "gpu", namespace: str = NAMESPACE) -> Template:
    return Template(_named("resource.k8s.io/v1", "ResourceClaimTemplate", name, namespace), spec={"spec": {}})


def device_class(name: str = "gpu") -> DeviceClass:
    return DeviceClass(_named("resource.k8s.io/v1", "DeviceClass", name), spec={})


def namespace(name: str = NAMESPACE) -> Built:
    return Built(_named("v1", "Namespace", name)).labelled({"kubernetes.io/metadata.name": name})


def workload_claim(name: str = "web-gpu", namespace: str = NAMESPACE, **spec: Any) -> Built:
    """For deployments.apps/web; it needs a template or a claim."""
    reference = {"apiGroup": "apps", "resource": "deployments", "name": "web"}
    built = Built(
        _named(wellknown.API_VERSION, "WorkloadClaim", name, namespace), spec={"workloadRef": reference, **spec}
    )
    return built.but("metadata.uid", "wc1").but("metadata.generation", 1)


def toleration_rule(name: str = "gpu") -> TolerationRule:
    """A TolerationRule that tolerates example.com/NAME; it needs a match."""
    built = TolerationRule(_named(wellknown.API_VERSION, "TolerationRule", name), spec={})
    return built.but("metadata.generation", 1).giving(toleration(f"example.com/{name}"))


def scheduling_gate(name: str = "tolerations", gate_name: str = wellknown.GATE) -> SchedulingGate:
    return SchedulingGate(_named(wellknown.API_VERSION, "SchedulingGate", name), spec={"gateName": gate_name})


def _named(api_version: str, kind: str, name: str, namespace: str = "") -> Object:
    meta = {"name": name, "uid": _uid(name), "creationTimestamp": timestamps.time(CREATED)}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"namespace": namespace, **meta} if namespace else meta,
    }


def _uid(name: str) -> str:
    return f"uid-of-{name}"


def _selectors(expressions: tuple[str, ...]) -> Object:
    return {"selectors": [{"cel": {"expression": each}} for each in expressions]} if expressions else {}


def ready_status(
    ready: str, reason: str, message: str = "", *, since: float = CREATED + 100, generation: int = 1, **numbers: int
) -> Object:
    """The status of a TolerationRule or SchedulingGate that says Ready; `since` in epoch seconds."""
    condition = {
        "type": "Ready",
        "status": ready,
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
        "lastTransitionTime": timestamps.time(since),
    }
    return {**numbers, "observedGeneration": generation, "conditions": [condition]}
