"""What people read: kubectl against the plane, where its words are the contract."""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from time import time
from typing import Any

import pytest
from contract.api import Api
from contract.definitions import definition, established
from contract.objects import GPU, WIDGETS, add, lease, made, pod
from planes.parameters import unavailable

from tollbar.devplane.embedded.launcher import EmbeddedPlane
from tollbar.devplane.kubectl import Kubectl, KubectlError
from tollbar.model.objects import Object
from tollbar.model.resources import EVENTS, LEASES, PODS
from tollbar.model.timestamps import micro_time
from tollbar.runtime.client import PatchType

OLDEST = 34
"""The minor version of the oldest kubectl whose words these are."""
GATES = ("example.com/a", "example.com/b")
Say = Callable[..., str]
Attempt = Callable[[Api, Say], Any]


@pytest.fixture(scope="module", autouse=True)
def widgets(home: Api) -> Iterator[None]:
    with established(home, definition()):
        yield


@cache
def has_these_words(embedded: EmbeddedPlane) -> bool:
    """Whether there is a kubectl at all, and as new as the servers that Tollbar supports."""
    if not embedded.has_kubectl:
        return False
    return int(embedded.kubectl.json("version", "--client")["clientVersion"]["minor"].rstrip("+")) >= OLDEST


@pytest.fixture
def say(api: Api, contracted: Any) -> Say:
    """kubectl in the namespace: what it prints, or what it says when it fails; the namespace is written NAMESPACE."""
    kubectl: Kubectl = contracted.kubectl
    if isinstance(contracted, EmbeddedPlane) and not has_these_words(contracted):
        unavailable("no kubectl of a supported version: build the real control plane once, or put one on the PATH")

    def call(*arguments: str, stdin: str | None = None) -> str:
        try:
            text = kubectl(*arguments, "-n", api.namespace, stdin=stdin)
        except KubectlError as error:
            text = error.stderr
        return text.replace(api.namespace, "NAMESPACE").strip()

    return call


def gated(api: Api, say: Say, *arguments: str) -> str:
    """About a gated Pod."""
    api.create(pod(*GATES)).accepted()
    return say(*arguments)


def words(text: str) -> list[list[str]]:
    """Lines of a table without their last column, an age."""
    return [line.split()[:-1] for line in text.splitlines()]


def told_by_events(api: Api, say: Say, *arguments: str) -> list[str]:
    """The lines about a Pod's event that was seen nine times in two minutes, with numbers and blanks evened out."""
    found = api.create(pod(*GATES)).accepted()
    meta = {key: found[f"metadata.{key}"] for key in ("name", "namespace", "uid")}
    first = time() - 30 * 86_400  # an age that is told in whole days
    event = {
        "eventTime": micro_time(first),
        "series": {"count": 9, "lastObservedTime": micro_time(first + 120)},
        "type": "Warning",
        "reason": "SchedulingHeld",
        "action": "Hold",
        "note": "Waits.",
        "reportingController": "example.com/gates",
        "reportingInstance": "gates-0",
        "regarding": {"apiVersion": "v1", "kind": "Pod", **meta},
    }
    api.create(made(EVENTS, "web.1", **event)).accepted()
    lines = [line for line in say(*arguments).splitlines() if "SchedulingHeld" in line]
    return [re.sub(r"\d+d", "AGE", " ".join(line.split())) for line in lines]


def applied_twice(api: Api, say: Say) -> list[str]:
    said = [say("apply", "-f", "-", stdin=json.dumps(lease(holder=holder))) for holder in ("a", "a", "b")]
    api.delete(LEASES, "turn").accepted()
    return said


def applied_again(api: Api, say: Say, first: Object, then: Object, *options: str) -> str:
    """What comes of another apply after somebody has added a toleration; by default of the same."""
    say("apply", "-f", "-", *options[:1], stdin=json.dumps(first))
    api.patch(PODS, "web", [add("/spec/tolerations/-", GPU)]).accepted()
    said = say("apply", "-f", "-", *options, stdin=json.dumps(then))
    api.delete(PODS, "web").accepted()
    return said.partition("\n")[0]


def replaced(api: Api, say: Say) -> tuple[str, bool]:
    """A Pod to which a toleration was added, made anew from its manifest; whether the toleration is there."""
    api.create(BOTH).accepted()
    said = say("replace", "--force", "--grace-period=0", "-f", "-", stdin=json.dumps(TOLERANT))
    return said.splitlines()[-1], GPU in api.get(PODS, "web")["spec.tolerations"]


TOLERANT = pod(*GATES, tolerations=[{"key": "example.com/own", "operator": "Exists", "effect": "NoSchedule"}])
BOTH = pod(*GATES, tolerations=[*TOLERANT["spec"]["tolerations"], GPU])
NO_EDITS = (
    'The Pod "web" is invalid: spec.tolerations: Forbidden: existing toleration can not be modified except its'
    " tolerationSeconds"
)


def with_a_widget(api: Api, say: Say, *arguments: str) -> str:
    api.create(made(WIDGETS, "w", spec={"color": "red"})).accepted()
    api.patch(WIDGETS, "w", {"status": {"phase": "New"}}, PatchType.MERGE, "status").accepted()
    return say(*arguments)


