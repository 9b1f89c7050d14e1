"""Which claims and WorkloadClaims a change concerns: the one table of what wakes the two loops of reservations.

Read by `controllers.reservations.loop`.  Nothing else adds keys, apart from retries, the workloads' own watches,
what is found over time (`tollbar.views.oscillations`), and `replay`.
"""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Final, NamedTuple

from tollbar import wellknown
from tollbar.model import claims, managers
from tollbar.model.objects import Key, Object, annotations_of, key_of
from tollbar.runtime.store import Delta, Store
from tollbar.runtime.workqueue import LIVE, RELIST, WorkQueue
from tollbar.views.caches import ClaimCaches

Mapper = Callable[[Delta, ClaimCaches], Iterable[Key]]

_OURS: Final = (
    wellknown.ANNOTATION_RESERVED_FOR,
    wellknown.ANNOTATION_RESERVED_UID,
    wellknown.ANNOTATION_WORKLOAD_CLAIM,
)


def is_kept(claim: Object) -> bool:
    """Whether somebody wants to keep it for a workload, or wanted to and an entry of ours is left of it."""
    return any(name in annotations_of(claim) for name in _OURS) or bool(managers.reserved_by_us(claim))


def kept_claim(delta: Delta, _caches: ClaimCaches) -> Iterable[Key]:
    """Itself."""
    return {key_of(claim) for claim in _either(delta) if is_kept(claim)}


def kept_claims_of_pod(delta: Delta, caches: ClaimCaches) -> Iterable[Key]:
    """Those that the Pod refers to or referred to."""
    for pod in _either(delta):
        for name in claims.names_of(pod):
            key = Key(key_of(pod).namespace, name)
            claim = caches.claims.get(key)
            if claim is not None and is_kept(claim):
                yield key


def itself(delta: Delta, _caches: ClaimCaches) -> Iterable[Key]:
    return {key_of(obj) for obj in _either(delta)}


def claim_of_workload_claim(delta: Delta, caches: ClaimCaches) -> Iterable[Key]:
    """The claim that it names, if it exists: without its WorkloadClaim nobody keeps it."""
    for obj in _either(delta):
        name = (obj.get("spec") or {}).get("resourceClaimName") or key_of(obj).name
        if (key := Key(key_of(obj).namespace, str(name))) in caches.claims:
            yield key


def workload_claims_of_claim(delta: Delta, caches: ClaimCaches) -> Iterable[Key]:
    for claim in _either(delta):
        yield from map(key_of, caches.workload_claims.by_index("claim", key_of(claim)))


def workload_claims_of_template(delta: Delta, caches: ClaimCaches) -> Iterable[Key]:
    for template in _either(delta):
        yield from map(key_of, caches.workload_claims.by_index("template", key_of(template)))


class Route(NamedTuple):
    """`store` names an attribute of the caches, `queue` one of the two; `replay`: what is there counts as changes."""

    store: str
    mapper: Mapper
    queue: str
    replay: bool = False


ROUTES: Final = (
    Route("claims", kept_claim, "reservations", replay=True),
    Route("claim_users", kept_claims_of_pod, "reservations"),
    Route("workload_claims", claim_of_workload_claim, "reservations"),
    Route("workload_claims", itself, "workloadclaims", replay=True),
    Route("claims", workload_claims_of_claim, "workloadclaims"),
    Route("templates", workload_claims_of_template, "workloadclaims"),
)


def subscribe(caches: ClaimCaches, queues: dict[str, WorkQueue[Key]]) -> None:
    """Connect every route.  Call it once, when there is somebody to drain the queues."""
    for route in ROUTES:
        store: Store = attrgetter(route.store)(caches)
        store.subscribe(_handler(route.mapper, caches, queues[route.queue]), replay=route.replay)


def replay(caches: ClaimCaches, queue: WorkQueue[Key]) -> None:
    """Every claim that is kept, when what may be reserved has changed."""
    for claim in caches.claims.values():
        if is_kept(claim):
            queue.add(key_of(claim), priority=RELIST)


def _handler(mapper: Mapper, caches: ClaimCaches, queue: WorkQueue[Key]) -> Callable[[Delta], None]:
    def on_delta(delta: Delta) -> None:
        for key in mapper(delta, caches):
            queue.add(key, priority=RELIST if delta.initial else LIVE)

    return on_delta


def _either(delta: Delta) -> Iterable[Object]:
    return (obj for obj in (delta.old, delta.new) if obj is not None)
