"""AllocationResults of resource.k8s.io/v1 for the devices that a search has chosen."""

from collections.abc import Callable, Sequence
from typing import Any

from tollbar.dra.constraints import applies
from tollbar.dra.features import Features
from tollbar.dra.requests import Claim, Request
from tollbar.dra.search import Chosen, Unsolvable
from tollbar.model.objects import Object, key_of, metadata, spec


def allocation(
    claim: Claim, chosen: Sequence[Chosen], node: Object, features: Features, share_id: Callable[[], str]
) -> Object:
    """`status.allocation` of the claim, without a timestamp.  `share_id` makes the unique id of a share.

    Raises Unsolvable for a device whose Nodes cannot be told in one term of a selector.
    """
    devices: Object = {"results": [_result(each, features, share_id) for each in chosen]}
    if claim.has_config and (config := _config(claim, chosen)):
        devices["config"] = config
    selector = _node_selector(claim, chosen, node)
    return {"devices": devices} if selector is None else {"devices": devices, "nodeSelector": selector}


def _result(chosen: Chosen, features: Features, share_id: Callable[[], str]) -> Object:
    request, candidate = chosen
    device = candidate.device
    driver, pool, name = device.id
    result: Object = {"request": request.full_name, "driver": driver, "pool": pool, "device": name}
    if request.admin_access:
        result["adminAccess"] = True
    if request.tolerations:
        result["tolerations"] = list(request.tolerations)
    if features.binding_conditions:
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
        if device.binding_failure_conditions:
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
    if candidate.is_share:
        result["shareID"] = share_id()
        if candidate.consumed.amounts:
            result["consumedCapacity"] = candidate.consumed.amounts.copy()
    return result


def _config(claim: Claim, chosen: Sequence[Chosen]) -> list[Object]:
    """Configs of the classes that are used, each once, then those of the claim that are for a request in use.

    A config for all requests has no `requests`.
    """
    used = _used(claim, chosen)
    of_classes: dict[str, list[str]] = {}
    classes: dict[str, Object] = {}
    for request in used:
        name = str(metadata(request.device_class).get("name"))
        of_classes.setdefault(name, []).append(request.full_name)
        classes[name] = request.device_class
    entries: list[tuple[str, list[str], Object]] = []
    for name, requests in of_classes.items():
        entries += (("FromClass", requests, config) for config in spec(classes[name]).get("config") or ())
    for config in (spec(claim.obj).get("devices") or {}).get("config") or ():
        names = config.get("requests") or []
        if any(applies(names, request.name, request.full_name) for request in used):
            entries.append(("FromClaim", names, config))
    return [_entry(source, names, config, used) for source, names, config in entries]


def _entry(source: str, names: list[str], config: Object, used: Sequence[Request]) -> Object:
    entry: Object = {"source": source, **{name: value for name, value in config.items() if name != "requests"}}
    if not all(applies(names, request.name, request.full_name) for request in used):
        entry["requests"] = list(names)
    return entry


def _used(claim: Claim, chosen: Sequence[Chosen]) -> list[Request]:
    """For each request the one that was satisfied: of a prioritized list the chosen alternative."""
    by_index = {request.index: request for request, _ in chosen}
    return [by_index.get(number, alternatives[0]) for number, alternatives in enumerate(claim.requests)]


def _node_selector(claim: Claim, chosen: Sequence[Chosen], node: Object) -> Object | None:
    """Where the claim can be used: on this Node, where all devices can be reached, or (None) everywhere."""
    fields: list[Any] = []
    expressions: list[Any] = []
    for _, candidate in chosen:
        device = candidate.device
        if device.reach.node or device.binds_to_node:
            name = {"key": "metadata.name", "operator": "In", "values": [device.reach.node or key_of(node).name]}
            return {"nodeSelectorTerms": [{"matchFields": [name]}]}
        terms = (device.reach.selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise Unsolvable(
                f"create NodeSelector for claim {key_of(claim.obj).name}: unsupported ResourceSlice.NodeSelector with "
                f"{len(terms)} terms"
            )
        for term in terms:
            _add_missing(fields, term.get("matchFields") or ())
            _add_missing(expressions, term.get("matchExpressions") or ())
    term = {name: found for name, found in (("matchFields", fields), ("matchExpressions", expressions)) if found}
    return {"nodeSelectorTerms": [term]} if term else None


def _add_missing(there: list[Any], requirements: Sequence[Any]) -> None:
    for each in requirements:
        if not any(_is_same(each, other) for other in there):
            there.append(each)


def _is_same(one: Object, other: Object) -> bool:
    """Whether two requirements are equal; the order of their values says nothing."""
    return (one.get("key"), one.get("operator"), set(one.get("values") or ())) == (
        other.get("key"),
        other.get("operator"),
        set(other.get("values") or ()),
    )
