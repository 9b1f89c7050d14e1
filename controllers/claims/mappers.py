"""Which Pods, PodGroups and claims a change gives something to do: the one table of what wakes the claims controller.

Read by `controllers.claims.loop`.  What is a candidate is decided at once, in memory, by the function that a worker
will decide with: a key is added when the plan is to do something, so that most events cost no turn in the queue.
"""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Final, NamedTuple

from controllers.claims.view import View
from tollbar.decide.claims import consumers, resourceclaims
from tollbar.decide.claims.consumers import ConsumerFacts
from tollbar.decide.claims.resourceclaims import ClaimFacts, is_done, references_to_clean
from tollbar.model.objects import Key, Object, key_of
from tollbar.runtime.store import Delta, Store
from tollbar.runtime.workqueue import LIVE, RELIST, WorkQueue


class ClaimKey(NamedTuple):
    """One object to work on; `kind` is Pod, PodGroup or ResourceClaim."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.namespace}/{self.name}"

    @property
    def key(self) -> Key:
        return Key(self.namespace, self.name)


Mapper = Callable[[Delta, View], Iterable[ClaimKey]]


def of_pod(delta: Delta, view: View) -> Iterator[ClaimKey]:
    """A Pod that came, changed or went: itself while it lives, its claims when it does not need them any more."""
    if delta.new is None or is_done(delta.new):
        yield from _claims_of(delta.new or delta.old or {}, view)
    else:
        yield from _user(delta.new, view)


def of_claim(delta: Delta, view: View) -> Iterator[ClaimKey]:
    """Itself unless it is gone, and all who refer to it: one that is gone may have to be created again."""
    if delta.new is not None:
        yield from _claim(delta.new, view)
    for key in {key_of(claim) for claim in (delta.old, delta.new) if claim is not None}:
        for store in (view.caches.claim_users, view.caches.pod_groups):
            for user in store.by_index("claim", key):
                yield from _user(user, view)


def of_template(delta: Delta, view: View) -> Iterator[ClaimKey]:
    """Whoever waits for it."""
    if delta.new is not None:
        for store in (view.caches.claim_users, view.caches.pod_groups):
            for user in store.by_index("template", key_of(delta.new)):
                yield from _user(user, view)


def of_pod_group(delta: Delta, view: View) -> Iterator[ClaimKey]:
    """Itself or, when it is gone, its claims; and its Pods, which share its claims."""
    group = delta.new or delta.old or {}
    yield from _claims_of(group, view) if delta.new is None else _user(group, view)
    for pod in view.caches.claim_users.by_index("group", key_of(group)):
        yield from _user(pod, view)


class Route(NamedTuple):
    """`store` names an attribute of the caches; `replay`: whether what is there at the start counts as changes."""

    store: str
    mapper: Mapper
    replay: bool = True


ROUTES: Final = (
    Route("claim_users", of_pod),
    Route("claims", of_claim),
    Route("pod_groups", of_pod_group),
    Route("templates", of_template, replay=False),
)


def subscribe(view: View, queue: WorkQueue[ClaimKey]) -> None:
    """Connect every route.  Call it once, when there is somebody to drain the queue."""
    for route in ROUTES:
        _store(route, view).subscribe(_handler(route.mapper, view, queue), replay=route.replay)


def replay(view: View, queue: WorkQueue[ClaimKey]) -> None:
    """Add whatever there is to do, as at the start."""
    for route in ROUTES:
        handler = _handler(route.mapper, view, queue)
        for obj in _store(route, view).values() if route.replay else ():
            handler(Delta(None, obj, initial=True))


def _store(route: Route, view: View) -> Store:
    found: Store = attrgetter(route.store)(view.caches)
    return found


def _handler(mapper: Mapper, view: View, queue: WorkQueue[ClaimKey]) -> Callable[[Delta], None]:
    def on_delta(delta: Delta) -> None:
        for key in mapper(delta, view):
            queue.add(key, priority=RELIST if delta.initial else LIVE)

    return on_delta


def _user(user: Object, view: View) -> Iterator[ClaimKey]:
    if consumers.decide(ConsumerFacts(user, view)).is_needed:
        yield ClaimKey(user["kind"], *key_of(user))


def _claim(claim: Object, view: View) -> Iterator[ClaimKey]:
    if resourceclaims.decide(ClaimFacts(claim, view)).is_needed:
        yield ClaimKey("ResourceClaim", *key_of(claim))


def _claims_of(user: Object, view: View) -> Iterator[ClaimKey]:
    for key in references_to_clean(user):
        claim = view.caches.claims.get(key)
        if claim is not None:
            yield from _claim(claim, view)
