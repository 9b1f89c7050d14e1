"""The store against a server with a history: whatever happens on the way, it ends up with what the server has.

The server keeps objects, some of them inside the selector that the store's reflector uses; watch events are delivered
late, answers to writes are assumed at any time, lists are taken and arrive later.  Changes are made in memory, too, and
what was assumed is restored.  Whether objects are packed makes no difference.
"""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tollbar.model import resources
from tollbar.model.objects import Key, Object, key_of, metadata, uid_of
from tollbar.runtime import packed as packing
from tollbar.runtime.source import Delta
from tollbar.runtime.store import Store

NAMES = ("a", "b")


@pytest.fixture(autouse=True, scope="module")
def _decoded_anew() -> Iterator[None]:
    """Nothing stays decoded: whatever is read of packed objects is another copy."""
    with patch.object(packing, "RECENT_BYTES", 0):
        yield


def version_of(obj: Object) -> int:
    return int(metadata(obj)["resourceVersion"])


class Server:
    """Writes make versions; `events` is what a watch under the selector sends, each with its version."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Object] = {}
        self.events: list[tuple[str, Object]] = []

    def write(self, name: str, value: int, *, member: bool) -> Object:
        """Create or update; the answer."""
        self.version += 1
        before = self.objects.get(name)
        uid = uid_of(before) if before else f"{name}-{self.version}"
        now = self._object(name, uid, value, member=member)
        self.objects[name] = now
        was_member = bool(before and before["member"])
        if member:
            self.events.append(("MODIFIED" if was_member else "ADDED", now))
        elif before and was_member:
            self._leave(before)
        return now

    def delete(self, name: str) -> None:
        before = self.objects.pop(name, None)
        if before:
            self.version += 1
            if before["member"]:
                self._leave(before)

    def members(self) -> list[Object]:
        return [obj for obj in self.objects.values() if obj["member"]]

    def _leave(self, before: Object) -> None:
        meta = {**metadata(before), "resourceVersion": str(self.version)}
        self.events.append(("DELETED", {**before, "metadata": meta}))

    def _object(self, name: str, uid: str, value: int, *, member: bool) -> Object:
        meta = {"namespace": "n", "name": name, "uid": uid, "resourceVersion": str(self.version)}
        return {"metadata": meta, "value": value, "member": member}


class Follower:
    """A reflector without a network, a handler that folds what it hears, and answers not yet assumed."""

    def __init__(self, server: Server, *, packed: bool) -> None:
        self.server = server
        alike = key_of if packed else None
        self.store = Store(resources.PODS, indexers={"value": lambda obj: [obj["value"]]}, alike=alike)
        self.heard: dict[Key, Object] = {}
        self.answers: list[tuple[Object, bool]] = []
        """Each with whether it was the answer to a creation."""
        self.listed: tuple[list[Object], int] | None = None
        self.seen = 0
        self.shown: dict[str, Object] = {}
        """What list and watch have shown last, by name: what is left when everything has been restored."""
        self.in_memory: set[str] = set()
        """Names of which something was changed in memory and not restored since."""
        self.store.subscribe(self._hear)

    def _hear(self, delta: Delta) -> None:
        obj = delta.new or delta.old
        assert obj is not None
        known = self.heard.get(key_of(obj))
        assert (known is None) == (delta.old is None)
        assert delta.old is None or delta.new is None or uid_of(delta.old) == uid_of(delta.new)
        if delta.new is None:
            del self.heard[key_of(obj)]
        else:
            self.heard[key_of(obj)] = delta.new

    def deliver(self) -> None:
        """The next event of the watch, unless a list is on its way: a reflector does one thing at a time."""
        if self.listed is None:
            for kind, obj in self._pending():
                self.seen = version_of(obj)
                name = key_of(obj).name
                if kind == "DELETED":
                    self.store.remove(obj)
                    self.shown.pop(name, None)
                else:
                    self._show(obj)
                    self.store.apply(obj)
                self.store.resource_version = str(self.seen)
                return

    def _show(self, obj: Object) -> None:
        """Unless another object of the name is known to have been created later: then this one has ended."""
        held = self.store.get(key_of(obj))
        if held is None or uid_of(held) == uid_of(obj) or version_of(held) < version_of(obj):
            self.shown[key_of(obj).name] = obj

    def take_list(self) -> None:
        if self.listed is None:
            self.listed = (self.server.members(), self.server.version)

    def receive_list(self) -> None:
        if self.listed is not None:
            objects, version = self.listed
            self.shown.clear()
            for obj in objects:
                self._show(obj)
            self.store.replace(objects, str(version))
            self.seen = version
            self.listed = None

    def assume(self, which: int) -> None:
        if self.answers:
            answer, created = self.answers.pop(-1 - which % len(self.answers))
            self.store.assume(answer, created=created)

    def change_in_memory(self, name: str, value: int) -> None:
        held = self.store.get(Key("n", name))
        if held is not None:
            self.store.assume({**held, "value": value})
            self.in_memory.add(name)

    def restore(self, name: str) -> None:
        self.store.restore(Key("n", name))
        self.in_memory.discard(name)

    def catch_up(self) -> None:
        self.receive_list()
        while any(True for _ in self._pending()):
            self.deliver()

    def _pending(self) -> Iterator[tuple[str, Object]]:
        return (event for event in self.server.events if version_of(event[1]) > self.seen)


names = st.sampled_from(NAMES)
mostly = st.sampled_from([True, True, True, False])
steps = st.one_of(
    st.tuples(st.just("write"), names, st.integers(0, 2), mostly, mostly),
    st.tuples(st.just("delete"), names),
    st.just(("deliver",)),
    st.just(("deliver",)),
    st.just(("take_list",)),
    st.just(("receive_list",)),
    st.tuples(st.just("assume"), st.integers(0, 2)),
    st.tuples(st.just("assume"), st.integers(0, 2)),
    st.tuples(st.just("change_in_memory"), names, st.integers(0, 2)),
    st.tuples(st.just("restore"), names),
)
histories = st.lists(steps, min_size=10, max_size=60)


def play(follower: Follower, step: tuple[Any, ...]) -> None:
    server = follower.server
    match step:
        case ("write", name, value, member, ours):
            created = name not in server.objects and member
            answer = server.write(name, value, member=member)
            if ours:
                follower.answers.append((answer, created))
        case ("delete", name):
            server.delete(name)
        case ("assume", which):
            follower.assume(which)
        case ("change_in_memory", name, value):
            follower.change_in_memory(name, value)
        case ("restore", name):
            follower.restore(name)
        case (action,):
            getattr(follower, action)()


def by_uid(objects: Any) -> dict[str, Object]:
    return {uid_of(obj): obj for obj in objects}


@settings(max_examples=settings.default.max_examples * 3)
@given(history=histories, packed=st.booleans())
def test_the_store_ends_up_with_what_the_server_has(history: list[tuple[Any, ...]], packed: bool) -> None:
    follower = Follower(Server(), packed=packed)
    store = follower.store
    for step in history:
        play(follower, step)
        assert by_uid(follower.heard.values()).keys() == by_uid(store.values()).keys()
    follower.catch_up()
    for name in list(follower.in_memory):
        follower.restore(name)
    want = by_uid(follower.server.members())
    by_value = [by_uid(store.by_index("value", value)) for value in range(3)]
    assert by_uid(store.values()) == want
    assert by_value == [{uid: obj for uid, obj in want.items() if obj["value"] == value} for value in range(3)]


@settings(max_examples=settings.default.max_examples * 3)
@given(history=histories, packed=st.booleans())
def test_a_reader_never_sees_an_object_go_back_in_time(history: list[tuple[Any, ...]], packed: bool) -> None:
    """Unless somebody restores it."""
    follower = Follower(Server(), packed=packed)
    newest: dict[str, int] = {}
    for step in history:
        if step[0] == "restore" and (restored := follower.store.get(Key("n", step[1]))) is not None:
            newest.pop(uid_of(restored), None)
        play(follower, step)
        for obj in follower.store.values():
            version = version_of(obj)
            assert version >= newest.get(uid_of(obj), 0)
            newest[uid_of(obj)] = version


@settings(max_examples=settings.default.max_examples * 3)
@given(history=histories, packed=st.booleans())
def test_what_is_restored_is_what_list_and_watch_showed_last(history: list[tuple[Any, ...]], packed: bool) -> None:
    follower = Follower(Server(), packed=packed)
    for step in history:
        play(follower, step)
        if step[0] == "restore":
            held, shown = follower.store.get(Key("n", step[1])), follower.shown.get(step[1])
            if held != shown:  # an answer of which a change in memory has been taken back
                assert held is not None
                assert shown is None or version_of(held) > version_of(shown)
                follower.restore(step[1])
            assert follower.store.get(Key("n", step[1])) == shown
    for name in NAMES:
        follower.restore(name)
        follower.restore(name)
    assert by_uid(follower.store.values()) == by_uid(follower.shown.values())
