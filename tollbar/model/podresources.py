"""What a Pod requests of its Node: the amounts that a scheduler counts.

Source: PodRequests in k8s.io/component-helpers/resource, as it is for a Pod that no kubelet has resized: only the spec
is read.  Requests of node resources through claims (KEP-5517, alpha) are left out.
"""

from decimal import Decimal
from functools import reduce
from typing import TypeAlias

from tollbar.model import quantity
from tollbar.model.objects import Object, spec

Amounts: TypeAlias = dict[str, Decimal]
"""By resource name; cpu in cores, memory in bytes, extended resources in pieces."""


def requests(pod: Object) -> Amounts:
    """The requests of the whole Pod; a resource that nothing requests is absent.

    Containers and sidecars (init containers with restartPolicy Always, KEP-753) run together, and every other init
    container runs beside the sidecars before it: the greater of both counts.  A request of the Pod as a whole replaces
    what its containers add up to, and `spec.overhead` comes on top.  What is no quantity, which the API server refuses,
    counts as absent.
    """
    body = spec(pod)
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in body.get("initContainers") or ():
        alongside = _sum(sidecars, _requests(container))
        starting = _max(starting, alongside)
        if container.get("restartPolicy") == "Always":
            sidecars = alongside
    total = _max(reduce(_sum, map(_requests, body.get("containers") or ()), sidecars), starting)
    total |= {name: amount for name, amount in _requests(body).items() if _is_pod_level(name)}
    return _sum(total, _amounts(body.get("overhead")))


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


def _is_pod_level(name: str) -> bool:
    """Whether a Pod may request it as a whole, in `spec.resources` (KEP-2837)."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, Decimal(0)) + other.get(name, Decimal(0)) for name in {**one, **other}}


def _max(one: Amounts, other: Amounts) -> Amounts:
    return {name: max(one.get(name, Decimal(0)), other.get(name, Decimal(0))) for name in {**one, **other}}
