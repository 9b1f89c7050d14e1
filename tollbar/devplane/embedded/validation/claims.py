"""ResourceClaims, their templates, DeviceClasses and ResourceSlices of resource.k8s.io/v1.

Source: k8s.io/kubernetes/pkg/apis/resource/validation.  Selectors are compiled by Tollbar's own CEL.
"""

from functools import lru_cache
from typing import Final

from tollbar import cel
from tollbar.devplane.embedded.validation.texts import (
    IMMUTABLE,
    duplicates,
    each,
    labelled,
    members,
    named,
    unchanged,
    wrong,
)
from tollbar.model import claims, names
from tollbar.model.fields import FieldError, forbidden, required, too_many
from tollbar.model.objects import Object, metadata, spec

_MAX: Final = 32
"""Requests of a claim."""
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
    errors = each("spec.selectors", spec(device_class).get("selectors"), _selector)
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
    return errors + labelled("spec.devices", body.get("devices"))


def validate_slice_update(new: Object, old: Object) -> list[FieldError]:
    """A slice is about one pool of one driver on one Node as long as it lives."""
    now, before = spec(new), spec(old)
    errors = unchanged("spec.driver", now.get("driver"), before.get("driver"))
    errors += unchanged("spec.pool.name", (now.get("pool") or {}).get("name"), (before.get("pool") or {}).get("name"))
    return errors + unchanged("spec.nodeName", now.get("nodeName"), before.get("nodeName"))


def validate_spec_update(new: Object, old: Object) -> list[FieldError]:
    """Of a claim or a template.  The value is not shown."""
    return [] if spec(new) == spec(old) else [wrong("spec", None, IMMUTABLE)]


def validate_status(new: Object, old: Object) -> list[FieldError]:
    """A claim's status as it is written through its path."""
    allocation, reserved = claims.allocation(new), claims.reserved_for(new)
    errors = _allocation(new, old)
    if reserved and not allocation:
        errors.append(forbidden("status.reservedFor", _NOT_ALLOCATED))
    if metadata(old).get("deletionTimestamp") and any(user not in claims.reserved_for(old) for user in reserved):
        errors.append(forbidden("status.reservedFor", _ENDING))
    if len(reserved) > claims.RESERVED_FOR_MAX:
        return [*errors, too_many("status.reservedFor", len(reserved), claims.RESERVED_FOR_MAX)]
    errors += each("status.reservedFor", reserved, lambda path, user: members(path, user, "resource", "name", "uid"))
    quoted = [{key: user[key] for key in ("apiGroup", "resource", "name", "uid") if user.get(key)} for user in reserved]
    return errors + duplicates("status.reservedFor", ((user.get("uid"), user) for user in quoted))


def _allocation(new: Object, old: Object) -> list[FieldError]:
    wanted, had = claims.allocation(new), claims.allocation(old)
    if wanted is None or wanted == had:
        return []
    if had is not None:
        return [wrong("status.allocation", None, "field cannot be modified once set")]
    known = _request_names(old)

    def check(path: str, result: Object) -> list[FieldError]:
        errors = members(path, result, "driver", "pool", "device")
        if result.get("request") in known:
            return errors
        return [wrong(f"{path}.request", result.get("request") or "", _NO_REQUEST), *errors]

    return each("status.allocation.devices.results", (wanted.get("devices") or {}).get("results"), check)


def _request_names(claim: Object) -> set[str]:
    found = set()
    for request in claims.requests_of(claim):
        found.add(request["name"])
        found |= {f"{request['name']}/{one['name']}" for one in request.get("firstAvailable") or ()}
    return found


def _claim_spec(path: str, body: Object) -> list[FieldError]:
    requests = (body.get("devices") or {}).get("requests") or []
    where = f"{path}.devices.requests"
    if len(requests) > _MAX:
        return [too_many(where, len(requests), _MAX)]
    return each(where, requests, _request) + duplicates(where, ((one.get("name"), one) for one in requests))


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
    return errors + labelled(f"{path}.firstAvailable", alternatives, _wanted)


def _wanted(path: str, wanted: Object) -> list[FieldError]:
    """`exactly`, or one of `firstAvailable`."""
    errors = named(f"{path}.deviceClassName", wanted.get("deviceClassName"), names.dns_subdomain)
    errors += each(f"{path}.selectors", wanted.get("selectors"), _selector)
    mode, count = wanted.get("allocationMode"), wanted.get("count") or 0
    if mode == "All" and count:
        errors.append(wrong(f"{path}.count", count, "must not be specified when allocationMode is 'All'"))
    elif mode == "ExactCount" and count <= 0:
        errors.append(wrong(f"{path}.count", count, "must be greater than zero"))
    return errors


def _selector(path: str, selector: Object) -> list[FieldError]:
    expression = (selector.get("cel") or {}).get("expression") or ""
    problem = _compiled(expression)
    return [wrong(f"{path}.cel.expression", expression, problem)] if problem else []


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
