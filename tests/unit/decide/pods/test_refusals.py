"""What comes after other admission has refused a patch: whether it is tried again, when, and with what."""

import math
from dataclasses import replace

import pytest
from fakes.engine import in_words
from objects import patching
from objects.builders import Pod
from unit.decide.pods.gateplans import (
    APP,
    BLOCKED,
    EMPTY,
    FREE,
    GPU,
    HELD,
    LATE_WITH_GPU,
    NO_DEADLINE,
    PLAIN,
    RELEASED_WITH_GPU,
    REPORT,
    TOLERATION,
    Given,
    additions,
    is_done_once,
    overdue,
    released,
)

from tollbar.decide.gates.release import Refusal
from tollbar.decide.pods import tolerationgate
from tollbar.decide.pods.scope import GatePolicy
from tollbar.decide.pods.tolerationgate import GatePlan
from tollbar.decide.pods.tolerations import Addition
from tollbar.model.plan import Event, Failed

GPU_REFUSED = Refusal(additions(GPU), "no")
BARE = replace(
    released("HeldTooLong"),
    events=(
        overdue("released after 60s, without the tolerations by gpu, which the API server refused: no", "Release"),
        Event("Normal", "GateReleased", "released; no toleration added", "Release"),
    ),
    matched=(GPU,),
)

REFUSED = {
    "before maxHold the same release is tried again": (Given(HELD, facts={"refusal": GPU_REFUSED}), RELEASED_WITH_GPU),
    "at maxHold the Pod is released without the tolerations": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED}),
        BARE,
    ),
    "at maxHold it is released without the tolerations although a claim is missing": (
        Given(HELD.labelled(app="web"), (GPU, APP), EMPTY, age=60.0, facts={"refusal": Refusal(additions(APP), "no")}),
        replace(
            BARE,
            events=(
                overdue(
                    "released after 60s, while Tollbar still waits for ResourceClaim gpu; without the tolerations by"
                    " app, which the API server refused: no",
                    "Release",
                ),
                replace(BARE.events[1], note=f"released; no toleration added{BLOCKED}"),
            ),
            matched=(APP,),
        ),
    ),
    "onExpiry Report: the same release is tried again after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED, "policy": REPORT}),
        RELEASED_WITH_GPU,
    ),
    "without maxHold the same release is tried again": (
        Given(HELD, age=86_400.0, facts={"refusal": GPU_REFUSED, "policy": NO_DEADLINE}),
        RELEASED_WITH_GPU,
    ),
    "other tolerations are tried after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": Refusal(additions(APP), "no")}),
        RELEASED_WITH_GPU,
    ),
    "the tolerations of an edited rule are tried after maxHold": (
        Given(HELD, age=60.0, facts={"refusal": Refusal((Addition("gpu", 0, GPU.tolerations),), "no")}),
        RELEASED_WITH_GPU,
    ),
    "a Pod whose author added the tolerations is released": (
        Given(HELD.tolerating(TOLERATION), age=60.0, facts={"refusal": GPU_REFUSED}),
        released("Matched: rule gpu", matched=(GPU,)),
    ),
    "a Pod without our gate gets the tolerations late": (
        Given(FREE, age=60.0, facts={"refusal": GPU_REFUSED}),
        LATE_WITH_GPU,
    ),
}


@pytest.mark.parametrize(("given", "want"), REFUSED.values(), ids=REFUSED)
def test_plan(given: Given, want: GatePlan) -> None:
    assert in_words(given.decide()) == want


LATE = {title: given for title, (given, want) in REFUSED.items() if want.patch and not want.released}


@pytest.mark.parametrize("given", LATE.values(), ids=LATE)
def test_once_done_nothing_is_left_to_do(given: Given) -> None:
    assert is_done_once(given)


def test_what_was_refused_with_the_release_is_added_late() -> None:
    given = Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED})
    free = replace(given, pod=Pod(patching.apply(given.pod, given.decide().patch)))
    assert (free.decide().additions, free.decide().via) == (additions(GPU), "late")
    assert tolerationgate.expected(given.gather(), given.decide()) is None, "its own event has to wake the Pod"


def tried_again(at_most: float, *more: Event, refusal: Refusal | None = GPU_REFUSED) -> GatePlan:
    note = "the API server refused the patch: no"
    return GatePlan(
        events=(Event("Warning", "ReleaseRefused", note, "Release"), *more),
        outcome=Failed("ReleaseRefused", at_most),
        because=("ReleaseRefused",),
        refusal=refusal,
    )


STILL_HELD = overdue("held for more than 60s: the API server refused the patch: no", "Hold")
NEXT_TRY = {
    "within a minute": (Given(HELD, facts={"policy": GatePolicy(max_hold=600.0)}), tried_again(60.0)),
    "at maxHold at the latest": (Given(HELD, age=50.0), tried_again(10.0)),
    "at once after maxHold": (Given(HELD, age=60.0), tried_again(0.0)),
    "within a minute when nothing can be left out": (
        Given(PLAIN, age=60.0),
        tried_again(60.0, STILL_HELD, refusal=None),
    ),
    "within a minute when the release without tolerations was refused": (
        Given(HELD, age=60.0, facts={"refusal": GPU_REFUSED}),
        tried_again(60.0, STILL_HELD, refusal=None),
    ),
    "within a minute when the SchedulingGate says Report": (
        Given(HELD, age=60.0, facts={"policy": REPORT}),
        tried_again(60.0, STILL_HELD),
    ),
    "within a minute when there is no deadline": (
        Given(HELD, age=86_400.0, facts={"policy": NO_DEADLINE}),
        tried_again(60.0),
    ),
    "after its back-off without our gate": (Given(FREE), tried_again(math.inf, refusal=None)),
}


@pytest.mark.parametrize(("given", "want"), NEXT_TRY.values(), ids=NEXT_TRY)
def test_a_refused_patch_is_tried_again(given: Given, want: GatePlan) -> None:
    assert in_words(given.refused()) == want
