"""What a dump keeps of each kind: what decisions about Pods read, and nothing that may be secret.

Kinds that are not in KINDS are not read at all, Secrets and ConfigMaps among them.  Of those that are, the parts that
are kept are listed here by name.  A Pod is the exception, because rules may read all of it: what is removed is listed.

Invariants: pure; an object is left as it is, and what is kept of it is shared.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from tollbar.api import webhooks
from tollbar.cli import drain
from tollbar.decide.rules.rule import Rule
from tollbar.model import resources
from tollbar.model.objects import Object, metadata, picked, spec
from tollbar.model.resources import Resource
from tollbar.runtime import detection
from tollbar.runtime.reflector import ListerWatcher
from tollbar.scheduler.cache import nodeinfo

_METADATA: Final = ("resourceVersion", "managedFields", "selfLink")
"""Members of metadata that are removed: what differs between two dumps of the same state, or is noise."""
_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_CONTAINER: Final = ("args", "command", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe")
_POD_STATUS: Final = (
    "allocatedResources", "conditions", "extendedResourceClaimStatus", "nominatedNodeName", "phase",
    "resourceClaimStatuses", "resources", "startTime",
)  # fmt: skip
_CONTAINER_STATUSES: Final = ("containerStatuses", "initContainerStatuses")
_CONTAINER_STATUS: Final = ("name", "allocatedResources", "resources")

REMOVED_OF_PODS: Final = frozenset(
    {
        *(f"pod.spec.{kind}.{name}" for kind in _CONTAINERS for name in (*_CONTAINER, "env.value")),
        "pod.spec.volumes.csi.volumeAttributes",
        "pod.spec.volumes.flexVolume.options",
    }
)
"""Paths of the inputs of a rule that no Pod of a dump has.  Of `pod.status` only some members are left."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of which a dump has every object that `keep` wants.

    `locate` finds the version that is served of a kind that has several.
    """

    resource: Resource
    reduce: Callable[[Object], Object]
    locate: Callable[[ListerWatcher], Awaitable[Resource | None]] | None = None
    keep: Callable[[Object], bool] = lambda _obj: True


def reduced_pod(pod: Object) -> Object:
    body, status = dict(spec(pod)), pod.get("status") or {}
    for kind in _CONTAINERS:
        if body.get(kind):
            body[kind] = [_container(each) for each in body[kind]]
    if body.get("volumes"):
        body["volumes"] = [_volume(each) for each in body["volumes"]]
    kept = picked(status, _POD_STATUS)
    for kind in _CONTAINER_STATUSES:
        if status.get(kind):
            kept[kind] = [picked(each, _CONTAINER_STATUS) for each in status[kind]]
    return {"metadata": _metadata(pod), "spec": body, "status": kept}


def unreliable(rules: Iterable[Rule]) -> Iterator[tuple[str, str]]:
    """The rules that read what a dump has removed of Pods, each with such a path: their verdict may be another one."""
    for rule in rules:
        removed = (path for path in sorted(REMOVED_OF_PODS) if rule.reads_any(path))
        status = (path for path in sorted(rule.reads) if _is_removed_status(path))
        if (path := next(removed, None) or next(status, None)) is not None:
            yield rule.name, path


def _is_removed_status(path: str) -> bool:
    of_pod, _, member = path.partition("pod.status")
    return not of_pod and path != member and member.split(".")[1:2] not in [[name] for name in _POD_STATUS]


def _container(container: Object) -> Object:
    kept = _dropped(container, _CONTAINER)
    if kept.get("env"):
        kept["env"] = [_dropped(each, ("value",)) for each in kept["env"]]
    return kept


def _volume(volume: Object) -> Object:
    kept = dict(volume)
    for kind, member in (("csi", "volumeAttributes"), ("flexVolume", "options")):
        if kept.get(kind):
            kept[kind] = _dropped(kept[kind], (member,))
    return kept


def _node(node: Object) -> Object:
    kept = nodeinfo.projected(node)
    return {"metadata": _metadata(kept), "spec": kept["spec"], "status": kept["status"]}


def _claim(claim: Object) -> Object:
    status = dict(claim.get("status") or {})
    if status.get("devices"):
        status["devices"] = [_dropped(each, ("data", "networkData")) for each in status["devices"]]
    return {"metadata": _metadata(claim), "spec": spec(claim), **({"status": status} if status else {})}


def _volume_of_cluster(volume: Object) -> Object:
    body = dict(_volume(spec(volume)))
    return {"metadata": _metadata(volume), "spec": body, "status": picked(volume.get("status") or {}, ("phase",))}


def _attachment(attachment: Object) -> Object:
    body, status = dict(spec(attachment)), picked(attachment.get("status") or {}, ("attached",))
    if body.get("source"):
        body["source"] = _dropped(body["source"], ("inlineVolumeSpec",))
    return {"metadata": _metadata(attachment), "spec": body, "status": status}


def _webhooks(configuration: Object) -> Object:
    """Which Pods the API server asks the webhook about, and not where that is."""
    found = [
        picked(each, ("name", "namespaceSelector", "objectSelector", "matchConditions"))
        for each in configuration.get("webhooks") or ()
        if webhooks.is_of_pods(each)
    ]
    return {"metadata": _metadata(configuration), "webhooks": found}


def _keep(obj: Object, *, members: Iterable[str] = (), of_spec: Iterable[str] | None = None) -> Object:
    """Metadata and these members; of the spec only `of_spec`, if given."""
    kept = picked(obj, members)
    if of_spec is not None:
        kept["spec"] = picked(spec(obj), of_spec)
    return {"metadata": _metadata(obj), **kept}


def _metadata(obj: Object) -> Object:
    kept = _dropped(metadata(obj), _METADATA)
    if annotations := kept.get("annotations"):
        kept["annotations"] = {name: text for name, text in annotations.items() if not _is_applied(name)}
        if not kept["annotations"]:
            del kept["annotations"]
    return kept


def _is_applied(annotation: str) -> bool:
    """Whether it holds the object as it was applied, environment variables and all, as kubectl and kapp keep it."""
    return (
        "last-applied" in annotation
        or annotation.endswith("/applied")
        or annotation.startswith("kapp.k14s.io/original")
    )


def _dropped(obj: Object, names: Iterable[str]) -> Object:
    return {name: value for name, value in obj.items() if name not in names}


def _kinds() -> Iterator[Kind]:
    """In the order of a dump: what few have and much depends on comes first."""
    whole = partial(_keep, members=("spec", "status"))
    body = partial(_keep, members=("spec",))
    selector = partial(_keep, of_spec=("selector",))
    yield Kind(resources.NAMESPACES, _keep)
    yield Kind(resources.TOLERATION_RULES, whole)
    yield Kind(resources.PLACEMENT_RULES, whole)
    yield Kind(resources.POD_QUOTAS, whole)
    yield Kind(resources.SCHEDULING_GATES, whole)
    yield Kind(resources.WORKLOAD_CLAIMS, whole)
    yield Kind(resources.MUTATING_WEBHOOK_CONFIGURATIONS, _webhooks, keep=drain.is_ours)
    yield Kind(resources.PRIORITY_CLASSES, partial(_keep, members=("value", "globalDefault", "preemptionPolicy")))
    yield Kind(resources.DEVICE_CLASSES, body)
    yield Kind(resources.DEVICE_TAINT_RULES, body, detection.device_taint_rules)
    yield Kind(resources.NODES, _node)
    yield Kind(resources.RESOURCE_SLICES, body)
    storage = ("provisioner", "reclaimPolicy", "volumeBindingMode", "allowVolumeExpansion", "allowedTopologies")
    yield Kind(resources.STORAGE_CLASSES, partial(_keep, members=storage))
    yield Kind(resources.CSI_DRIVERS, body)
    yield Kind(resources.CSI_NODES, body)
    yield Kind(resources.PERSISTENT_VOLUMES, _volume_of_cluster)
    yield Kind(resources.VOLUME_ATTACHMENTS, _attachment)
    yield Kind(resources.PERSISTENT_VOLUME_CLAIMS, whole)
    yield Kind(resources.RESOURCE_CLAIM_TEMPLATES, body)
    yield Kind(resources.RESOURCE_CLAIMS, _claim)
    yield Kind(resources.POD_GROUPS, whole, detection.pod_groups)
    yield Kind(resources.SERVICES, selector)
    yield Kind(resources.REPLICATION_CONTROLLERS, selector)
    yield Kind(resources.REPLICA_SETS, selector)
    yield Kind(resources.STATEFUL_SETS, selector)
    yield Kind(resources.POD_DISRUPTION_BUDGETS, whole)
    yield Kind(resources.PODS, reduced_pod)


KINDS: Final[Mapping[str, Kind]] = {kind.resource.kind: kind for kind in _kinds()}
"""By name, in the order of a dump."""
