"""Nominations: those decided, those that a status shows, and those that are void."""

from collections.abc import Callable

import pytest

from tollbar.model.objects import Key, Object
from tollbar.scheduler.cache.podinfo import PodInfo, Shapes
from tollbar.scheduler.framework.interface import Nominate
from tollbar.scheduler.queue import NominatedPods

shapes = Shapes()


def pod(nominated: str = "", node: str = "", uid: str = "uid") -> PodInfo:
    spec: Object = {"nodeName": node} if node else {}
    status: Object = {"nominatedNodeName": nominated} if nominated else {}
    return shapes.pod_info({"metadata": {"name": uid, "namespace": "ns", "uid": uid}, "spec": spec, "status": status})


def nominator(*current: PodInfo) -> NominatedPods:
    known = {each.key: each for each in current or (pod(),)}
    return NominatedPods(known.get)


ADDED: dict[str, tuple[PodInfo | None, PodInfo, Nominate | None, str]] = {
    "without a decision the status counts": (pod(), pod("n"), None, "n"),
    "a decision counts more than the status": (pod(), pod("n"), Nominate("m"), "m"),
    "an empty decision clears": (pod(), pod("n"), Nominate(""), ""),
    "a Pod that is gone is not nominated": (None, pod("n"), None, ""),
    "a Pod that has a Node by now is not nominated": (pod(node="n"), pod("n"), None, ""),
}


@pytest.mark.parametrize(("current", "added", "nominate", "expected"), ADDED.values(), ids=ADDED)
def test_adding(current: PodInfo | None, added: PodInfo, nominate: Nominate | None, expected: str) -> None:
    known = {} if current is None else {current.key: current}
    nominations = NominatedPods(known.get)
    nominations.add(added, nominate)
    assert nominations.node_of("uid") == expected


UPDATED = {
    "a nomination that no status shows yet is kept": (pod(), pod(), "decided"),
    "one that the status names replaces it": (pod(), pod("n"), "n"),
    "one that the status changes is changed": (pod("n"), pod("m"), "m"),
    "one that the status clears is cleared": (pod("n"), pod(), ""),
}


@pytest.mark.parametrize(("old", "new", "expected"), UPDATED.values(), ids=UPDATED)
def test_updating(old: PodInfo, new: PodInfo, expected: str) -> None:
    nominations = nominator()
    nominations.add(old, Nominate("decided"))
    nominations.update(old, new)
    assert nominations.node_of("uid") == expected


def test_pods_of_a_node_are_in_the_order_of_their_nominations() -> None:
    pods = [pod(uid=uid) for uid in ("b", "a", "c")]
    nominations = nominator(*pods)
    for each in (*pods, pods[0]):
        nominations.add(each, Nominate("n"))
    nominations.delete(pods[2])
    assert [each.key for each in nominations.nominated_pods("n")] == [Key("ns", "a"), Key("ns", "b")]


def test_a_pod_is_nominated_to_one_node_only() -> None:
    nominations = nominator()
    nominations.add(pod(), Nominate("n"))
    nominations.add(pod(), Nominate("m"))
    assert [len(nominations.nominated_pods(node)) for node in "nm"] == [0, 1]


PROMISED = pod("n")
VERSIONS: dict[str, tuple[Callable[[NominatedPods], object], bool]] = {
    "the same Pod to the same Node": (lambda nominations: nominations.add(PROMISED), False),
    "another record of the Pod": (lambda nominations: nominations.add(pod("n")), True),
    "the Pod to another Node": (lambda nominations: nominations.add(PROMISED, Nominate("m")), True),
    "another Pod": (lambda nominations: nominations.add(pod("n", uid="other")), True),
    "the Pod no longer": (lambda nominations: nominations.add(PROMISED, Nominate("")), True),
    "a Pod that was not no longer": (lambda nominations: nominations.delete(pod(uid="other")), False),
    "an update of the Pod": (lambda nominations: nominations.update(PROMISED, pod("n")), True),
}


@pytest.mark.parametrize(("happens", "is_another"), VERSIONS.values(), ids=VERSIONS)
def test_when_what_was_found_out_with_the_nominations_may_hold_no_longer(
    happens: Callable[[NominatedPods], object], is_another: bool
) -> None:
    nominations = nominator(PROMISED, pod(uid="other"))
    nominations.add(PROMISED)
    before = nominations.version
    happens(nominations)
    assert (nominations.version != before) == is_another


def test_one_of_several_pods_that_is_nominated_anew_comes_last() -> None:
    pods = [pod("n", uid=uid) for uid in ("a", "b")]
    nominations = nominator(*pods)
    for each in pods:
        nominations.add(each)
    before = nominations.version
    nominations.add(pods[0])
    assert [each.uid for each in nominations.nominated_pods("n")] == ["b", "a"]
    assert nominations.version != before
