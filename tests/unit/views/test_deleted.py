"""Uids of objects that are known to be gone."""

from objects.builders import pod

from tollbar.model import resources
from tollbar.model.objects import key_of
from tollbar.runtime.store import Store
from tollbar.views.deleted import DeletedUids


def test_the_uids_of_what_went_last_are_known() -> None:
    store = Store(resources.PODS)
    gone = DeletedUids(store, limit=2)
    for name in ("a", "b", "c"):
        store.apply(pod(name))
        store.remove(pod(name))
    gone.add("x")
    gone.discard("x")
    store.apply(pod("d"))
    store.discard(key_of(pod("d")))  # a list that lacks it may lack the whole kind
    assert [uid in gone for uid in ("uid-of-a", "uid-of-b", "uid-of-c", "x", "uid-of-d")] == [
        False,
        False,
        True,
        False,
        False,
    ]
