"""Whether the mode fits the cluster, case by case; how that is written down, and what the next leader makes of it."""

from typing import Any

import orjson
import pytest
from objects.builders import CREATED

from tollbar.decide.claims import events
from tollbar.decide.claims.modes import RECENTLY, ModeFacts, decide, read, record, was_generating
from tollbar.model import timestamps
from tollbar.model.conditions import Condition
from tollbar.model.objects import Object
from tollbar.model.plan import Event

REFUSED = ("AnotherGenerator", "field manager ResourceClaimController generates ResourceClaims already")
SERVED = "Kubernetes v1.37.0, no PodGroups"


def complement(**more: Any) -> ModeFacts:
    return ModeFacts("Complement", **{"server": "v1.37.0", "may_bind": True, **more})


def replaced(**more: Any) -> ModeFacts:
    return ModeFacts("Replace", **{"server": "v1.37.0", "may_bind": True, "working": True, **more})


THEIRS = "ResourceClaims of Pods are kube-controller-manager's: nobody has made one yet"
CASES: dict[str, tuple[ModeFacts, tuple[str, str, str]]] = {
    "Complement fits beside kube-controller-manager": (complement(), ("True", "Complementing", f"{THEIRS}; {SERVED}")),
    "Complement names the field manager that made the newest claim": (
        complement(generator="kube-controller-manager"),
        (
            "True",
            "Complementing",
            f"{THEIRS.replace('nobody has made one yet', 'kube-controller-manager made the newest one')}; {SERVED}",
        ),
    ),
    "Complement fits while nothing is known of the server": (
        ModeFacts("Complement"),
        (
            "True",
            "Complementing",
            f"{THEIRS}; Kubernetes of unknown version, no PodGroups",
        ),
    ),
    "the message names the version of PodGroups": (
        complement(pod_groups="scheduling.k8s.io/v1beta1"),
        (
            "True",
            "Complementing",
            f"{THEIRS}; Kubernetes v1.37.0, PodGroups scheduling.k8s.io/v1beta1",
        ),
    ),
    "Disabled always fits": (
        ModeFacts("Disabled", may_bind=False),
        ("True", "Disabled", "claims are left alone"),
    ),
    "Complement does not fit without the right to reserve": (
        complement(may_bind=False, oscillating=1),
        (
            "False",
            "PermissionDenied",
            "no right to update and patch resourceclaims/binding: no claim can be reserved",
        ),
    ),
    "Complement does not fit when the server is too old for reservations": (
        complement(too_old=2),
        (
            "False",
            "UpstreamTooOld",
            (
                "2 reservations are not made: before Kubernetes 1.36 kube-controller-manager no longer looks after a"
                " claim that is reserved for a workload (kubernetes/kubernetes#136406): upgrade, or use claims: Replace"
            ),
        ),
    ),
    "Complement does not fit when the server writes to claims without end": (
        complement(oscillating=1, waiting=1),
        (
            "False",
            "UpstreamOscillation",
            (
                "1 ResourceClaims are written to without end because finished Pods linger"
                " (kubernetes/kubernetes#141274): delete those Pods, or use claims: Replace"
            ),
        ),
    ),
    "Complement does not fit when nobody makes claims": (
        complement(waiting=3),
        (
            "False",
            "NobodyGenerates",
            (
                "3 Pods have waited a minute for a ResourceClaim that nobody makes, or whose creation is refused, as an"
                " event of the Pod would say: give kube-controller-manager its resourceclaim-controller back, or use"
                " claims: Replace"
            ),
        ),
    ),
    "Replace fits when nobody else generates claims": (
        replaced(),
        ("True", "Generating", f"nobody else generates ResourceClaims; {SERVED}"),
    ),
    "whether Replace fits is unknown until it has begun": (
        replaced(working=False),
        ("Unknown", "Starting", "finding out whether somebody else generates ResourceClaims"),
    ),
    "Replace does not fit when it was refused": (replaced(working=False, refused=REFUSED), ("False", *REFUSED)),
    "Replace does not fit without the right to reserve": (
        replaced(may_bind=False),
        (
            "False",
            "PermissionDenied",
            "no right to update and patch resourceclaims/binding: no claim can be reserved",
        ),
    ),
}


@pytest.mark.parametrize(("given", "want"), CASES.values(), ids=CASES)
def test_fits(given: ModeFacts, want: tuple[str, str, str]) -> None:
    assert decide(given) == want


FITS = Condition("True", "Generating", "fine")
WRITTEN = record("", FITS, CREATED)


def test_what_is_written_is_a_condition() -> None:
    assert orjson.loads(record("", FITS, CREATED)) == {
        "type": "ClaimsModeFits",
        "status": "True",
        "reason": "Generating",
        "message": "fine",
        "lastTransitionTime": timestamps.time(CREATED),
    }


def test_the_transition_time_moves_with_the_status_alone() -> None:
    other = Condition("True", "Generating", "better")
    again = [record(WRITTEN, found, CREATED + 60) for found in (FITS, other, Condition("False", *REFUSED))]
    assert again[0] == WRITTEN
    assert record(f"{WRITTEN} ", FITS, CREATED + 60) == f"{WRITTEN} "
    assert [(read(each) or {})["lastTransitionTime"] for each in again] == [
        timestamps.time(CREATED + passed) for passed in (0, 0, 60)
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"type": "Ready"}'])
def test_what_is_no_condition_of_ours_is_none(text: str) -> None:
    assert read(text) is None


def lease(text: str, ago: float | None = 3, mode: str = "Replace") -> Object:
    spec = {} if ago is None else {"renewTime": timestamps.micro_time(CREATED - ago)}
    return {
        "metadata": {"annotations": {"tollbar.dev/claims": mode, "tollbar.dev/claims-condition": text}},
        "spec": spec,
    }


PREDECESSORS: dict[str, tuple[Object, bool]] = {
    "the last leader generated claims a moment ago": (lease(WRITTEN), True),
    "the last leader's clock was ahead of ours": (lease(WRITTEN, -3), True),
    "the last leader generated claims just recently enough": (lease(WRITTEN, RECENTLY), True),
    "the last leader generated claims long ago": (lease(WRITTEN, RECENTLY + 1), False),
    "the last leader's Replace was refused": (lease(record("", Condition("False", *REFUSED), CREATED)), False),
    "the last leader had not begun to generate": (
        lease(record("", Condition("Unknown", "Starting", ""), CREATED)),
        False,
    ),
    "the last leader worked beside kube-controller-manager": (
        lease(record("", Condition("True", "Complementing", ""), CREATED)),
        False,
    ),
    "the last leader left the condition of the one before it": (lease(WRITTEN, mode="Complement"), False),
    "the Lease was never renewed": (lease(WRITTEN, None), False),
    "the Lease has no condition": (lease(""), False),
    "there was no Lease": ({}, False),
}


@pytest.mark.parametrize(("given", "want"), PREDECESSORS.values(), ids=PREDECESSORS)
def test_predecessors(given: Object, want: bool) -> None:
    assert was_generating(given, CREATED) is want


def test_that_replace_does_not_begin_is_told() -> None:
    assert events.claims_not_replaced("why") == Event("Warning", "ClaimsNotReplaced", "why", "Start")
