"""Watches: what arrives, in which order, from where on, and how they end."""

from typing import Any

from contract.api import Api, at, told, until
from contract.definitions import definition, established
from contract.objects import lease, pod, remove
from contract.tables import Rows, rows

from tollbar.model.objects import Object
from tollbar.model.resources import LEASES, PODS, Resource
from tollbar.runtime.client import PatchType

GADGETS = Resource("other.example.com", "v1", "gadgets", "Gadget", namespaced=True)
HELD: Object = {"labels": {"state": "held"}}


def now(api: Api, res: Resource = LEASES) -> str:
    return api.page(res).version


def seen(api: Api, version: str, count: int, res: Resource = LEASES, **query: str) -> list[tuple[str, Any]]:
    """So many events from a version on."""
    with api.watch(res, resourceVersion=version, **query) as watch:
        return watch.take(count)


def short(events: list[tuple[str, Any]], path: str = "spec.holderIdentity") -> list[tuple[str, str, Any]]:
    """Type, name and one value of each event."""
    return [(kind, obj["metadata"]["name"], at(obj, path)) for kind, obj in events]


def write(api: Api, text: str) -> str:
    return api.patch(LEASES, "turn", {"spec": {"holderIdentity": text}}, PatchType.MERGE).accepted().version


def a_life(api: Api) -> list[Any]:
    start = now(api)
    api.create(lease()).accepted()
    write(api, "2")
    api.delete(LEASES, "turn").accepted()
    return short(seen(api, start, 3))


def resumed(api: Api) -> list[Any]:
    start = now(api)
    api.create(lease()).accepted()
    write(api, "2")
    write(api, "3")
    first = seen(api, start, 2)
    return short(seen(api, first[-1][1]["metadata"]["resourceVersion"], 1))


def live(api: Api) -> list[Any]:
    with api.watch(LEASES, resourceVersion=now(api)) as watch:
        api.create(lease()).accepted()
        first = watch.names(1)
        api.delete(LEASES, "turn").accepted()
        return first + watch.names(1)


def from_nowhere(api: Api) -> list[Any]:
    """Without a version: what exists, then what happens."""
    api.create(lease(labels={"of": "me"})).accepted()
    with api.watch(LEASES, labelSelector="of=me") as watch:
        first = watch.names(1)
        write(api, "2")
        return first + watch.names(1)


def left_by_binding(api: Api) -> Any:
    """The event of a Pod that gets a Node, for those who watch Pods without one: (type, Node in it, newer)."""
    api.create(pod()).accepted()
    start = now(api, PODS)
    api.bind().accepted()
    kind, obj = seen(api, start, 1, PODS, fieldSelector="spec.nodeName=")[0]
    return kind, at(obj, "spec.nodeName"), obj["metadata"]["resourceVersion"] == api.get(PODS, "web").version


def left_by_release(api: Api) -> Any:
    """The same for a Pod that loses gate and label in one patch: (type, label, gates, newer)."""
    start = now(api, PODS)
    api.create(pod("example.com/a", metadata=HELD)).accepted()
    patch = [remove("/spec/schedulingGates/0"), {"op": "replace", "path": "/metadata/labels/state", "value": "free"}]
    released = api.patch(PODS, "web", patch).accepted()
    kind, obj = seen(api, start, 2, PODS, labelSelector="state=held")[1]
    meta = obj["metadata"]
    return kind, meta["labels"], at(obj, "spec.schedulingGates"), meta["resourceVersion"] == released.version


def entered(api: Api) -> Any:
    api.create(lease()).accepted()
    start = now(api)
    api.patch(LEASES, "turn", {"metadata": HELD}, PatchType.MERGE).accepted()
    write(api, "2")
    return short(seen(api, start, 2, labelSelector="state=held"))


def elsewhere(api: Api) -> Any:
    """What does not match before nor after is not heard of."""
    start = now(api)
    api.create(lease("other")).accepted()
    api.create(lease(**HELD)).accepted()
    return short(seen(api, start, 1, labelSelector="state=held"))


