"""The store: what each operation does to objects and indexes, and which changes handlers get."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from tollbar.model import resources
from tollbar.model.flat import Flat, flat
from tollbar.model.objects import Key, Object, key_of, labels_of, metadata
from tollbar.runtime.projection import Keep, drop_managed_fields
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store


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


def make(flat: Callable[[Object], Flat | None] | None = None) -> Store:
    return Store(
        resources.PODS,
        indexers={"app": lambda obj: [labels_of(obj)["app"]] if "app" in labels_of(obj) else []},
        flat=flat,
    )


def flat_if_labelled(obj: Object) -> Flat | None:
    return flat(obj) if labels_of(obj) else None


def listen(store: Store) -> list[str]:
    heard: list[str] = []

    def say(delta: Delta) -> None:
        sign = "~" if delta.old and delta.new else "+" if delta.new else "-"
        obj = delta.new or delta.old or {}
        heard.append(f"{sign}{metadata(obj)['uid']}{' initial' if delta.initial else ''}")

    store.subscribe(say)
    return heard


KEY = Key("shop", "a")


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
    "a creation is there at once, and its confirmation is no news": Case(
        [
            lambda store: store.assume(pod("a", 6), created=True),
            lambda store: store.apply(pod("a", 6)),
        ],
        ["+a1"],
        [("a", "a1", "6")],
    ),
    "a creation of which the watch was quicker to tell": Case(
        [lambda store: store.apply(pod("a", 6)), lambda store: store.assume(pod("a", 6), created=True)],
        ["+a1"],
        [("a", "a1", "6")],
    ),
    "a creation that the watch showed to be over before the answer came": Case(
        [
            lambda store: store.replace([], "5"),
            lambda store: store.apply(pod("a", 6)),
            lambda store: store.remove(pod("a", 7)),
            lambda store: setattr(store, "resource_version", "7"),
            lambda store: store.assume(pod("a", 6), created=True),
        ],
        ["+a1", "-a1"],
        [],
    ),
    "a creation that a list showed to be over before the answer came": Case(
        [lambda store: store.replace([], "7"), lambda store: store.assume(pod("a", 6), created=True)],
        [],
        [],
    ),
    "a newer event replaces a creation": Case(
        [
            lambda store: store.assume(pod("a", 6), created=True),
            lambda store: store.apply(pod("a", 8, app="new")),
            lambda store: store.apply(pod("a", 7, app="the watch has the last word again")),
        ],
        ["+a1", "~a1", "~a1"],
        [("a", "a1", "7")],
    ),
    "another object of the name, created later, replaces a creation": Case(
        [
            lambda store: store.assume(pod("a", 6), created=True),
            lambda store: store.apply(pod("a", 9, uid="2")),
        ],
        ["+a1", "-a1", "+a2"],
        [("a", "a2", "9")],
    ),
    "the end of an earlier object of the name does not end a creation": Case(
        [
            lambda store: store.assume(pod("a", 6, uid="2"), created=True),
            lambda store: store.apply(pod("a", 4, uid="1")),
            lambda store: store.remove(pod("a", 5, uid="1")),
        ],
        ["+a2"],
        [("a", "a2", "6")],
    ),
    "the watch tells the end of what was created": Case(
        [lambda store: store.assume(pod("a", 6), created=True), lambda store: store.remove(pod("a", 7))],
        ["+a1", "-a1"],
        [],
    ),
    "a list that is older than a creation does not end it": Case(
        [lambda store: store.assume(pod("a", 6), created=True), lambda store: store.replace([], "5")],
        ["+a1"],
        [("a", "a1", "6")],
    ),
    "a list that is newer than a creation ends it": Case(
        [lambda store: store.assume(pod("a", 6), created=True), lambda store: store.replace([], "7")],
        ["+a1", "-a1 initial"],
        [],
    ),
    "a list that is newer than a creation ends it although an update was assumed since": Case(
        [
            lambda store: store.assume(pod("a", 6), created=True),
            lambda store: store.assume(pod("a", 9, app="mine")),
            lambda store: store.replace([], "7"),
        ],
        ["+a1", "~a1", "-a1 initial"],
        [],
    ),
    "what is created under a name that is taken is left to the watch": Case(
        [
            lambda store: store.apply(pod("a", 5, uid="1")),
            lambda store: store.assume(pod("a", 6, uid="2"), created=True),
        ],
        ["+a1"],
        [("a", "a1", "5")],
    ),
    "a change in memory of the version that is held": Case(
        [lambda store: store.apply(pod("a", 5)), lambda store: store.assume(pod("a", 5, app="mine"))],
        ["+a1", "~a1"],
        [("a", "a1", "5")],
    ),
    "a change in memory that changes nothing": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5)),
            lambda store: store.apply(pod("a", 4, app="the watch has the last word")),
        ],
        ["+a1", "~a1"],
        [("a", "a1", "4")],
    ),
    "a change in memory is not undone by the event of its version": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5, app="mine")),
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1"],
        [("a", "a1", "5")],
    ),
    "a newer event ends a change in memory": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5, app="mine")),
            lambda store: store.apply(pod("a", 6, app="new")),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1"],
        [("a", "a1", "6")],
    ),
    "the answer to the write replaces the change in memory, and is confirmed like any other": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5, app="mine")),
            lambda store: store.assume(pod("a", 6, app="mine")),
            lambda store: store.apply(pod("a", 6, app="mine")),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1"],
        [("a", "a1", "6")],
    ),
    "restoring what nothing was assumed of changes nothing": Case(
        [lambda store: store.restore(KEY), lambda store: store.apply(pod("a", 5)), lambda store: store.restore(KEY)],
        ["+a1"],
        [("a", "a1", "5")],
    ),
    "restoring goes back to what was held before": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5, app="mine")),
            lambda store: store.assume(pod("a", 7, app="answer")),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1", "~a1"],
        [("a", "a1", "5")],
    ),
    "restoring goes to the last event that was older than what was assumed": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 9, app="mine")),
            lambda store: store.apply(pod("a", 6, app="x")),
            lambda store: store.apply(pod("a", 7, app="y")),
            lambda store: store.restore(KEY),
            lambda store: store.apply(pod("a", 8, app="z")),
        ],
        ["+a1", "~a1", "~a1", "~a1"],
        [("a", "a1", "8")],
    ),
    "restoring a change of an answer goes back to that answer": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 7, app="answer")),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.apply(pod("a", 6, app="x")),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1", "~a1"],
        [("a", "a1", "7")],
    ),
    "an answer that was gone back to is confirmed like any other": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 7, app="answer")),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.restore(KEY),
            lambda store: store.apply(pod("a", 7, app="answer")),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1", "~a1"],
        [("a", "a1", "7")],
    ),
    "a change of an answer goes back to what the watch has shown since": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 7, app="answer")),
            lambda store: store.assume(pod("a", 7, app="mine")),
            lambda store: store.apply(pod("a", 7, app="answer")),
            lambda store: store.restore(KEY),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "~a1", "~a1"],
        [("a", "a1", "7")],
    ),
    "restoring a creation takes it away": Case(
        [lambda store: store.assume(pod("a", 6), created=True), lambda store: store.restore(KEY)],
        ["+a1", "-a1"],
        [],
    ),
    "restoring a creation does not bring an earlier object of the name back": Case(
        [
            lambda store: store.assume(pod("a", 6, uid="2"), created=True),
            lambda store: store.apply(pod("a", 4, uid="1")),
            lambda store: store.remove(pod("a", 5, uid="1")),
            lambda store: store.restore(KEY),
        ],
        ["+a2", "-a2"],
        [],
    ),
    "restoring after the watch has told of the end changes nothing": Case(
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 5, app="mine")),
            lambda store: store.remove(pod("a", 6)),
            lambda store: store.restore(KEY),
        ],
        ["+a1", "~a1", "-a1"],
        [],
    ),
}


@pytest.mark.parametrize("keeps", [None, flat, flat_if_labelled], ids=["as they are", "flat", "some of them flat"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_store(case: Case, keeps: Callable[[Object], Flat | None] | None) -> None:
    store = make(keeps)
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


def test_a_handler_that_subscribes_late_gets_only_later_changes() -> None:
    store, heard = make(), list[Delta]()
    store.apply(pod("a", 1))
    store.subscribe(heard.append)
    store.apply(pod("b", 2))
    assert [key_of(delta.new or {}).name for delta in heard] == ["b"]


def test_what_is_there_can_be_replayed_as_initial_additions() -> None:
    store, heard = make(), list[Delta]()
    store.apply(pod("a", 1))
    store.apply(pod("b", 2))
    store.replay(heard.append)
    assert heard == [Delta(None, obj, initial=True) for obj in store.values()]


def test_a_replay_goes_on_when_the_handler_fails_about_one_object(caplog: pytest.LogCaptureFixture) -> None:
    store, heard = make(), list[str]()

    def fail_once(delta: Delta) -> None:
        heard.append(key_of(delta.new or {}).name)
        if len(heard) == 1:
            raise RuntimeError("bug")

    for name in ("a", "b"):
        store.apply(pod(name, 1))
    store.replay(fail_once)
    assert (heard, [record.message for record in caplog.records]) == (["a", "b"], ["a handler failed"])


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


def test_an_indexed_reader_finds_what_was_assumed_and_then_what_was_restored() -> None:
    store, seen = make(), list[list[str]]()
    steps: list[Callable[[], None]] = [
        lambda: store.apply(pod("a", 5, app="x")),
        lambda: store.assume(pod("a", 5, app="y")),
        lambda: store.assume(pod("b", 6, app="y"), created=True),
        lambda: store.restore(KEY),
        lambda: store.restore(Key("shop", "b")),
    ]
    for step in steps:
        step()
        seen.append([f"{app} {key_of(obj).name}" for app in ("x", "y") for obj in store.by_index("app", app)])
    assert seen == [["x a"], ["y a"], ["y a", "y b"], ["x a", "y b"], ["x a"]]


def test_what_is_assumed_and_restored_is_projected() -> None:
    store = Store(resources.PODS)
    fields = {"managedFields": [{"manager": "kubectl"}]}
    given = [{**pod("a", n), "metadata": {**pod("a", n)["metadata"], **fields}} for n in (5, 6, 7)]
    store.apply(given[0])
    store.assume(given[2])
    assumed = store.get(KEY)
    store.apply(given[1])
    store.restore(KEY)
    assert (assumed, store.get(KEY)) == (pod("a", 7), pod("a", 6))


def accepting() -> Store:
    return Store(resources.PODS, accepts=lambda obj: labels_of(obj).get("app") == "x")


ACCEPTED: dict[str, tuple[list[Callable[[Store], None]], list[str]]] = {
    "what is accepted": ([lambda store: store.apply(pod("a", 1, app="x"))], ["+a1"]),
    "not what is not": ([lambda store: store.apply(pod("a", 1))], []),
    "nor what is accepted no more": (
        [lambda store: store.apply(pod("a", 1, app="x")), lambda store: store.apply(pod("a", 2))],
        ["+a1", "-a1 initial"],
    ),
    "nor when another object of the name is not": (
        [lambda store: store.apply(pod("a", 1, app="x")), lambda store: store.apply(pod("a", 2, uid="2"))],
        ["+a1", "-a1 initial"],
    ),
    "nor a creation that is not": ([lambda store: store.assume(pod("a", 1), created=True)], []),
    "a creation that is": ([lambda store: store.assume(pod("a", 1, app="x"), created=True)], ["+a1"]),
}


@pytest.mark.parametrize(("given", "want"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_store_that_accepts_only_some_holds(given: list[Callable[[Store], None]], want: list[str]) -> None:
    store = accepting()
    heard = listen(store)
    for operation in given:
        operation(store)
    assert heard == want


def test_containment_and_keys() -> None:
    store = make()
    store.apply(pod("a", 1))
    here, absent = Key("shop", "a"), Key("shop", "b")
    assert (here in store, absent in store, list(store.keys()), store.get(absent)) == (True, False, [here], None)


AHEAD: dict[str, tuple[list[Callable[[Store], None]], bool]] = {
    "nothing was assumed": ([lambda store: store.apply(pod("a", 5))], False),
    "nothing is there": ([], False),
    "the answer to a write": (
        [lambda store: store.apply(pod("a", 5)), lambda store: store.assume(pod("a", 7, app="answer"))],
        True,
    ),
    "an answer that the watch has shown": (
        [
            lambda store: store.apply(pod("a", 5)),
            lambda store: store.assume(pod("a", 7, app="answer")),
            lambda store: store.apply(pod("a", 7, app="answer")),
        ],
        False,
    ),
    "a change in memory": (
        [lambda store: store.apply(pod("a", 5)), lambda store: store.assume(pod("a", 5, app="mine"))],
        False,
    ),
    "what was created": ([lambda store: store.assume(pod("a", 6), created=True)], True),
}


@pytest.mark.parametrize(("steps", "want"), AHEAD.values(), ids=AHEAD)
def test_whether_the_store_is_ahead_of_list_and_watch(steps: list[Callable[[Store], None]], want: bool) -> None:
    store = Store(resources.PODS)
    for step in steps:
        step(store)
    assert store.is_ahead(KEY) == want


def test_what_is_nested_too_deeply_to_be_compared_is_another_one() -> None:
    store = Store(resources.PODS, project=Keep(frozenset({"spec"})))
    heard = listen(store)
    for version in (5, 6):
        store.apply({**pod("a", version), "spec": orjson.loads(b'{"a":' * 1000 + b"1" + b"}" * 1000)})
    assert (heard, len(store)) == (["+a1", "~a1"], 1)


def test_an_equal_object_of_a_later_list_takes_no_more_memory() -> None:
    """Others may refer to parts of the one that is stored."""
    store = Store(resources.PODS)
    store.apply({**pod("a", 5), "spec": {"x": 1}})
    before = store.get(KEY)
    store.apply({**pod("a", 6), "spec": {"x": 1}})
    after = store.get(KEY)
    assert before is not None
    assert after is not None
    assert after["metadata"]["resourceVersion"] == "6"
    assert after["spec"] is before["spec"]
