"""Extended resources that devices provide: the claim that stands for what a Pod requests of them (KEP-5004).

Source: extendeddynamicresources.go in pkg/scheduler/framework/plugins/dynamicresources.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from tollbar import wellknown
from tollbar.model import pods, quantity
from tollbar.model.objects import Object, annotations_of, controller_of, key_of, metadata, spec, uid_of
from tollbar.model.resources import RESOURCE_CLAIMS
from tollbar.scheduler.cache.nodeinfo import NodeInfo
from tollbar.scheduler.cache.podinfo import PodInfo

STALE: Final = "cannot schedule extended resource claim"
CANNOT_FIT: Final = "cannot fit resource"


class Extended(NamedTuple):
    """The virtual claim with the requests for a Node, and the `requestMappings` of the Pod's status that go with it."""

    claim: Object
    mappings: tuple[Object, ...]


def names(pod: PodInfo) -> list[str]:
    """The extended resources of which the Pod requests any."""
    return [
        name for name, amount in pod.requests.resources.scalars.items() if amount and pods.is_extended_resource(name)
    ]


def existing(pod: Object, owned: Iterable[Object]) -> Object | None:
    """The claim that an earlier attempt has created for this Pod, of those that it controls."""
    return next((each for each in owned if _is_made_for(pod, each)), None)


def _is_made_for(pod: Object, claim: Object) -> bool:
    owner = controller_of(claim) or {}
    is_extended = annotations_of(claim).get(wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION) == "true"
    return is_extended and owner.get("name") == key_of(pod).name


def virtual(pod: Object) -> Object:
    """The claim before it is created: without requests, which depend on the Node."""
    key, uid = key_of(pod), uid_of(pod)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": key.name, "uid": uid, "controller": True}
    return {
        "metadata": {
            "namespace": key.namespace,
            "name": wellknown.EXTENDED_RESOURCES_CLAIM,
            "uid": f"extended-resources-of-{uid}",
            "generateName": f"{key.name}-extended-resources-",
            "ownerReferences": [owner],
            "annotations": {wellknown.EXTENDED_RESOURCE_CLAIM_ANNOTATION: "true"},
        },
        "spec": {},
    }


def to_create(claim: Object) -> Object:
    """The virtual claim as the body of a request that creates it."""
    meta = {name: value for name, value in metadata(claim).items() if name not in ("name", "uid")}
    return {**RESOURCE_CLAIMS.type_meta, "metadata": meta, "spec": claim["spec"]}


def from_devices(classes: Mapping[str, Object | None], node: NodeInfo) -> tuple[str, ...] | None:
    """Those of the resources that devices have to provide, because the Node itself has none; None if nothing can.

    `classes` has the DeviceClass of each resource, if there is one.
    """
    there = node.allocatable.scalars
    found = sorted(name for name, device_class in classes.items() if device_class is not None and not there.get(name))
    return tuple(found) if all(name in there for name in classes.keys() - set(found)) else None


def claim_for(
    virtual_claim: Object, pod: Object, resources: Sequence[str], classes: Mapping[str, Object | None]
) -> Extended:
    """The claim where devices provide these resources, sorted by name.

    Containers that run at the same time get devices of their own.  An init container that ends before others start
    uses those of the containers after it, and what it needs beyond that is shared by all init containers.
    """
    requests: list[Object] = []
    mappings: list[Object] = []
    for resource in resources:
        made, mapped = _for_resource(pod, resource, key_of(classes[resource] or {}).name)
        requests += made
        mappings += mapped
    requests.sort(key=lambda each: str(each["name"]))
    return Extended({**virtual_claim, "spec": {"devices": {"requests": requests}}}, tuple(mappings))


def _for_resource(pod: Object, resource: str, class_name: str) -> tuple[list[Object], list[Object]]:
    """The requests of all containers for one resource, and which container uses which of them.

    Source: createRequestsAndMappings.
    """
    body = spec(pod)
    init: list[Object] = list(body.get("initContainers") or ())
    containers = [*init, *(body.get("containers") or ())]
    short_lived = [index for index, each in enumerate(init) if each.get("restartPolicy") != "Always"]
    of_long_lived: list[Object | None] = [None] * len(containers)
    mappings: list[Object] = []
    for index, container in enumerate(containers):
        if index not in short_lived:
            of_long_lived[index], mapped = _container(index, container, resource, class_name, ())
            mappings += mapped
    beyond: list[Object] = []
    of_short_lived: list[Object] = []
    for index in short_lived:
        made, mapped = _container(index, containers[index], resource, class_name, of_long_lived[index:])
        beyond += [made] if made is not None else []
        of_short_lived += mapped
    shared: list[Object] = []
    if beyond:
        largest = max(beyond, key=_count)
        shared, replaced = [largest], {each["name"] for each in beyond}
        of_short_lived = [
            {**each, "requestName": largest["name"]} if each["requestName"] in replaced else each
            for each in of_short_lived
        ]
    return [*shared, *(each for each in of_long_lived if each is not None)], mappings + of_short_lived


def _container(
    index: int, container: Object, resource: str, class_name: str, reusable: Sequence[Object | None]
) -> tuple[Object | None, list[Object]]:
    """A request for what the container needs beyond the reusable requests, if anything, and which ones it uses."""
    wanted = (container.get("resources") or {}).get("requests") or {}
    count = quantity.read(str(wanted[resource])).as_int64() if resource in wanted else None
    if not count:
        return None, []
    found = 0
    mappings = []
    for each in reusable:
        if each is not None:
            found += _count(each)
            mappings.append(_mapping(container, resource, each["name"]))
            if found >= count:
                return None, mappings
    name = f"container-{index}-request-{sorted(wanted).index(resource)}"
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count - found}
    return {"name": name, "exactly": exactly}, [*mappings, _mapping(container, resource, name)]


def _mapping(container: Object, resource: str, request: str) -> Object:
    return {"containerName": container["name"], "resourceName": resource, "requestName": request}


def _count(request: Object) -> Any:
    return request["exactly"]["count"]


def is_virtual(claim: Object) -> bool:
    """Whether it is yet to be created.  What an earlier attempt has left may hold devices that do not suit any more."""
    return key_of(claim).name == wellknown.EXTENDED_RESOURCES_CLAIM
