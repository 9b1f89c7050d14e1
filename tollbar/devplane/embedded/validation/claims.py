"""ResourceClaims, their templates, DeviceClasses and ResourceSlices of resource.k8s.io/v1.

Source: k8s.io/kubernetes/pkg/apis/resource/validation.  Selectors are compiled by Tollbar's own CEL.
"""

from functools import lru_cache
from typing import Final

from tollbar import cel
from tollbar.devplane.embedded.validation.texts import IMMUTABLE, duplicates, members, named, unchanged, wrong
from tollbar.model import claims, names
from tollbar.model.fields import FieldError, forbidden, required, too_many, unsupported
from tollbar.model.objects import Object, metadata, spec

_MAX: Final = 32
"""Requests of a claim, selectors of a request, results of an allocation."""
_ALTERNATIVES_MAX: Final = 8
_DEVICES_MAX: Final = 128
_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_ALLOCATED: Final = "may not be specified when `allocated` is not set"
_ENDING: Final = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
_NO_REQUEST: Final = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
_NO_DOMAIN: Final = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"


def validate_claim(claim: Object) -> list[FieldError]:
    return _claim_spec("spec", spec(claim))


def validate_template(template: Object) -> list[FieldError]:
    return _claim_spec("spec.spec", claims.template_claim_spec(template))


def validate_class(device_class: Object) -> list[FieldError]:
    errors = _selectors("spec.selectors", spec(device_class))
    name = claims.extended_resource_of(device_class)
    if name and "/" not in name:
        errors.append(wrong("spec.extendedResourceName", name, _NO_DOMAIN))
    elif name:
        errors += named("spec.extendedResourceName", name, names.qualified_name)
    return errors


