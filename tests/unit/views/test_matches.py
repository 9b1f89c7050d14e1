"""Which rules are true for which pending Pods."""

from builders import pod

from tollbar.model import resources
from tollbar.model.objects import Key
from tollbar.runtime.store import Store
from tollbar.views.matches import Matches

A, B = Key("ml", "a"), Key("ml", "b")


def table(*names: str) -> tuple[Store, Matches, list[str]]:
    """A cache with these Pods, the table over it, and the rules whose count changed, in order."""
    pods, changed = Store(resources.PODS), list[str]()
    for name in names:
        pods.apply(pod(name))
    matches = Matches(pods)
    matches.changes.subscribe(lambda rule: changed.append(rule.name))
    return pods, matches, changed


def test_pods_are_counted_by_rule() -> None:
    _, matches, changed = table("a", "b")
    matches.record(A, ["gpu"])
    matches.record(B, ["gpu", "nic"])
    assert ([matches.count(rule) for rule in ("gpu", "nic", "x")], sorted(changed)) == (
        [2, 1, 0],
        ["gpu", "gpu", "nic"],
    )


def test_another_answer_replaces_the_one_before() -> None:
    _, matches, changed = table("a")
    matches.record(A, ["gpu", "nic"])
    changed.clear()
    matches.record(A, ["nic", "tpu"])
    counts = [matches.count(rule) for rule in ("gpu", "nic", "tpu")]
    assert (counts, sorted(changed)) == ([0, 1, 1], ["gpu", "tpu"])


def test_the_same_answer_tells_nobody() -> None:
    _, matches, changed = table("a")
    matches.record(A, ["gpu"])
    changed.clear()
    matches.record(A, ["gpu"])
    assert (matches.count("gpu"), changed) == (1, [])


def test_a_pod_that_leaves_the_cache_is_not_counted() -> None:
    pods, matches, changed = table("a", "b")
    matches.record(A, ["gpu"])
    matches.record(B, ["gpu"])
    changed.clear()
    pods.remove(pod("a"))
    assert (matches.count("gpu"), changed) == (1, ["gpu"])


def test_counts_are_complete_once_every_pod_has_been_decided() -> None:
    pods, matches, _ = table("a", "b")
    seen = [matches.complete]
    matches.record(A, ["gpu"])
    seen.append(matches.complete)
    matches.record(B, [])
    seen.append(matches.complete)
    pods.apply(pod("c"))
    seen.append(matches.complete)
    assert seen == [False, False, True, True]


def test_an_answer_about_a_pod_that_has_left_is_not_counted() -> None:
    pods, matches, changed = table("a")
    pods.remove(pod("a"))
    matches.record(A, ["gpu"])
    assert (matches.count("gpu"), changed) == (0, [])
