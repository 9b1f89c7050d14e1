"""What `firstAvailable` lists (KEP-4816) leave open: the packages that a Pod may turn out to need.

An alternative is the package's claims with one subrequest in the place of each list, as `exactly`, so that rules are
written once.  The classes of an alternative are those that its own requests name.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tollbar.model.claims import device_classes, requests_of
from tollbar.model.objects import Object, spec


@dataclass(frozen=True, slots=True)
class Alternative:
    claims: tuple[Object, ...]
    classes: Mapping[str, Object]


def count(claims: Sequence[Object]) -> int:
    """How many alternatives there are: the product of the lists' lengths, 1 when there is no list."""
    return math.prod(
        len(request.get("firstAvailable") or ()) or 1 for claim in claims for request in requests_of(claim)
    )


def first(claims: Sequence[Object], classes: Mapping[str, Object]) -> Alternative:
    """The alternative that takes the first entry of every list."""
    return _alternative(
        [_with_requests(claim, [choices(r)[0] for r in requests_of(claim)]) for claim in claims], classes
    )


def every(claims: Sequence[Object], classes: Mapping[str, Object]) -> Iterator[Alternative]:
    """All alternatives, the first entries first.  Look at `count` before: the lists of one claim multiply in memory."""
    for chosen in itertools.product(*(list(_variants(claim)) for claim in claims)):
        yield _alternative(chosen, classes)


def _alternative(claims: Sequence[Object], classes: Mapping[str, Object]) -> Alternative:
    named = sorted({subrequest.device_class for claim in claims for subrequest in device_classes(claim)})
    return Alternative(tuple(claims), {name: classes[name] for name in named if name in classes})


def _variants(claim: Object) -> Iterator[Object]:
    for chosen in itertools.product(*(choices(request) for request in requests_of(claim))):
        yield _with_requests(claim, chosen)


def _with_requests(claim: Object, requests: Sequence[Object]) -> Object:
    if not any(request.get("firstAvailable") for request in requests_of(claim)):
        return claim
    body = spec(claim)
    return {**claim, "spec": {**body, "devices": {**body["devices"], "requests": list(requests)}}}


def choices(request: Object) -> list[Object]:
    """The requests, in `exactly` form, that this one may turn into: never empty."""
    subrequests = request.get("firstAvailable")
    if not subrequests:
        return [request]
    return [
        {"name": request.get("name"), "exactly": {member: value for member, value in entry.items() if member != "name"}}
        for entry in subrequests
    ]