def validate_slice(resource_slice: Object) -> list[FieldError]:
    body = spec(resource_slice)
    errors = named("spec.driver", body.get("driver"), names.dns_subdomain)
    errors += members("spec.pool", body.get("pool") or {}, "name", "resourceSliceCount")
    places = [body.get(each) for each in ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")]
    if sum(map(bool, places)) != 1:
        detail = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
        errors.append(required("spec", detail))
    devices = body.get("devices") or []
    if len(devices) > _DEVICES_MAX:
        errors.append(too_many("spec.devices", len(devices), _DEVICES_MAX))
    for index, device in enumerate(devices):
        errors += _device(f"spec.devices[{index}]", device)
    return errors + duplicates("spec.devices", ((each.get("name"),) * 2 for each in devices), ".name")


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    errors = []
    for member in ("driver", "nodeName"):
        errors += unchanged(f"spec.{member}", spec(new).get(member), spec(old).get(member))
    pools = [(spec(each).get("pool") or {}).get("name") for each in (new, old)]
    return errors + unchanged("spec.pool.name", *pools)


def validate_spec_update(new: Object, old: Object) -> list[FieldError]:
    """Of a claim or a template.  The value is not shown."""
    return [] if spec(new) == spec(old) else [wrong("spec", None, IMMUTABLE)]


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """A claim's status as it is written through its path."""
    allocation, reserved = claims.allocation(new), claims.reserved_for(new)
    errors = _allocation(new, old)
    if reserved and not allocation:
        errors.append(forbidden("status.reservedFor", _NOT_ALLOCATED))
    if metadata(old).get("deletionTimestamp") and any(each not in claims.reserved_for(old) for each in reserved):
        errors.append(forbidden("status.reservedFor", _ENDING))
    if len(reserved) > claims.RESERVED_FOR_MAX:
        return [*errors, too_many("status.reservedFor", len(reserved), claims.RESERVED_FOR_MAX)]
    for index, each in enumerate(reserved):
        errors += members(f"status.reservedFor[{index}]", each, "resource", "name", "uid")
    quoted = [{key: each[key] for key in ("apiGroup", "resource", "name", "uid") if each.get(key)} for each in reserved]
    return errors + duplicates("status.reservedFor", ((each.get("uid"), each) for each in quoted))


def _allocation(new: Object, old: Object) -> list[FieldError]:
    wanted, had = claims.allocation(new), claims.allocation(old)
    if wanted is None or wanted == had:
        return []
    if had is not None:
        return [wrong("status.allocation", None, "field cannot be modified once set")]
    known = _request_names(old)
    errors = []
    results = (wanted.get("devices") or {}).get("results") or []
    if len(results) > _MAX:
        errors.append(too_many("status.allocation.devices.results", len(results), _MAX))
    for index, result in enumerate(results):
        path = f"status.allocation.devices.results[{index}]"
        if result.get("request") not in known:
            errors.append(wrong(f"{path}.request", result.get("request") or "", _NO_REQUEST))
        errors += members(path, result, "driver", "pool", "device")
    return errors


def _request_names(claim: Object) -> set[str]:
    found = set()
    for request in claims.requests_of(claim):
        found.add(request["name"])
        found |= {f"{request['name']}/{each['name']}" for each in request.get("firstAvailable") or ()}
    return found


def _claim_spec(path: str, body: Object) -> list[FieldError]:
    requests = (body.get("devices") or {}).get("requests") or []
    where = f"{path}.devices.requests"
    if len(requests) > _MAX:
        return [too_many(where, len(requests), _MAX)]
    errors = []
    for index, request in enumerate(requests):
        errors += _request(f"{where}[{index}]", request)
    return errors + duplicates(where, ((each.get("name"), each) for each in requests))


def _request(path: str, request: Object) -> list[FieldError]:
    errors = named(f"{path}.name", request.get("name"), names.dns_label)
    alternatives = request.get("firstAvailable") or []
    exactly = request.get("exactly")
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_OF)]
    if exactly is not None and alternatives:
        return [*errors, wrong(path, None, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return errors + _wanted(f"{path}.exactly", exactly)
    if len(alternatives) > _ALTERNATIVES_MAX:
        return [*errors, too_many(f"{path}.firstAvailable", len(alternatives), _ALTERNATIVES_MAX)]
    for index, each in enumerate(alternatives):
        where = f"{path}.firstAvailable[{index}]"
        errors += named(f"{where}.name", each.get("name"), names.dns_label) + _wanted(where, each)
    return errors + duplicates(f"{path}.firstAvailable", ((each.get("name"),) * 2 for each in alternatives), ".name")


def _wanted(path: str, wanted: Object) -> list[FieldError]:
    """`exactly`, or one of `firstAvailable`."""
    errors = named(f"{path}.deviceClassName", wanted.get("deviceClassName"), names.dns_subdomain)
    errors += _selectors(f"{path}.selectors", wanted)
    mode, count = wanted.get("allocationMode"), wanted.get("count") or 0
    if mode == "All" and count:
        errors.append(wrong(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(wrong(f"{path}.count", count, "must be greater than zero"))
    elif mode not in ("All", "ExactCount"):
        errors.append(unsupported(f"{path}.allocationMode", mode, ("All", "ExactCount")))
    return errors


def _selectors(path: str, holder: Object) -> list[FieldError]:
    selectors = holder.get("selectors") or []
    if len(selectors) > _MAX:
        return [too_many(path, len(selectors), _MAX)]
    errors = []
    for index, selector in enumerate(selectors):
        where, expression = f"{path}[{index}].cel", selector.get("cel")
        if expression is None:
            errors.append(required(where))
        elif problem := _compiled(expression.get("expression") or ""):
            errors.append(wrong(f"{where}.expression", expression.get("expression") or "", problem))
    return errors


@lru_cache(maxsize=256)
def _compiled(expression: str) -> str:
    """What is wrong with a selector, in a few words that begin as cel-go's do; empty when nothing is."""
    try:
        cel.engine().compile(expression, cel.DEVICE_ENV)
    except cel.CelError as error:
        # People who know cel-go look for its words.
        message = error.message.replace("undefined variable", "undeclared reference to")
        return f"compilation failed: ERROR: {error.line}:{error.column}: {message}"
    return ""


def _device(path: str, device: Object) -> list[FieldError]:
    errors = named(f"{path}.name", device.get("name"), names.dns_label)
    for name, attribute in (device.get("attributes") or {}).items():
        if len(attribute) != 1:
            errors.append(wrong(f"{path}.attributes[{name}]", attribute, "exactly one value must be specified"))
    return errors
