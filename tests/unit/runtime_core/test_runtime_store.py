"""The store: what each operation does to objects, indexes and those who listen."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata
from tollbar.runtime.store import Delta, Store, drop_managed_fields


def pod(name: str, version: int, uid: str = "1", **labels: str) -> Object:
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "uid": f"{name}{uid}",
            "resourceVersion": str(version),
            "labels": labels,
        }
    }


def make() -> Store:
    return Store(
        resources.PODS, indexers={"app": lambda obj: [labels_of(obj)["app"]] if "app" in labels_of(obj) else []}
    )


def listen(store: Store) -> list[str]:
    heard: list[str] = []

    def say(delta: Delta) -> None:
        sign = "~" if delta.old and delta.new else "+" if delta.new else "-"
        obj = delta.new or delta.old or {}
        heard.append(f"{sign}{metadata(obj)['uid']}{' initial' if delta.initial else ''}")

    store.subscribe(say)
    return heard


@dataclass
class Case:
    """`held` are name, uid and version of what the store has at the end."""

    given: list[Callable[[Store], None]]
    heard: list[str]
    held: list[tuple[str, str, str]]


CASES = {
    "an addition, an update, a deletion": Case(
        [
            lambda store: store.apply(pod("a", 1)),
            lambda store: store.apply(pod("a", 2, app="x")),
            lambda store: store.apply(pod("b", 3)),
            lambda store: store.remove(pod("a", 4)),
        ],
        ["+a1", "~a1", "+b1", "-a1"],
        [("b", "b1", "3")],
    ),
    "the same but for its version is stored and not told": Case(
        [lambda store: store.apply(pod("a", 1)), lambda store: store.apply(pod("a", 2))],
        ["+a1"],
        [("a", "a1", "2")],
    ),
    "another uid under the same name is a deletion and an addition": Case(
        [lambda store: store.apply(pod("a", 1)), lambda store: store.apply(pod("a", 2, uid="2"))],
        ["+a1", "-a1", "+a2"],
        [("a", "a2", "2")],
    ),
    "the deletion of an earlier object of that name is no news": Case(
        [lambda store: store.apply(pod("a", 1, uid="2")), lambda store: store.remove(pod("a", 2, uid="1"))],
        ["+a2"],
        [("a", "a2", "1")],
    ),
    "the deletion of the unknown is no news": Case([lambda store: store.remove(pod("a", 2))], [], []),
    "the order of the watch is the truth": Case(
        [lambda store: store.apply(pod("a", 9)), lambda store: store.apply(pod("a", 8, app="x"))],
        ["+a1", "~a1"],
        [("a", "a1", "8")],
    ),
    "a complete list replaces by uid": Case(
        [
            lambda store: store.replace([pod("a", 1), pod("b", 2), pod("c", 3)], "5"),
            lambda store: store.replace([pod("b", 2), pod("c", 7, uid="2")], "8"),
        ],
        ["+a1 initial", "+b1 initial", "+c1 initial", "-c1 initial", "+c2 initial", "-a1 initial"],
        [("b", "b1", "2"), ("c", "c2", "7")],
    ),
    "an assumed update is there at once, and its confirmation is no news": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 6, app="x")),
            lambda store: store.apply(pod("a", 6, app="x")),
        ],
        ["+a1 initial", "~a1"],
        [("a", "a1", "6")],
    ),
    "an older event does not undo an assumed update": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.apply(pod("a", 6, app="old")),
        ],
        ["+a1 initial", "~a1"],
        [("a", "a1", "7")],
    ),
    "an older list does not undo an assumed update": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.replace([pod("a", 1)], "6"),
        ],
        ["+a1 initial", "~a1"],
        [("a", "a1", "7")],
    ),
    "a newer event replaces an assumed update": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.apply(pod("a", 8, app="new")),
            lambda store: store.apply(pod("a", 6, app="the watch has the last word again")),
        ],
        ["+a1 initial", "~a1", "~a1", "~a1"],
        [("a", "a1", "6")],
    ),
    "an update that took the object out of the selector": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.remove(pod("a", 7)),
        ],
        ["+a1 initial", "~a1", "-a1"],
        [],
    ),
    "an update of what had left the selector does not keep it": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.remove(pod("a", 6)),
        ],
        ["+a1 initial", "~a1", "-a1"],
        [],
    ),
    "a list without the object deletes an assumed update": Case(
        [
            lambda store: store.replace([pod("a", 1)], "5"),
            lambda store: store.assume(pod("a", 8, app="mine")),
            lambda store: store.replace([], "7"),
            lambda store: store.apply(pod("a", 6, app="nothing is assumed any more")),
        ],
        ["+a1 initial", "~a1", "-a1 initial", "+a1"],
        [("a", "a1", "6")],
    ),
    "an answer to what is not held is not assumed": Case([lambda store: store.assume(pod("a", 8))], [], []),
    "an answer to an earlier object of that name is not assumed": Case(
        [lambda store: store.apply(pod("a", 5, uid="2")), lambda store: store.assume(pod("a", 8, uid="1"))],
        ["+a2"],
        [("a", "a2", "5")],
    ),
    "an answer older than what is held is not assumed": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 8, app="second")),
            lambda store: store.assume(pod("a", 7, app="first")),
        ],
        ["+a1", "~a1"],
        [("a", "a1", "8")],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_store(case: Case) -> None:
    store = make()
    heard = listen(store)
    for operation in case.given:
        operation(store)
    held = [(meta["name"], meta["uid"], meta["resourceVersion"]) for meta in map(metadata, store.values())]
    assert (heard, held) == (case.heard, case.held)


def test_an_index_follows_its_objects() -> None:
    store = make()
    seen: list[list[str]] = []

    def look() -> None:
        seen.append([metadata(obj)["name"] for app in ("x", "y") for obj in store.by_index("app", app)])

    store.apply(pod("a", 1, app="x"))
    store.apply(pod("b", 2, app="y"))
    look()
    store.apply(pod("a", 3, app="y"))
    look()
    store.apply(pod("b", 4))
    look()
    store.remove(pod("a", 5))
    look()
    assert seen == [["a", "b"], ["b", "a"], ["a"], []]


def test_an_unknown_index_is_an_error() -> None:
    with pytest.raises(KeyError):
        make().by_index("nobody", "x")


def test_the_projection_decides_what_is_kept() -> None:
    store = Store(resources.PODS, project=lambda obj: {"metadata": drop_managed_fields(obj)["metadata"]})
    given = pod("a", 1)
    given["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    given["spec"] = {"nodeName": "n"}
    store.apply(given)
    assert (store.get(Key("shop", "a")), given["metadata"]["managedFields"]) == (pod("a", 1), [{"manager": "kubectl"}])


def test_a_change_outside_the_projection_is_no_news() -> None:
    store = Store(resources.PODS, project=lambda obj: {"metadata": obj["metadata"]})
    heard = listen(store)
    store.apply({**pod("a", 1), "status": {"phase": "Pending"}})
    store.apply({**pod("a", 2), "status": {"phase": "Running"}})
    assert heard == ["+a1"]


def test_a_late_listener_hears_what_is_there() -> None:
    store = make()
    store.apply(pod("a", 1))
    assert listen(store) == ["+a1 initial"]


def test_a_late_listener_may_want_changes_only() -> None:
    store, heard = make(), list[Delta]()
    store.apply(pod("a", 1))
    store.subscribe(heard.append, replay=False)
    store.apply(pod("b", 2))
    assert [key_of(delta.new or {}).name for delta in heard] == ["b"]


def test_a_handler_that_fails_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = make()

    def fail(_delta: Delta) -> None:
        raise RuntimeError("bug")

    store.subscribe(fail)
    heard = listen(store)
    store.apply(pod("a", 1))
    assert (heard, [record.message for record in caplog.records]) == (["+a1"], ["a handler failed"])


def test_an_indexer_that_fails_leaves_the_store_as_it_was() -> None:
    def fail(obj: Object) -> list[Any]:
        return [labels_of(obj)["app"]]

    store = Store(resources.PODS, indexers={"app": fail})
    heard = listen(store)
    with pytest.raises(KeyError):
        store.apply(pod("a", 1))
    assert (len(store), heard) == (0, [])


def test_containment_and_keys() -> None:
    store = make()
    store.apply(pod("a", 1))
    here, absent = Key("shop", "a"), Key("shop", "b")
    assert (here in store, absent in store, list(store.keys()), store.get(absent)) == (True, False, [here], None)
