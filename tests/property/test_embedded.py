"""The embedded API server's storage and server-side apply, whatever is written in whichever order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tollbar.devplane.embedded import apply, fieldsets, selectors
from tollbar.devplane.embedded.apply import Identity
from tollbar.devplane.embedded.errors import Refused
from tollbar.devplane.embedded.kinds import Kinds
from tollbar.devplane.embedded.storage import Compacted, Storage
from tollbar.model.objects import Key, Object
from tollbar.model.resources import LEASES, PODS

HISTORY = 8
KEYS = [Key("m", "a"), Key("n", "a"), Key("n", "b"), Key("o", "c")]


class Follower:
    """A client that lists and watches, and lists again when it is told that it fell behind."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.revision = 0
        self.known: dict[Key, bytes] = {}
        self.list()

    def list(self) -> None:
        page = self.storage.list(LEASES, "", selectors.everything)
        self.revision, self.known = page.revision, {}
        for key, entry in self.storage.items(LEASES):
            self.known[key] = entry.raw

    def watch(self) -> None:
        try:
            changes = self.storage.since(LEASES, self.revision)
        except Compacted:
            return self.list()
        for change in changes:
            assert change.revision > self.revision
            self.revision = change.revision
            if change.after is None:
                del self.known[change.key]
            else:
                self.known[change.key] = change.after.raw
        return None


def write(storage: Storage, key: Key, value: int | None) -> None:
    """A creation, a change or, without a value, a deletion."""
    entry = storage.get(LEASES, key)
    if value is not None:
        storage.write(LEASES, {"metadata": key._asdict(), "spec": {"leaseTransitions": value}}, entry)
    elif entry is not None:
        storage.delete(LEASES, key, entry)


WRITES = st.tuples(st.sampled_from(KEYS), st.none() | st.integers(0, 9))


@given(st.lists(st.lists(WRITES, max_size=30), max_size=8))
def test_a_follower_has_what_is_stored_however_far_it_falls_behind(batches: list[list[tuple[Key, int | None]]]) -> None:
    storage = Storage(HISTORY)
    storage.open(LEASES)
    follower = Follower(storage)
    for batch in batches:
        for key, value in batch:
            write(storage, key, value)
        follower.watch()
        assert follower.known == {key: entry.raw for key, entry in storage.items(LEASES)}


@given(st.lists(WRITES, max_size=HISTORY), st.lists(WRITES, max_size=HISTORY), st.integers(1, 4))
def test_pages_together_are_the_list_of_their_revision(
    before: list[tuple[Key, int | None]], between: list[tuple[Key, int | None]], limit: int
) -> None:
    storage = Storage(HISTORY)
    storage.open(LEASES)
    for key, value in before:
        write(storage, key, value)
    whole = [entry.raw for _, entry in storage.items(LEASES)]
    page = storage.list(LEASES, "", selectors.everything, limit=limit)
    found, revision = [entry.raw for entry in page.entries], page.revision
    assert len(whole) == len(found) + page.remaining
    while page.following is not None:
        if between:
            write(storage, *between.pop())
        page = storage.list(LEASES, "", selectors.everything, limit=limit, revision=revision, start=page.following)
        found += [entry.raw for entry in page.entries]

    assert found == whole


POD = Kinds().at(PODS).shape
NAMES = st.sampled_from("abc")
CONTAINERS = st.dictionaries(NAMES, st.fixed_dictionaries({}, optional={"image": st.sampled_from("xy")}), max_size=3)
LABELS = st.dictionaries(NAMES, st.sampled_from("12"), max_size=3)
MANAGERS = st.sampled_from(["me", "you", "them"])


def pod(labels: dict[str, str], containers: dict[str, Any], finalizers: list[str], tolerations: list[str]) -> Object:
    meta: Object = {"name": "web"}
    spec: Object = {}
    if labels:
        meta["labels"] = labels
    if finalizers:
        meta["finalizers"] = finalizers
    if containers:
        spec["containers"] = [{"name": name, **fields} for name, fields in containers.items()]
    if tolerations:
        spec["tolerations"] = [{"key": key} for key in tolerations]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, **({"spec": spec} if spec else {})}


PODS_ = st.builds(
    pod, LABELS, CONTAINERS, st.lists(NAMES, unique=True, max_size=2), st.lists(NAMES, unique=True, max_size=2)
)
APPLICATIONS = st.lists(st.tuples(MANAGERS, PODS_), min_size=1, max_size=6)


def applied(live: Object, manager: str, config: Object, *, force: bool = True) -> Object:
    return apply.apply(live, config, POD, Identity(manager, "Apply", "v1", ""), "2026-01-01T00:00:00Z", force=force)


def fields(obj: Object) -> dict[fieldsets.Path, Any]:
    """What can be owned, empty containers aside: they hold nothing."""
    return {path: value for path, value in apply.ownable(obj, POD).items() if value not in ({}, [])}


def owned(obj: Object) -> set[fieldsets.Path]:
    return {path for entry in apply.entries_of(obj) for path in entry.fields}


@given(APPLICATIONS)
def test_after_applications_by_force_every_field_has_an_owner_and_every_owner_its_fields(
    applications: list[tuple[str, Object]],
) -> None:
    live: Object = {}
    for manager, config in applications:
        live = applied(live, manager, config)

        assert fields(config).items() <= fields(live).items()
        assert set(fields(live)) == owned(live)
        assert applied(live, manager, config) == live


@given(APPLICATIONS, MANAGERS, PODS_)
def test_an_application_without_force_takes_nothing_from_others_or_is_refused(
    applications: list[tuple[str, Object]], manager: str, config: Object
) -> None:
    live: Object = {}
    for each, wanted in applications:
        live = applied(live, each, wanted)
    others = [each for each in apply.entries_of(live) if each.identity.manager != manager]
    values = fields(live)
    theirs = {path for entry in others for path in entry.fields}
    differing = {path for path, value in fields(config).items() if path in theirs and values[path] != value}
    if differing:
        with pytest.raises(Refused) as refused:
            applied(live, manager, config, force=False)
        assert {cause.field for cause in refused.value.causes} == {fieldsets.shown(path) for path in differing}
    else:
        now = applied(live, manager, config, force=False)
        assert [each for each in apply.entries_of(now) if each.identity.manager != manager] == others
        assert {path: fields(now)[path] for path in theirs} == {path: values[path] for path in theirs}


@given(PODS_, PODS_)
def test_an_update_owns_what_it_changed_and_nobody_owns_what_it_removed(old: Object, new: Object) -> None:
    live = applied({}, "me", old)
    entries = apply.update(live, new, POD, Identity("you", "Update", "v1", ""), "2026-01-01T00:00:00Z")
    now = {**new, "metadata": {**new["metadata"], "managedFields": entries}}
    before, after = apply.ownable(old, POD), apply.ownable(new, POD)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}

    by_manager = {entry.identity.manager: set(entry.fields) for entry in apply.entries_of(now)}
    assert by_manager == {
        name: found for name, found in (("me", set(before) & set(after) - changed), ("you", changed)) if found
    }


@given(PODS_)
def test_a_set_of_fields_survives_its_encoding(config: Object) -> None:
    found = frozenset(fieldsets.flatten(config, POD))

    assert fieldsets.paths(fieldsets.tree(found)) == found
