"""Which rules are true for which pending Pods, and which Pod a rule has matched last."""

from dataclasses import replace

from fakes.engine import has_label, rule
from objects.builders import CREATED, pod

from tollbar.decide.rules.rulestatus import LastMatch
from tollbar.model import resources
from tollbar.model.objects import Key
from tollbar.runtime.store import Store
from tollbar.views.matches import KEPT, Matches

A, B = Key("ml", "a"), Key("ml", "b")
GPU, NIC, TPU = (rule(name, has_label("app")) for name in ("gpu", "nic", "tpu"))


def table(*names: str) -> tuple[Store, Matches, list[str]]:
    """A cache with these Pods, the table over it, and the rules that it tells of, in order."""
    pods, changed = Store(resources.PODS), list[str]()
    for name in names:
        pods.apply(pod(name))
    matches = Matches(pods)
    matches.changes.subscribe(lambda rule: changed.append(rule.name))
    return pods, matches, changed


def test_pods_are_counted_by_rule() -> None:
    _, matches, changed = table("a", "b")
    matches.record(A, [GPU], CREATED)
    matches.record(B, [GPU, NIC], CREATED)
    assert ([matches.count(rule) for rule in ("gpu", "nic", "x")], sorted(changed)) == (
        [2, 1, 0],
        ["gpu", "gpu", "nic"],
    )


def test_another_answer_replaces_the_one_before() -> None:
    _, matches, changed = table("a")
    matches.record(A, [GPU, NIC], CREATED)
    changed.clear()
    matches.record(A, [NIC, TPU], CREATED)
    counts = [matches.count(rule) for rule in ("gpu", "nic", "tpu")]
    assert (counts, sorted(changed)) == ([0, 1, 1], ["gpu", "tpu"])


def test_the_same_answer_tells_nobody() -> None:
    _, matches, changed = table("a")
    matches.record(A, [GPU], CREATED)
    changed.clear()
    matches.record(A, [GPU], CREATED)
    assert (matches.count("gpu"), changed) == (1, [])


def test_a_pod_that_leaves_the_cache_is_not_counted() -> None:
    pods, matches, changed = table("a", "b")
    matches.record(A, [GPU], CREATED)
    matches.record(B, [GPU], CREATED)
    changed.clear()
    pods.remove(pod("a"))
    assert (matches.count("gpu"), changed) == (1, ["gpu"])


def test_counts_are_complete_once_every_pod_has_been_decided() -> None:
    pods, matches, _ = table("a", "b")
    seen = [matches.complete]
    matches.record(A, [GPU], CREATED)
    seen.append(matches.complete)
    matches.record(B, [], CREATED)
    seen.append(matches.complete)
    pods.apply(pod("c"))
    seen.append(matches.complete)
    assert seen == [False, False, True, True]


def test_a_pod_that_left_before_it_was_decided_about_is_news_and_is_not_counted() -> None:
    pods, matches, changed = table("a")
    pods.remove(pod("a"))
    kept, told = matches.departed(A), matches.record(A, [GPU], CREATED)
    assert (kept, told, matches.count("gpu"), changed) == (pod("a"), [GPU], 0, ["gpu"])
    assert (matches.last(GPU), matches.departed(A)) == (LastMatch(A, CREATED, restarted=False), None)


def test_a_pod_that_was_decided_about_is_not_kept() -> None:
    pods, matches, _ = table("a")
    matches.record(A, [], CREATED)
    pods.remove(pod("a"))
    assert matches.departed(A) is None


def test_only_the_last_pods_that_left_are_kept() -> None:
    names = [f"pod-{number}" for number in range(KEPT + 1)]
    pods, matches, _ = table(*names)
    for name in names:
        pods.remove(pod(name))
    assert [matches.departed(Key("ml", name)) is None for name in names] == [True] + [False] * KEPT


def test_a_rule_that_is_known_to_match_a_pod_is_no_news_even_when_it_did_not_meanwhile() -> None:
    _, matches, _ = table("a", "b")
    news = [matches.record(each, rules, CREATED) for each, rules in ((A, [GPU]), (A, []), (A, [GPU]), (B, [GPU, NIC]))]
    assert news == [[GPU], [], [], [GPU, NIC]]


def test_a_rule_whose_spec_has_changed_is_news_and_counts_once() -> None:
    _, matches, changed = table("a")
    matches.record(A, [GPU], CREATED)
    changed.clear()
    edited = replace(GPU, generation=2)
    assert (matches.record(A, [edited], CREATED), matches.count("gpu"), changed) == ([edited], 1, ["gpu"])


def test_a_pod_made_anew_is_news() -> None:
    pods, matches, _ = table("a")
    matches.record(A, [GPU], CREATED)
    pods.apply(pod("a").but("metadata.uid", "another"))
    assert matches.record(A, [GPU], CREATED) == [GPU]


def test_the_last_match_is_known_after_the_pod_has_left() -> None:
    pods, matches, _ = table("a", "b")
    matches.record(A, [GPU], CREATED)
    matches.record(B, [], CREATED)
    pods.apply(pod("c"))
    matches.record(Key("ml", "c"), [GPU], CREATED + 7)
    pods.remove(pod("c"))
    assert matches.last(GPU) == LastMatch(Key("ml", "c"), CREATED + 7, restarted=False)


def test_what_is_found_before_every_pod_has_been_decided_may_have_been_found_before_a_restart() -> None:
    _, matches, _ = table("a", "b")
    matches.record(A, [GPU], CREATED)
    assert matches.last(GPU) == LastMatch(A, CREATED, restarted=True)


def test_a_rule_that_is_deleted_or_changed_has_no_last_match() -> None:
    _, matches, _ = table("a")
    matches.record(A, [GPU, NIC], CREATED)
    matches.forget("gpu")
    edited = replace(NIC, generation=2)
    assert (matches.last(GPU), matches.last(edited), matches.last(NIC)) == (
        None,
        None,
        LastMatch(A, CREATED, restarted=True),
    )
