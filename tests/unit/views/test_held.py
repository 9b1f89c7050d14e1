"""How many Pods each gate holds, since when, after any changes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from objects.builders import CREATED, Pod, pod

from tollbar.model import timestamps
from tollbar.model.objects import key_of, metadata
from tollbar.runtime.caches import Caches
from tollbar.views import kinds
from tollbar.views.held import HeldPods

GATES = ("a.dev/x", "b.dev/y")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["web", "db", "job"]),
        st.sets(st.sampled_from(GATES)),
        st.integers(0, 2),
        st.sampled_from(["as it is", "bound", "deleted"]),
    )
)


def held_by(pod: Pod, gates: set[str]) -> Pod:
    return pod.gated(*sorted(gates)) if gates else pod


@given(CHANGES)
def test_the_counts_are_those_of_the_pods_in_the_store(changes: list[tuple[str, set[str], int, str]]) -> None:
    store = Caches().store(kinds.PENDING_PODS)
    held = HeldPods(store)
    for number, (name, gates, age, state) in enumerate(changes, start=1):
        changed = held_by(pod(name).created(CREATED - age), gates).but("metadata.resourceVersion", str(number))
        if state == "deleted":
            store.discard(key_of(changed))
        else:
            store.apply(changed.bound() if state == "bound" else changed)
    for gate in GATES:
        found = Counter(metadata(each)["creationTimestamp"] for each in store.by_index("gate", gate))
        assert (held.since(gate), held.count(gate)) == (found, found.total())


def test_nothing_is_kept_of_gates_that_hold_nobody() -> None:
    store = Caches().store(kinds.PENDING_PODS)
    held = HeldPods(store)
    store.apply(pod().gated("a.dev/x").created(CREATED))
    assert held.since("a.dev/x") == {timestamps.time(CREATED): 1}
    store.apply(pod())
    assert not held._since