def waiting(api: Api, say: Say) -> str:
    """A condition that is there."""
    api.create(made(WIDGETS, "w", spec={})).accepted()
    body = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    api.patch(WIDGETS, "w", body, PatchType.MERGE, "status").accepted()
    return say("wait", "--for=condition=Ready", "widget/w", "--timeout=30s")


REMOVE_SIXTH = '[{"op":"remove","path":"/spec/schedulingGates/5"}]'
KUBECTL: dict[str, tuple[Attempt, Any]] = {
    "a gated Pod says so": (
        lambda api, say: words(gated(api, say, "get", "pod", "web")),
        [["NAME", "READY", "STATUS", "RESTARTS"], ["web", "0/1", "SchedulingGated", "0"]],
    ),
    "nothing there": (lambda _api, say: say("get", "pods"), ""),
    "a Pod that is not there": (
        lambda _api, say: say("get", "pod", "none"),
        'Error from server (NotFound): pods "none" not found',
    ),
    "describe shows a Pod's events": (
        lambda api, say: told_by_events(api, say, "describe", "pod", "web"),
        ["Warning SchedulingHeld AGE (x9 over AGE) example.com/gates Waits."],
    ),
    "kubectl events shows how often": (
        lambda api, say: told_by_events(api, say, "events", "--for=pod/web"),
        ["AGE (x9 over AGE) Warning SchedulingHeld Pod/web Waits."],
    ),
    "kubectl get events does not": (
        lambda api, say: told_by_events(api, say, "get", "events"),
        ["AGE Warning SchedulingHeld pod/web Waits."],
    ),
    "applied, applied again, applied with a change": (
        applied_twice,
        [
            "lease.coordination.k8s.io/turn created",
            "lease.coordination.k8s.io/turn unchanged",
            "lease.coordination.k8s.io/turn configured",
        ],
    ),
    "a Pod with tolerations of its own, applied again after one was added": (
        lambda api, say: applied_again(api, say, TOLERANT, TOLERANT),
        NO_EDITS,
    ),
    "a Pod without tolerations of its own": (
        lambda api, say: applied_again(api, say, pod(*GATES), pod(*GATES)),
        "pod/web unchanged",
    ),
    "the added toleration written into the manifest": (
        lambda api, say: applied_again(api, say, TOLERANT, BOTH),
        "pod/web configured",
    ),
    "the same, server-side": (
        lambda api, say: applied_again(api, say, TOLERANT, TOLERANT, "--server-side"),
        'error: Apply failed with 1 conflict: conflict with "unknown" using v1: .spec.tolerations',
    ),
    "the same, server-side and by force": (
        lambda api, say: applied_again(api, say, TOLERANT, TOLERANT, "--server-side", "--force-conflicts"),
        NO_EDITS,
    ),
    "the same, replaced": (replaced, ("pod/web replaced", False)),
    "a kind that nobody serves": (
        lambda _api, say: say("apply", "-f", "-", stdin='{"apiVersion":"v1","kind":"Pot","metadata":{"name":"web"}}'),
        (
            'error: resource mapping not found for name: "web" namespace: "" from "STDIN": no matches for kind "Pot" in'
            ' version "v1"\nensure CRDs are installed first'
        ),
    ),
    "a label": (
        lambda api, say: gated(api, say, "label", "pod", "web", "a=b"),
        "pod/web labeled",
    ),
    "an annotation": (
        lambda api, say: gated(api, say, "annotate", "pod", "web", "a=b"),
        "pod/web annotated",
    ),
    "a stale patch": (
        lambda api, say: gated(api, say, "patch", "pod", "web", "--type=json", "-p", REMOVE_SIXTH),
        "The request is invalid: the server rejected our request due to an error in our request",
    ),
    "a gate too late": (
        lambda api, say: gated(
            api, say, "patch", "pod", "web", "-p", '{"spec":{"schedulingGates":[{"name":"example.com/c"}]}}'
        ),
        (
            'The Pod "web" is invalid: spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new'
            " scheduling gate 'example.com/c'"
        ),
    ),
    "columns of a kind of ours": (
        lambda api, say: [line.split() for line in with_a_widget(api, say, "get", "wid").splitlines()],
        [["NAME", "SIZE", "PHASE"], ["w", "3", "New"]],
    ),
    "a wait for a condition": (waiting, "widget.contract.example.com/w condition met"),
    "what one may": (lambda _api, say: say("auth", "can-i", "patch", "pods"), "yes"),
    "a deletion": (
        lambda api, say: gated(api, say, "delete", "pod", "web"),
        'pod "web" deleted from NAMESPACE namespace',
    ),
}


@pytest.mark.behaviour(13, case="a gated Pod says so")
@pytest.mark.parametrize(("attempt", "want"), KUBECTL.values(), ids=KUBECTL)
def test_kubectl(api: Api, say: Say, attempt: Attempt, want: Any) -> None:
    assert attempt(api, say) == want
