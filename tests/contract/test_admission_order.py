"""Which webhooks are called, in which order, and again after others have changed the object; validation comes last."""

from collections.abc import Iterator

import pytest
from contract.api import Api, Refusal
from contract.hooks import (
    Hooks,
    Reply,
    allowing,
    configuration,
    denying,
    installed,
    labelled,
    patching,
    webhook,
)
from contract.objects import GPU, add

from tollbar.model.objects import Object
from tollbar.model.resources import VALIDATING_WEBHOOK_CONFIGURATIONS

GATE = "example.com/gate"


def gating(request: Object) -> Object:
    """Adds its gate unless it is there."""
    gates = request["object"]["spec"].get("schedulingGates", [])
    if {"name": GATE} in gates:
        return {"allowed": True}
    return dict(patching(add("/spec/schedulingGates", [*gates, {"name": GATE}]))(request))


def ever_more(request: Object) -> Object:
    """Changes the Pod at every call."""
    return dict(patching(add("/spec/tolerations/-", {**GPU, "key": f"example.com/{request['uid'][:8]}"}))(request))


MARKING = patching(add("/metadata/labels/marked", "yes"))
MARKED = [{"name": "marked", "expression": "'marked' in object.metadata.labels"}]
IF_NEEDED: Object = {"reinvocationPolicy": "IfNeeded"}

CASES: dict[str, tuple[list[tuple[str, Reply, Object]], list[str]]] = {
    "configurations are called in the order of their names": (
        [("z", allowing(), {}), ("a", allowing(), {}), ("b", allowing(), {})],
        ["a", "b", "z"],
    ),
    "again if needed, and a later one changed the Pod": (
        [("a", gating, IF_NEEDED), ("b", MARKING, {})],
        ["a", "b", "a"],
    ),
    "again if needed, and a later one changed nothing": (
        [("a", gating, IF_NEEDED), ("b", allowing(), {})],
        ["a", "b"],
    ),
    "never again, though a later one changed the Pod": (
        [("a", gating, {}), ("b", MARKING, {})],
        ["a", "b"],
    ),
    "the last one is called once": (
        [("z", gating, IF_NEEDED), ("b", MARKING, {})],
        ["b", "z"],
    ),
    "what it changed itself is no need": ([("a", gating, IF_NEEDED)], ["a"]),
    "both if needed, each changing once: no third time": (
        [("a", gating, IF_NEEDED), ("b", MARKING, IF_NEEDED)],
        ["a", "b", "a"],
    ),
    "both if needed, the later always changing: no endless loop": (
        [("a", gating, IF_NEEDED), ("b", ever_more, IF_NEEDED)],
        ["a", "b", "a"],
    ),
    "conditions that hold only after a later change: not called at all": (
        [("a", gating, {**IF_NEEDED, "matchConditions": MARKED}), ("b", MARKING, {})],
        ["b"],
    ),
    "conditions that hold after an earlier change": (
        [("a", MARKING, {}), ("b", gating, {"matchConditions": MARKED})],
        ["a", "b"],
    ),
    "a condition that fails to evaluate, under Ignore: not called, no refusal": (
        [
            (
                "a",
                gating,
                {
                    "failurePolicy": "Ignore",
                    "matchConditions": [{"name": "none", "expression": "object.metadata.annotations['a'] == 'b'"}],
                },
            )
        ],
        [],
    ),
}
LABELS = {sentence: f"o{number}" for number, sentence in enumerate(CASES)}
SEEN = "seen"
"""The case of the validating rows."""


@pytest.fixture(scope="module")
def hooks(home: Api, server: Hooks) -> Iterator[Hooks]:
    """A server with the webhooks of every case."""
    mutating: dict[str, list[Object]] = {"a": [], "b": [], "z": []}
    for sentence, (webhooks, _) in CASES.items():
        for name, reply, fields in webhooks:
            path = f"/{LABELS[sentence]}-{name}"
            server.replies[path] = reply
            mutating[name].append(webhook(server.client(path), LABELS[sentence], **fields))
    mutating["b"].append(webhook(server.client("/seen-b"), SEEN))
    server.replies["/seen-b"] = gating
    server.replies["/seen-v"] = lambda request: denying(
        message=f"gated: {'schedulingGates' in request['object']['spec']}"
    )(request)
    validating = configuration(
        server, home, "v", webhook(server.client("/seen-v"), SEEN), res=VALIDATING_WEBHOOK_CONFIGURATIONS
    )
    every = [configuration(server, home, name, *webhooks) for name, webhooks in mutating.items()]
    with installed(server, home, *every, validating):
        yield server


@pytest.mark.parametrize(("sentence", "want"), [(sentence, want) for sentence, (_, want) in CASES.items()], ids=CASES)
def test_order(api: Api, hooks: Hooks, sentence: str, want: list[str]) -> None:
    hooks.calls.clear()
    api.create(labelled(LABELS[sentence])).accepted()
    assert [path.rpartition("-")[2] for path in hooks.asked()] == want


def test_again_it_sees_its_own_change(api: Api, hooks: Hooks) -> None:
    hooks.calls.clear()
    api.create(labelled(LABELS["again if needed, and a later one changed the Pod"])).accepted()
    gates = [request["object"]["spec"].get("schedulingGates") for _, request in hooks.calls]
    uids = {request["uid"] for _, request in hooks.calls}
    assert (gates, len(uids)) == ([None, [{"name": GATE}], [{"name": GATE}]], 3)


def test_validation_sees_what_mutation_made_and_its_refusal_is_the_answer(api: Api, hooks: Hooks) -> None:
    hooks.calls.clear()
    answer = api.create(labelled(SEEN))
    want = Refusal(400, "", 'admission webhook "seen.contract.example.com" denied the request: gated: True')
    assert (answer.refusal(), hooks.asked()) == (want, ["seen-b", "seen-v"])
