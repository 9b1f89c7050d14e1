"""The patch is the difference: applied, it gives exactly the Pod that the plan means; to a Pod that moved meanwhile it
does not apply, or does right."""

import json
from typing import Any

import jsonpatch
import pytest
from clusters.strategies import TOLERATIONS, pods
from hypothesis import assume, given
from hypothesis import strategies as st
from objects import patching
from objects.builders import Pod, toleration

from tollbar import wellknown
from tollbar.decide.pods import tolerations
from tollbar.decide.pods.tolerations import Addition
from tollbar.model import pods as pod_views
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object, annotations_of, labels_of, metadata, spec

ADDITIONS = st.lists(
    st.builds(
        Addition,
        rule=st.sampled_from(["a", "b"]),
        generation=st.integers(1, 3),
        tolerations=st.lists(st.sampled_from(TOLERATIONS), min_size=1, max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)
ACTIONS = st.sampled_from(["keep", "add", "remove"])
RECORD = wellknown.ANNOTATION_PROVENANCE


def patch_of(pod: Object, additions: tuple[Addition, ...], action: Any, *, fenced: bool) -> Patch:
    """Gates are removed only from Pods that have ours, and added only at admission, unfenced."""
    if action == "remove" and not pod_views.is_gated(pod):
        action = "keep"
    if action == "add" and fenced:
        action = "keep"
    return tolerations.patch(pod, additions, via="gate", gate=action, fenced=fenced)


def members(part: Object, *without: str) -> Object:
    """The part without these members and without empty ones."""
    return {member: value for member, value in part.items() if member not in without and value not in ({}, [])}


def view(pod: Object) -> tuple[Any, ...]:
    """The Pod, taken apart into what a patch may touch and what it may not."""
    return (
        pod_views.tolerations(pod),
        pod_views.gate_names(pod),
        labels_of(pod).get(wellknown.LABEL_GATE),
        tolerations.provenance_of(pod),
        members(labels_of(pod), wellknown.LABEL_GATE),
        members(annotations_of(pod), RECORD),
        members(metadata(pod), "labels", "annotations"),
        members(spec(pod), "tolerations", "schedulingGates"),
        members(pod, "metadata", "spec"),
    )


def meant(pod: Object, additions: tuple[Addition, ...], action: str) -> tuple[Any, ...]:
    """The view of the Pod that a plan with these additions means."""
    old_tolerations, gates, label, record, *rest = view(pod)
    if action == "remove" and wellknown.GATE in gates:
        gates, label = [name for name in gates if name != wellknown.GATE], "released"
    elif action == "add":
        gates, label = [*gates, *({wellknown.GATE} - set(gates))], "held"
    added = [toleration for addition in additions for toleration in addition.tolerations]
    entries = [
        {"rule": each.rule, "generation": each.generation, "added": list(each.tolerations), "via": "gate"}
        for each in additions
    ]
    return ([*old_tolerations, *added], gates, label, [*record, *entries], *rest)


@given(pods("web"), ADDITIONS, ACTIONS, st.booleans())
def test_the_patch_is_the_difference(pod: Pod, additions: tuple[Addition, ...], action: str, fenced: bool) -> None:
    wanted = "keep" if action == "add" and fenced else action
    patched = patching.apply(pod, patch_of(pod, additions, action, fenced=fenced))
    assert view(patched) == meant(pod, additions, wanted)


@given(pods("web"), ADDITIONS, ACTIONS)
def test_our_applier_agrees_with_the_library(pod: Pod, additions: tuple[Addition, ...], action: str) -> None:
    """Without tests against null, in which the API server has its own mind."""
    patch = patch_of(pod, additions, action, fenced=False)
    assert patching.apply(pod, patch) == jsonpatch.apply_patch(pod, list(patch))


@given(pods("web"), ADDITIONS, st.booleans())
def test_a_patch_is_fenced_exactly_when_asked(pod: Pod, additions: tuple[Addition, ...], fenced: bool) -> None:
    patch = patch_of(pod, additions, "remove", fenced=fenced)
    tests = [operation["path"] for operation in patch if operation["op"] == "test"]
    assert (tests[:1] == ["/metadata/uid"], bool(tests)) == (fenced and bool(patch), fenced and bool(patch))


MOVES = st.sampled_from(
    [
        lambda pod: pod,
        lambda pod: pod.but("metadata.uid", "another"),
        lambda pod: pod.but("spec.schedulingGates", pod.at("spec.schedulingGates", [])[::-1] or None),
        lambda pod: pod.but("spec.schedulingGates", pod.at("spec.schedulingGates", [])[1:] or None),
        lambda pod: pod.but("spec.schedulingGates", pod.at("spec.schedulingGates", [])[:-1] or None),
        lambda pod: pod.annotated({"other": "x"}),
        lambda pod: pod.but("metadata.annotations", None),
        lambda pod: pod.labelled({"other": "x"}),
        lambda pod: pod.but("metadata.labels", None),
        lambda pod: pod.tolerating(toleration("example.com/late")),
        lambda pod: pod.deleting(),
    ]
)
"""What others may do to a Pod between our look and our patch."""


@given(pods("web"), ADDITIONS, ACTIONS, st.lists(MOVES, max_size=3))
def test_a_patch_to_a_pod_that_has_changed_is_refused_or_right(
    pod: Pod, additions: tuple[Addition, ...], action: str, others: list[Any]
) -> None:
    patch = patch_of(pod, additions, action, fenced=True)
    moved = pod
    for move in others:
        moved = move(moved)
    try:
        patched = patching.apply(moved, patch)
    except patching.Refused:
        assert moved != pod
        return
    was_gated = action == "remove" and pod_views.is_gated(pod)
    want = meant(moved, additions, "remove" if was_gated else "keep")
    if annotations_of(moved).get(RECORD) != annotations_of(pod).get(RECORD):
        want = (*want[:3], view(patched)[3], *want[4:])  # the record is ours: the last who writes it is right
    assert view(patched) == want


@given(pods("web"), ADDITIONS, ACTIONS)
def test_a_patch_that_adds_does_not_apply_twice(pod: Pod, additions: tuple[Addition, ...], action: str) -> None:
    """The answer to the first one was lost, or another leader wrote it."""
    assume(additions)
    patch = patch_of(pod, additions, action, fenced=True)
    with pytest.raises(patching.Refused):
        patching.apply(patching.apply(pod, patch), patch)


@given(pods("web"), ADDITIONS)
def test_what_is_written_is_read_again(pod: Pod, additions: tuple[Addition, ...]) -> None:
    patched = patching.apply(pod, patch_of(pod, additions, "keep", fenced=True))
    read = tolerations.provenance_of(patched)[len(tolerations.provenance_of(pod)) :]
    assert json.dumps(read) == json.dumps([tolerations.entry(addition, "gate") for addition in additions])
