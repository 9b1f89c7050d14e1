"""Stores that share a budget: which objects become stubs, who hears of it, and what comes back."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tollbar.model import resources
from tollbar.model.objects import Key, Object, is_stub, key_of, metadata, spec
from tollbar.runtime.budget import Budget
from tollbar.runtime.caches import Cached, Caches
from tollbar.runtime.footprint import footprint
from tollbar.runtime.projection import Keep
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

KEEP = Keep(frozenset({"spec"}), most=100_000)


def note(obj: Object) -> list[str]:
    return [spec(obj)["note"][0]] if "note" in spec(obj) else []


CLAIMS = Cached("claims", resources.RESOURCE_CLAIMS, project=KEEP, indexers={"note": note})
TEMPLATES = Cached("templates", resources.RESOURCE_CLAIM_TEMPLATES, project=KEEP)
NAMESPACES = Cached("namespaces", resources.NAMESPACES)


def large(name: str, namespace: str = "ml", *, version: int = 1, length: int = 10_000) -> Object:
    meta = {"namespace": namespace, "name": name, "uid": f"of-{name}", "resourceVersion": str(version)}
    return {"metadata": {**meta, "labels": {"a": "b"}}, "spec": {"note": "x" * length}}


_, SPARED, LEFT = KEEP.weigh(KEEP(large("a")))
"""Of each of them, what its stub saves, and what that takes."""
SIZE = SPARED + LEFT


def stores(room: float) -> tuple[Callable[[Cached], Store], Budget]:
    """With a budget for so many of the large ones."""
    budget = Budget(room * SIZE)
    return Caches(budget).store, budget


def listen(store: Store) -> list[str]:
    heard: list[str] = []

    def say(delta: Delta) -> None:
        old, new = ("-" if obj is None else "stub" if is_stub(obj) else "whole" for obj in (delta.old, delta.new))
        heard.append(f"{key_of(delta.new or delta.old or {}).name}: {old} {new}")

    store.subscribe(say)
    return heard


def whole(store: Store) -> list[str]:
    return [key_of(obj).name for obj in store.values() if not is_stub(obj)]


def test_what_there_is_no_room_for_is_a_stub_and_in_no_index() -> None:
    store, budget = stores(2.5)
    claims = store(CLAIMS)
    heard = listen(claims)
    for name in "abc":
        claims.apply(large(name))
    assert (claims.get(Key("ml", "c")), whole(claims), claims.stubs) == (
        {"metadata": {"namespace": "ml", "name": "c", "uid": "of-c", "resourceVersion": "1"}, "spec": {}, "stub": True},
        ["a", "b"],
        1,
    )
    assert claims.keys_by_index("note", "x") == {Key("ml", "a"), Key("ml", "b")}
    assert heard == ["a: - whole", "b: - whole", "c: - stub"]
    assert budget.used == 2 * SIZE + LEFT


def test_what_has_to_make_room_for_another_namespace_becomes_a_stub_and_that_is_heard() -> None:
    store, _ = stores(2.5)
    claims, templates = store(CLAIMS), store(TEMPLATES)
    heard = listen(claims)
    for name in "ab":
        claims.apply(large(name))
    templates.apply(large("t", "web"))
    assert (whole(claims), whole(templates), heard) == (
        ["a"],
        ["t"],
        ["a: - whole", "b: - whole", "b: whole stub"],
    )
    assert not claims.keys_by_index("note", "x") - {Key("ml", "a")}


def test_a_list_that_comes_again_changes_nothing_while_there_is_no_room() -> None:
    store, _ = stores(2.5)
    claims = store(CLAIMS)
    listed = [large(name) for name in "abc"]
    claims.replace(listed, "5")
    heard = listen(claims)
    claims.replace(listed, "6")
    assert (heard, whole(claims), claims.would_keep_more) == ([], ["a", "b"], False)


def test_a_list_brings_back_what_there_is_room_for_by_then() -> None:
    store, _ = stores(2.5)
    claims = store(CLAIMS)
    claims.replace([large(name) for name in "abc"], "5")
    claims.remove(large("a", version=6))
    heard, before = listen(claims), claims.would_keep_more
    claims.replace([large(name) for name in "bc"], "7")
    assert (before, heard, whole(claims), claims.stubs, claims.would_keep_more) == (
        True,
        ["c: stub whole"],
        ["b", "c"],
        0,
        False,
    )
    assert len(claims.keys_by_index("note", "x")) == 2


def test_so_does_a_change_of_the_object() -> None:
    store, _ = stores(2.9)
    claims = store(CLAIMS)
    for name in "abc":
        claims.apply(large(name))
    claims.apply(large("c", version=2, length=10))
    assert (whole(claims), claims.stubs) == (["a", "b", "c"], 0)


def test_an_answer_to_a_write_counts_as_what_a_watch_shows() -> None:
    store, budget = stores(2.5)
    claims = store(CLAIMS)
    for name in "ab":
        claims.apply(large(name))
    claims.assume(large("c", version=9), created=True)
    assert (whole(claims), claims.stubs, budget.used) == (["a", "b"], 1, 2 * SIZE + LEFT)
    claims.restore(Key("ml", "c"))
    assert (whole(claims), claims.stubs, len(claims)) == (["a", "b"], 0, 2)


def test_an_answer_that_shows_what_was_left_out_keeps_no_list_from_bringing_it_back() -> None:
    """As where a new leader lists the claims of a namespace beside the watch."""
    store, _ = stores(2.5)
    claims = store(CLAIMS)
    for name in "abc":
        claims.apply(large(name))
    claims.assume(large("c"), created=True)
    claims.remove(large("a", version=6))
    claims.replace([large(name) for name in "bc"], "7")
    assert (whole(claims), claims.stubs, claims.would_keep_more) == (["b", "c"], 0, False)


def test_another_object_of_the_name_counts_in_the_place_of_the_first() -> None:
    store, budget = stores(1.5)
    claims = store(CLAIMS)
    claims.apply(large("a"))
    other = large("a", version=2)
    claims.apply({**other, "metadata": {**other["metadata"], "uid": "of-b"}})
    assert (whole(claims), budget.used) == (["a"], SIZE)


def test_what_is_gone_leaves_nothing() -> None:
    store, budget = stores(1.5)
    claims = store(CLAIMS)
    for name in "ab":
        claims.apply(large(name))
    claims.replace([], "9")
    assert (len(claims), claims.stubs, budget.used, vars(budget)["_out"]) == (0, 0, 0, {})


def test_what_is_too_large_by_itself_counts_as_its_stub() -> None:
    store, budget = stores(1.5)
    claims = store(CLAIMS)
    claims.apply(large("a", length=200_000))
    claims.apply(large("b"))
    assert (whole(claims), claims.stubs, budget.used, claims.would_keep_more) == (["b"], 1, SIZE + LEFT, False)


def test_kinds_without_stubs_are_kept_whole() -> None:
    store, budget = stores(0.1)
    namespaces = store(NAMESPACES)
    given: Any = large("ml", "")
    namespaces.apply(given)
    assert (namespaces.values(), budget.used) == ([given], 0)


def test_what_others_keep_of_an_object_is_kept_of_its_stub_and_counts() -> None:
    """As in the controllers, which make patches from the status."""
    store, budget = stores(0.1)
    with_status = Keep(frozenset({"spec", "status"}), most=100_000, anyway=frozenset({"metadata", "status"}))
    claims = store(CLAIMS)
    store(Cached("claims", resources.RESOURCE_CLAIMS, project=with_status))
    claims.apply({**large("a"), "status": {"b": 1}})
    assert claims.values() == [{"metadata": large("a")["metadata"], "spec": {}, "status": {"b": 1}, "stub": True}]
    assert budget.used == with_status.weigh(claims.values()[0]).stub > LEFT


def test_of_metadata_only_what_is_read_is_kept_in_a_stub_and_the_rest_counts_for_the_whole() -> None:
    store, budget = stores(2.5)
    claims = store(replace(CLAIMS, project=replace(KEEP, stub_metadata=lambda meta: {"labels": meta["labels"]["a"]})))
    for name in "abc":
        given = large(name, length=10)
        claims.apply({**given, "metadata": {**given["metadata"], "labels": {"a": "b", "c": "x" * 10_000}}})
    identity = {"namespace": "ml", "name": "c", "uid": "of-c", "resourceVersion": "1"}
    assert claims.get(Key("ml", "c")) == {"metadata": {**identity, "labels": "b"}, "spec": {}, "stub": True}
    assert 2 * 10_000 < budget.used < 2.5 * SIZE


def versions(store: Store, key: Key) -> list[Object | None]:
    """What the store has of an object: what is read, and what it may go back to."""
    assumed = vars(store)["_assumed"].get(key)
    return [store.get(key), *((assumed.api, assumed.answer) if assumed is not None else ())]


def test_two_versions_of_an_object_have_in_common_what_is_equal() -> None:
    store, _ = stores(2.5)
    claims, key = store(CLAIMS), Key("ml", "a")
    claims.apply(large("a"))
    claims.assume(large("a", version=5))
    claims.apply(large("a", version=3))
    claims.assume({**large("a", version=5), "spec": {**large("a")["spec"], "more": 1}})
    found = [each for each in versions(claims, key) if each is not None]
    assert len({id(metadata(each)["labels"]) for each in found}) == 1
    assert [id(spec(each)) == id(spec(found[1])) for each in found] == [False, True, True]


def stubs(store: Store, key: Key) -> list[bool]:
    return [is_stub(each) for each in versions(store, key) if each is not None]


def test_where_one_version_of_an_object_is_a_stub_the_others_are_too() -> None:
    store, budget = stores(2.5)
    claims, key = store(CLAIMS), Key("ml", "a")
    claims.apply(large("a"))
    claims.assume(large("a", version=5, length=20_000))
    before = stubs(claims, key)
    claims.apply(large("b", "web"))
    after = stubs(claims, key)
    claims.apply(large("a", version=3))
    used = budget.used
    assert (before, after, stubs(claims, key)) == ([False, False], [True, True], [True, True])
    claims.restore(key)
    assert (stubs(claims, key), budget.used) == ([True], used)


@pytest.mark.parametrize(("room", "length"), [(1.5, 20_000), (2.5, 200_000)], ids=["no room", "too large by itself"])
def test_so_they_are_where_the_version_that_comes_has_to_be_one(room: float, length: int) -> None:
    store, budget = stores(room)
    claims, key = store(CLAIMS), Key("ml", "a")
    claims.apply(large("a"))
    claims.assume(large("a", version=5, length=length))
    assert (stubs(claims, key), budget.used) == ([True, True], LEFT)


def test_what_an_indexer_cannot_read_takes_no_room_and_leaves_no_half_of_an_index() -> None:
    def broken(obj: Object) -> list[str]:
        return note(obj) if key_of(obj).name != "bad" else [obj["spec"]["missing"]]

    store, budget = stores(1.5)
    claims = store(Cached("claims", resources.RESOURCE_CLAIMS, project=KEEP, indexers={"note": note, "all": broken}))
    with pytest.raises(KeyError, match="missing"):
        claims.apply(large("bad"))
    assert (len(claims), budget.used, claims.keys_by_index("note", "x")) == (0, 0, set())
    claims.apply(large("a", "web"))
    claims.apply(large("b"))
    assert len(claims) == 2


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What `footprint` answers where a store weighs objects."""
    said: list[int] = []

    def noting(*parts: Any) -> int:
        said.append(footprint(*parts))
        return said[-1]

    monkeypatch.setattr("tollbar.runtime.projection.footprint", noting)
    return said


def test_of_what_an_event_brings_the_whole_is_written_once_to_be_weighed(said: list[int]) -> None:
    store, budget = stores(1.5)
    store(CLAIMS).apply(large("a"))
    assert ([each for each in said if each > LEFT], budget.used) == ([max(said)], SIZE)


def test_an_answer_that_the_watch_has_shown_already_is_not_weighed(said: list[int]) -> None:
    store, _ = stores(1.5)
    claims, written = store(CLAIMS), large("a")
    claims.apply(written)
    said.clear()
    claims.assume(written)
    assert said == []