def waiting_for_its_end(api: Api) -> Any:
    """A deletion that a finalizer delays is a change first."""
    api.create(lease(finalizers=["contract.example.com/wait"])).accepted()
    start = now(api)
    api.delete(LEASES, "turn").accepted()
    api.patch(LEASES, "turn", {"metadata": {"finalizers": None}}, PatchType.MERGE).accepted()
    return [
        (kind, at(obj, "metadata.deletionTimestamp") is not None, at(obj, "metadata.finalizers"))
        for kind, obj in seen(api, start, 2)
    ]


def too_old(api: Api) -> Any:
    """A version from before the kind existed."""
    with established(api, definition(GADGETS)), api.watch(GADGETS, resourceVersion="1") as watch:
        (kind, status), *more = watch
    said = status["message"].split(" (")[0]
    return kind, status["kind"], status["code"], status["reason"], said, more


def quiet_end(api: Api) -> Any:
    """Two watches at once that run out after a second; nothing has happened to what they select."""
    base = {"resourceVersion": now(api), "labelSelector": "of=nobody", "timeoutSeconds": "1"}
    api.create(lease()).accepted()
    with api.watch(LEASES, **base) as plain, api.watch(LEASES, **{**base, "resourceVersion": "99999999"}) as ahead:
        return list(plain), list(ahead)


def marked(api: Api) -> Any:
    """What a watch brings in which nothing happens to what it selects; the first that a busy server marked in time."""
    query = {"resourceVersion": now(api), "labelSelector": "of=nobody", "allowWatchBookmarks": "true"}
    other = int(api.create(lease()).accepted().version)

    def events() -> set[tuple[str, str, Any]]:
        """With three seconds there is one bookmark: one second after the start, a little earlier or later."""
        with api.watch(LEASES, **query, timeoutSeconds="3") as watch:
            every = list(watch)
        is_past = any(int(obj["metadata"]["resourceVersion"]) >= other for _, obj in every)
        return {(kind, obj["kind"], obj["metadata"].get("name")) for kind, obj in every} if is_past else set()

    return until(events, "a bookmark past the other object")


WATCHES: Rows = {
    "creation, change and deletion, in order": (
        a_life,
        [("ADDED", "turn", "1"), ("MODIFIED", "turn", "2"), ("DELETED", "turn", "2")],
    ),
    "from the last seen version on, nothing comes twice": (resumed, [("MODIFIED", "turn", "3")]),
    "what happens while it is open": (live, [("ADDED", "turn"), ("DELETED", "turn")]),
    "without a version it starts with what exists": (from_nowhere, [("ADDED", "turn"), ("MODIFIED", "turn")]),
    "binding takes a Pod out of those without a Node: DELETED, old state, new version": (
        left_by_binding,
        ("DELETED", None, True),
    ),
    "release takes a Pod out of those held: DELETED, old state, new version": (
        left_by_release,
        ("DELETED", {"state": "held"}, [{"name": "example.com/a"}], True),
    ),
    "a label makes an old object ADDED": (entered, [("ADDED", "turn", "1"), ("MODIFIED", "turn", "2")]),
    "what never matched is not heard of": (elsewhere, [("ADDED", "turn", "1")]),
    "a deletion that waits is MODIFIED, its end DELETED": (
        waiting_for_its_end,
        [("MODIFIED", True, ["contract.example.com/wait"]), ("DELETED", True, ["contract.example.com/wait"])],
    ),
    "a version that is too old: 410 in the stream, which ends": (
        too_old,
        ("ERROR", "Status", 410, "Expired", "too old resource version: 1", []),
    ),
    "the time runs out: the stream ends, and silence about the future": (quiet_end, ([], [])),
    "bookmarks, past what is not selected, on request": (marked, {("BOOKMARK", "Lease", None)}),
}


@rows(WATCHES)
def test_watches(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want
