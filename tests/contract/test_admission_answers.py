"""What becomes of a webhook's answer, or of its absence, under both failure policies."""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from http.client import RemoteDisconnected
from typing import Any

import pytest
import trustme
from contract.api import Answer, Api, Refusal
from contract.hooks import (
    Hooks,
    Reply,
    allowing,
    closed_port,
    configuration,
    denying,
    installed,
    labelled,
    patching,
    webhook,
)
from contract.objects import GPU, add, check, pod, remove
from contract.tables import invalid

from tollbar.model.resources import PODS

GATE = {"name": "example.com/a"}


def refused(code: int, message: str) -> Refusal:
    return Refusal(code, "InternalError", f"Internal error occurred: {message}", (("", "", message),))


def failing(why: str) -> Refusal:
    """500 for an answer that is none."""
    return refused(500, f'failed calling webhook "NAME.contract.example.com": {why}')


def denied(code: int, why: str, reason: str = "") -> Refusal:
    return Refusal(code, reason, f'admission webhook "NAME.contract.example.com" denied the request{why}')


UNTOUCHED: Any = ([], 2, ())
UNREACHED = failing("failed to call webhook: WHY")
NO_SUCH_PATH = 'doc is missing path: "/metadata/annotations/a": missing value'
DUPLICATE = ("FieldValueDuplicate", "spec.schedulingGates[1]", f'Duplicate value: "{GATE["name"]}"')
ANSWERS: dict[str, tuple[Reply, Any]] = {
    "nothing": (allowing(), UNTOUCHED),
    "a gate": (patching(add("/spec/schedulingGates", [GATE])), ([GATE["name"]], 2, ())),
    "a toleration": (patching(add("/spec/tolerations/-", GPU)), ([], 3, ())),
    "warnings": (allowing(warnings=["one", "two"]), ([], 2, ("one", "two"))),
    "warnings with a patch": (
        lambda request: {**patching(add("/spec/schedulingGates", [GATE]))(request), "warnings": ["gated"]},
        ([GATE["name"]], 2, ("gated",)),
    ),
    "a patch with a field that does not exist: dropped, nobody is warned": (
        patching(add("/spec/tolerations/-", {**GPU, "foo": "bar"})),
        ([], 3, ()),
    ),
    "an empty patch": (patching(), UNTOUCHED),
    "no": (denying(), denied(400, " without explanation")),
    "no, with a message": (denying(message="not today"), denied(400, ": not today")),
    "no, with a message and a code": (
        denying(message="not today", code=422, reason="Invalid"),
        denied(422, ": not today", "Invalid"),
    ),
    "no, with warnings": (
        lambda _request: {"allowed": False, "warnings": ["one"], "status": {"message": "not today"}},
        denied(400, ": not today"),
    ),
    "a patch whose test fails": (
        patching(check("/metadata/name", "other")),
        refused(500, "testing value /metadata/name failed: test failed"),
    ),
    "a patch of what is not there": (
        patching(remove("/metadata/annotations/a")),
        refused(500, f"remove operation does not apply: {NO_SUCH_PATH}"),
    ),
    "a patch below what is not there": (
        patching(add("/metadata/annotations/a", "b")),
        refused(500, f"add operation does not apply: {NO_SUCH_PATH}"),
    ),
    "a patch that makes the Pod invalid": (
        patching(add("/spec/schedulingGates", [GATE, GATE])),
        invalid('Pod "web"', DUPLICATE),
    ),
}
"""By what the webhook says: the same for both policies.  A wrong answer is not a missing one."""

