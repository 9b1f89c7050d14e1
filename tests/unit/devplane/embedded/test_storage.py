"""Storage: history, pages, continue tokens, watches, and revisions that the history no longer has."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
import pytest

from tollbar.devplane.embedded import selectors, watches
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.storage import Clash, Compacted, Storage, position, token
from tollbar.devplane.embedded.watches import Watch
from tollbar.model.objects import Key, Object
from tollbar.model.resources import LEASES
from tollbar.runtime.clock import SystemClock

KIND = Kinds().at(LEASES)


def stored(history: int = 100) -> Storage:
    storage = Storage(history)
    storage.open(LEASES, ["spec.holderIdentity"])
    return storage


def lease(name: str, holder: str = "1", namespace: str = "n", **labels: str) -> Object:
    meta: Object = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta,
        "spec": {"holderIdentity": holder},
    }


def put(storage: Storage, *names: str, holder: str = "1", namespace: str = "n") -> int:
    """Write these, one after the other; the last revision."""
    for name in names:
        key = Key(namespace, name)
        storage.write(LEASES, lease(name, holder, namespace), storage.get(LEASES, key))
    return storage.revision


def remove(storage: Storage, name: str) -> None:
    entry = storage.get(LEASES, Key("n", name))
    assert entry is not None
    storage.delete(LEASES, Key("n", name), entry)


def page(storage: Storage, **wanted: Any) -> tuple[str, str, int]:
    """Names in one word, the name that the rest starts with, and how many follow."""
    found = storage.list(LEASES, wanted.pop("namespace", ""), selectors.everything, **wanted)
    names = "".join(entry.decoded()["metadata"]["name"] for entry in found.entries)
    return names, found.following.name if found.following else "", found.remaining


def changed_between(storage: Storage) -> int:
    """Leases b, c and d; then a and e are created, c is deleted, d changes.  The revision before."""
    before = put(storage, "b", "c", "d")
    put(storage, "a", "e")
    remove(storage, "c")
    put(storage, "d", holder="2")
    return before


def compacted(storage: Storage) -> int:
    """More changes than are kept; the first revision."""
    first = put(storage, "a")
    for number in range(300):
        put(storage, "a", holder=str(number))
    return first


PAGES: dict[str, tuple[Callable[[Storage], Any], Any]] = {
    "in the order of namespace and name": (
        lambda storage: (put(storage, "b"), put(storage, "a", namespace="z"), put(storage, "a"), page(storage))[-1],
        ("aba", "", 0),
    ),
    "of one namespace, not of those that start with its name": (
        lambda storage: (put(storage, "a"), put(storage, "b", namespace="n2"), page(storage, namespace="n"))[-1],
        ("a", "", 0),
    ),
    "a page, where it goes on, and how much": (
        lambda storage: (put(storage, "a", "b", "c", "d"), page(storage, limit=2))[-1],
        ("ab", "c", 2),
    ),
    "as it was": (lambda storage: page(storage, revision=changed_between(storage)), ("bcd", "", 0)),
    "what was created later does not count as the rest": (
        lambda storage: page(storage, revision=changed_between(storage), limit=1),
        ("b", "c", 2),
    ),
    "from a key that is gone": (
        lambda storage: page(storage, revision=changed_between(storage), start=Key("n", "c")),
        ("cd", "", 0),
    ),
    "as it was, with the values of then": (
        lambda storage: (
            (before := changed_between(storage))
            and [
                entry.field("spec.holderIdentity")
                for entry in storage.list(LEASES, "", selectors.everything, revision=before).entries
            ]
        ),
        ["1", "1", "1"],
    ),
}


@pytest.mark.parametrize(("attempt", "want"), PAGES.values(), ids=PAGES)
def test_pages(attempt: Callable[[Storage], Any], want: Any) -> None:
    assert attempt(stored()) == want


def test_a_continue_token_holds_a_key_and_a_revision() -> None:
    assert position(token(7, Key("n", "a b"))) == (7, Key("n", "a b"))


def test_a_malformed_continue_token_is_refused() -> None:
    with pytest.raises(ValueError, match="not a continue token"):
        position("nonsense")


def test_the_history_is_bounded_and_an_older_revision_is_compacted() -> None:
    storage = stored(history=50)
    first = compacted(storage)

    kept = storage.since(LEASES, storage.revision - 50)

    with pytest.raises(Compacted):
        storage.since(LEASES, first)
    with pytest.raises(Compacted):
        storage.list(LEASES, "", selectors.everything, revision=first)
    assert [change.revision for change in kept] == list(range(storage.revision - 49, storage.revision + 1))


def test_a_write_with_an_outdated_entry_clashes() -> None:
    storage = stored()
    put(storage, "a")
    read = storage.get(LEASES, Key("n", "a"))
    assert read is not None
    put(storage, "a", holder="2")

    with pytest.raises(Clash):
        storage.write(LEASES, lease("a", "3"), read)
    with pytest.raises(Clash):
        storage.delete(LEASES, Key("n", "a"), read)
    with pytest.raises(Clash):
        storage.write(LEASES, lease("a"), None)


def test_the_history_of_a_resource_starts_when_it_is_opened() -> None:
    storage = stored()
    put(storage, "a")
    storage.drop(LEASES)
    storage.open(LEASES)

    with pytest.raises(Compacted):
        storage.since(LEASES, 1)
    assert (page(storage), storage.since(LEASES, storage.revision)) == (("", "", 0), ())


async def events(storage: Storage, revision: int | None, seconds: float, **wanted: Any) -> list[tuple[str, str]]:
    """(type, name or version) of everything that a watch says."""
    watch = Watch(KIND, "", wanted.pop("matches", selectors.everything), revision, seconds, **wanted)
    lines = [line async for lines in watches.stream(storage, SystemClock(), watch) for line in lines.splitlines()]
    found = [orjson.loads(line) for line in lines]
    return [(each["type"], each["object"]["metadata"].get("name") or str(each["object"].get("code"))) for each in found]


@pytest.mark.looptime
async def test_a_watch_sends_a_bookmark_every_minute_and_one_shortly_before_its_end() -> None:
    storage = stored()
    start = asyncio.get_running_loop().time()
    watch = Watch(KIND, "", selectors.everything, 1, 140, bookmarks=True)
    clock = asyncio.get_running_loop().time
    moments = [round(clock() - start) async for _ in watches.stream(storage, SystemClock(), watch)]

    assert moments == [60, 120, 138, 140]


@pytest.mark.looptime
async def test_a_watch_marks_the_end_of_its_initial_events() -> None:
    storage = stored()
    put(storage, "a", "b")

    found = await events(storage, None, 1, bookmarks=True, initial_end=True)

    assert found == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "None"), ("BOOKMARK", "None")]


@pytest.mark.looptime
async def test_a_watch_that_falls_behind_the_history_gets_410_and_ends() -> None:
    storage = stored(history=50)
    first = put(storage, "a")
    stream = watches.stream(storage, SystemClock(), Watch(KIND, "", selectors.everything, first - 1, 60))
    read = [await anext(stream)]
    for number in range(200):
        put(storage, "a", holder=str(number))
    read += [lines async for lines in stream]

    told = [orjson.loads(line) for lines in read for line in lines.splitlines()]
    assert [(each["type"], each["object"].get("reason")) for each in told] == [("ADDED", None), ("ERROR", "Expired")]


@pytest.mark.looptime
async def test_a_watch_ends_with_its_kind() -> None:
    storage = stored()
    told = asyncio.create_task(events(storage, 1, 3600))
    await asyncio.sleep(1)
    storage.drop(LEASES)

    assert await told == []
