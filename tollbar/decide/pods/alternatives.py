"""What `firstAvailable` lists (KEP-4816) leave open: the packages that a Pod may turn out to need.

An alternative is the package's claims with one subrequest in the place of each list, as `exactly`, so that rules are
written once.  The classes of an alternative are those that its own requests name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tollbar.model.claims import device_classes, requests_of
from tollbar.model.objects import Object, picked, spec


@dataclass(frozen=True, slots=True)
class Alternative:
    """One choice from every list: claims without lists, and the DeviceClasses by name that these claims name."""

    claims: tuple[Object, ...]
    classes: Mapping[str, Object]


def size(claim: Object) -> int:
    """How many things its requests may turn into, one after the other: what it costs to look at each once."""
    return sum(map(_length, requests_of(claim)))


def count(claims: Sequence[Object], most: int) -> int:
    """How many alternatives there are: the product of the lists' lengths, 1 when there is no list.

    Some number above `most` once there are more: the product of all lists of a large package has a million digits.
    """
    product = 1
    for claim in claims:
        for request in requests_of(claim):
            product *= _length(request)
            if product > most:
                return product
    return product


def nth(claims: Sequence[Object], classes: Mapping[str, Object], index: int) -> Alternative:
    """The alternative of this index, less than `count`: 0 takes the first entry of every list, 1 the second of the
    last list."""
    chosen = []
    for claim in reversed(claims):
        requests = []
        for request in reversed(requests_of(claim)):
            index, place = divmod(index, _length(request))
            requests.append(_choice(request, place))
        chosen.append(_with_requests(claim, requests[::-1]))
    named = sorted({name for claim in chosen for name in device_classes(claim)})
    return Alternative(tuple(reversed(chosen)), picked(classes, named))


def choices(request: Object) -> Iterator[Object]:
    """The requests, in `exactly` form, that this one may turn into: at least one."""
    return (_choice(request, place) for place in range(_length(request)))


def _length(request: Object) -> int:
    return len(request.get("firstAvailable") or ()) or 1


def _choice(request: Object, place: int) -> Object:
    subrequests = request.get("firstAvailable")
    if not subrequests:
        return request
    exactly = {member: value for member, value in subrequests[place].items() if member != "name"}
    return {"name": request.get("name"), "exactly": exactly}


def _with_requests(claim: Object, requests: Sequence[Object]) -> Object:
    if not any(request.get("firstAvailable") for request in requests_of(claim)):
        return claim
    body = spec(claim)
    return {**claim, "spec": {**body, "devices": {**body["devices"], "requests": list(requests)}}}