ABSENCES: dict[str, tuple[Reply, Refusal]] = {
    "no connection": (allowing(), UNREACHED),
    "a certificate of somebody else": (allowing(), UNREACHED),
    "HTTP 500": (lambda _request: (500, b"boom"), UNREACHED),
    "HTTP 404": (lambda _request: (404, b""), UNREACHED),
    "no JSON": (lambda _request: (200, b"boom"), UNREACHED),
    "no answer in time": (allowing(), UNREACHED),
    "JSON of something else": (
        lambda _request: (200, b'{"a": 1}'),
        failing("received invalid webhook response: webhook response was absent"),
    ),
    "another request's uid": (
        allowing(uid="other"),
        failing('received invalid webhook response: expected response.uid="UID", got "other"'),
    ),
    "a patch without its type": (
        lambda _request: {"allowed": True, "patch": "W10="},
        failing("received invalid webhook response: webhook returned response.patch but not response.patchType"),
    ),
}
"""By how the webhook fails to answer: what a creator hears under Fail.  Under Ignore nobody hears anything."""

CASES = {**ANSWERS, **ABSENCES}
NAMES = {sentence: f"c{number}" for number, sentence in enumerate(CASES)}
POLICIES = ("Ignore", "Fail")


def name_of(sentence: str, policy: str) -> str:
    """Of the webhook, its path and its case."""
    return f"{NAMES[sentence]}-{policy.lower()}"


@pytest.fixture(scope="module")
def hooks(home: Api, server: Hooks) -> Iterator[Hooks]:
    """A server with one webhook for every case and policy."""
    elsewhere: dict[str, Any] = {
        "no connection": {"url": closed_port()},
        "a certificate of somebody else": {"authority": trustme.CA().cert_pem.bytes()},
    }
    webserver = []
    for sentence, policy in itertools.product(CASES, POLICIES):
        name = name_of(sentence, policy)
        late = sentence == "no answer in time"
        server.replies[f"/{name}"] = server.hang if late else CASES[sentence][0]
        client = server.client(f"/{name}", **elsewhere.get(sentence, {}))
        webserver.append(webhook(client, name, failurePolicy=policy, timeoutSeconds=1 if late else 30))
    with installed(server, home, configuration(server, home, "answers", *webserver)):
        yield server


def outcome(api: Api, sentence: str, policy: str) -> Any:
    """Gates, number of tolerations and warnings of a created Pod, or the refusal.

    The words of the network library about a webhook that it did not reach are written WHY.
    """
    name = name_of(sentence, policy)
    answer = api.create(labelled(name))
    if answer.code < 300:
        names = [each["name"] for each in answer["spec.schedulingGates"] or ()]
        return names, len(answer["spec.tolerations"]), answer.warnings
    status = json.dumps(answer.object).replace(f"{name}.", "NAME.")
    return Answer(answer.code, json.loads(_UNREACHED.sub("failed to call webhook: WHY", status))).refusal()


_UNREACHED = re.compile(r'failed to call webhook: (?:[^"\\]|\\.)*')


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("sentence", "want"), [(key, want) for key, (_, want) in ANSWERS.items()], ids=ANSWERS)
def test_answers(api: Api, hooks: Hooks, sentence: str, policy: str, want: Any) -> None:
    assert outcome(api, sentence, policy) == want


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("sentence", "want"), [(key, want) for key, (_, want) in ABSENCES.items()], ids=ABSENCES)
def test_absences(api: Api, hooks: Hooks, sentence: str, policy: str, want: Any) -> None:
    assert outcome(api, sentence, policy) == (want if policy == "Fail" else UNTOUCHED)


def test_a_write_that_says_how_long_it_may_take_does_not_come_to_pass_later(api: Api, hooks: Hooks) -> None:
    """The webhook does not answer within a second, and then the Pod is created without it.

    An API server that is busy may abort such a request without an answer.
    """
    case = {"metadata": {"labels": {"case": name_of("no answer in time", "Ignore")}}}
    limited = None
    while limited is None:
        with suppress(RemoteDisconnected):
            limited = api.create(pod(**case), timeout="500ms").refusal()
    api.create(pod(name="unlimited", **case)).accepted()
    allotted = Refusal(504, "Timeout", "Timeout: request did not complete within the allotted timeout")
    assert (limited, api.get(PODS, "web").code) == (allotted, 404)
