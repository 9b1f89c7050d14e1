"""What a Pod requests of its Node: the amounts that a scheduler counts.

Source: PodRequests in k8s.io/component-helpers/resource.  Requests of node resources through claims (KEP-5517, alpha)
are left out.
"""

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import reduce
from typing import Final, TypeAlias

from tollbar.model import quantity
from tollbar.model.objects import Object, spec

Amounts: TypeAlias = dict[str, Decimal]
"""By resource name; cpu in cores, memory in bytes, extended resources in pieces."""
_NOTHING: Final[Mapping[str, Decimal]] = {}


def requests(
    pod: Object, *, missing: Mapping[str, Decimal] = _NOTHING, pod_level: bool = True, status: bool = False
) -> Amounts:
    """The requests of the whole Pod; a resource that nothing requests is absent.

    Containers and sidecars (init containers with restartPolicy Always, KEP-753) run together, and every other init
    container runs beside the sidecars before it: the greater of both counts.  A request of the Pod as a whole replaces
    what its containers add up to, and `spec.overhead` comes on top.  What is no quantity, which the API server refuses,
    counts as absent.

    `missing` is what a container requests of a resource that it does not name.  Without `pod_level`, requests of the
    Pod as a whole are left out.  With `status`, a Pod that is resized in place (KEP-1287, KEP-5419) counts with the
    greatest of what it asks for, what its kubelet has granted and what is in effect; the first is left out where the
    kubelet has found it infeasible.
    """
    total = _resized(pod, missing) if status else _aggregated(pod, missing, _asked)
    if pod_level and (wanted := _pod_level(spec(pod))):
        total |= _resized_as_a_whole(pod, wanted) if status else wanted
    return _sum(total, _amounts(spec(pod).get("overhead")))


def has_pod_level(pod: Object) -> bool:
    """Whether the Pod requests anything as a whole (IsPodLevelRequestsSet)."""
    return bool(_pod_level(spec(pod)))


def counts_by_status(pod: Object) -> bool:
    """Whether its status may let a Pod count with other requests than its spec alone."""
    status = _status(pod)
    return (
        "allocatedResources" in status
        or "resources" in status
        or _is_infeasible(pod)
        or (
            ("containerStatuses" in status or "initContainerStatuses" in status)
            and any(
                (holder.get("resources") or {}).get("requests") != (container.get("resources") or {}).get("requests")
                or holder.get("allocatedResources") != (container.get("resources") or {}).get("requests")
                for container in _containers(pod)
                if "allocatedResources" in (holder := _container_status(pod, container)) or "resources" in holder
            )
        )
    )


def _resized(pod: Object, missing: Mapping[str, Decimal]) -> Amounts:
    status = _status(pod)
    granted, in_effect = status.get("allocatedResources"), (status.get("resources") or {}).get("requests")
    if granted is not None and in_effect is not None:
        # The kubelet has added up the containers.
        found = _max(_amounts(in_effect), _amounts(granted))
    else:
        found = _max(_aggregated(pod, missing, _in_effect), _aggregated(pod, missing, _granted))
    return found if _is_infeasible(pod) else _max(_aggregated(pod, missing, _asked), found)


def _resized_as_a_whole(pod: Object, wanted: Amounts) -> Amounts:
    status = _status(pod)
    if (in_effect := status.get("resources")) is None:
        return wanted
    found = _max(_amounts(in_effect.get("requests")), _amounts(status.get("allocatedResources")))
    return _only_pod_level(found if _is_infeasible(pod) else _max(wanted, found))


def _aggregated(pod: Object, missing: Mapping[str, Decimal], of: Callable[[Object, Object], Amounts]) -> Amounts:
    """What containers add up to, when each counts with what `of` says of it, from the Pod and the container."""
    body = spec(pod)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in body.get("initContainers") or ():
        alongside = _sum(sidecars, {**missing, **of(pod, container)})
        starting = _max(starting, alongside)
        if container.get("restartPolicy") == "Always":
            sidecars = alongside
    running = ({**missing, **of(pod, container)} for container in body.get("containers") or ())
    return _max(reduce(_sum, running, sidecars), starting)


def _asked(pod: Object, container: Object) -> Amounts:  # noqa: ARG001
    return _requests(container)


def _granted(pod: Object, container: Object) -> Amounts:
    status = _container_status(pod, container)
    if (granted := status.get("allocatedResources")) is not None:
        return _amounts(granted)
    return {} if _is_infeasible(pod) else _requests(container)


def _in_effect(pod: Object, container: Object) -> Amounts:
    requested = (_container_status(pod, container).get("resources") or {}).get("requests")
    return _granted(pod, container) if requested is None else _amounts(requested)


def _container_status(pod: Object, container: Object) -> Object:
    status = _status(pod)
    for name in ("containerStatuses", "initContainerStatuses"):
        for each in status.get(name) or ():
            if each.get("name") == container.get("name"):
                found: Object = each
                return found
    return {}


def _containers(pod: Object) -> list[Object]:
    return [*(spec(pod).get("initContainers") or ()), *(spec(pod).get("containers") or ())]


def _is_infeasible(pod: Object) -> bool:
    """Whether the kubelet says that the resize can never be (IsPodResizeInfeasible)."""
    for condition in _status(pod).get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _status(pod: Object) -> Object:
    return pod.get("status") or {}


def _pod_level(body: Object) -> Amounts:
    return _only_pod_level(_requests(body))


def _only_pod_level(amounts: Amounts) -> Amounts:
    """What may be requested in `spec.resources` of a Pod (KEP-2837): cpu, memory and huge pages."""
    return {
        name: amount for name, amount in amounts.items() if name in ("cpu", "memory") or name.startswith("hugepages-")
    }


def _requests(holder: Object) -> Amounts:
    """`resources.requests` of a container or of a PodSpec."""
    return _amounts((holder.get("resources") or {}).get("requests"))


def _amounts(given: Object | None) -> Amounts:
    amounts = {}
    for name, text in (given or {}).items():
        try:
            amounts[name] = quantity.parse(str(text))
        except ValueError:
            continue
    return amounts


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {**one, **other}}


def _max(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}
