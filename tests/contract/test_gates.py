"""Gates of Pods: giving, removing, releasing with everything that a release writes, narrowing while they last."""

from typing import Any

import pytest
from contract.api import Answer, Api, Refusal, told
from contract.objects import DEFAULTS, GPU, add, check, pod, put, remove
from contract.tables import STALE, Rows, forbidden, invalid, last, not_found, rows

from tollbar.decide.gates import mutations
from tollbar.decide.gates.answers import Mutation
from tollbar.model.objects import Object
from tollbar.model.resources import PODS
from tollbar.runtime.client import PatchType

A, B, C = "example.com/a", "example.com/b", "example.com/c"
GATES = "/spec/schedulingGates"
CLAIM = {"name": "gpu", "resourceClaimName": "gpu"}


def after(api: Api, *operations: Object, sub: str = "", given: Object | None = None, path: str = "") -> Any:
    """A Pod, by default held by A, B, C, after a JSON Patch: its gates, or what is at the path."""
    api.create(given or pod(A, B, C)).accepted()
    answer = api.patch(PODS, "web", operations, sub=sub)
    if answer.code >= 300:
        return told(answer)
    return answer[path] if path else gates(answer)


def gates(answer: Answer) -> list[str]:
    return [each["name"] for each in answer["spec.schedulingGates"] or ()]


LATE_GATE = forbidden(
    "spec.schedulingGates[3].name", "only deletion is allowed, but found new scheduling gate 'example.com/new'"
)
CHANGED = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def frozen(refusal: Any) -> Any:
    """A refusal to change the spec, without its diff."""
    assert isinstance(refusal, Refusal), refusal
    return refusal.code, [(field, text.split("\n")[0]) for _, field, text in refusal.causes]


FROZEN = (422, [("spec", f"Forbidden: {CHANGED}")])


GATE_ROWS: Rows = {
    "a Node is given at creation": (
        lambda api: api.create(pod(A, nodeName="nowhere")),
        invalid(
            'Pod "web"',
            forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"),
        ),
    ),
    "the same gate twice": (
        lambda api: api.create(pod(A, A)),
        invalid('Pod "web"', ("FieldValueDuplicate", "spec.schedulingGates[1]", f'Duplicate value: "{A}"')),
    ),
    "a gate's name with two slashes": (
        lambda api: api.create(pod("a/b/c")).refusal().causes[0][:2],
        ("FieldValueInvalid", "spec.schedulingGates[0]"),
    ),
    "a gate's name without a domain": (lambda api: gates(api.create(pod("held"))), ["held"]),
    "the order at creation is kept": (lambda api: gates(api.create(pod(C, A, B))), [C, A, B]),
    "one more later": (
        lambda api: after(api, add(f"{GATES}/-", {"name": "example.com/new"})),
        invalid('Pod "web"', LATE_GATE),
    ),
    "one more later, on a Pod that never had any": (
        lambda api: after(api, add(GATES, [{"name": A}]), given=pod()),
        invalid(
            'Pod "web"',
            forbidden("spec.schedulingGates[0].name", f"only deletion is allowed, but found new scheduling gate '{A}'"),
        ),
    ),
    "one swapped for another in one patch": (
        lambda api: after(api, remove(f"{GATES}/0"), add(f"{GATES}/0", {"name": "example.com/new"})),
        invalid(
            'Pod "web"',
            forbidden(
                "spec.schedulingGates[0].name",
                "only deletion is allowed, but found new scheduling gate 'example.com/new'",
            ),
        ),
    ),
    "the order is not protected": (
        lambda api: after(api, put(GATES, [{"name": C}, {"name": A}, {"name": B}])),
        [C, A, B],
    ),
    "any one is removed": (lambda api: after(api, remove(f"{GATES}/1")), [A, C]),
    "all at once are removed": (lambda api: after(api, remove(GATES)), []),
    "the last one is removed: no list is left": (
        lambda api: after(api, remove(f"{GATES}/0"), given=pod(A), path="spec.schedulingGates"),
        None,
    ),
    "a gate that is gone stays gone": (
        lambda api: last(
            after(api, remove(f"{GATES}/2")),
            api.patch(PODS, "web", [add(f"{GATES}/-", {"name": C})]).code,
        ),
        422,
    ),
    "removal by index through the status is ignored": (
        lambda api: after(api, remove(f"{GATES}/0"), sub="status"),
        [A, B, C],
    ),
    "removal by index through resize is ignored": (
        lambda api: after(api, remove(f"{GATES}/0"), sub="resize"),
        [A, B, C],
    ),
    "removal by a merge patch of the whole list": (
        lambda api: last(
            api.create(pod(A, B, C)),
            gates(api.patch(PODS, "web", {"spec": {"schedulingGates": [{"name": B}]}}, PatchType.MERGE)),
        ),
        [B],
    ),
    "removal by a PUT": (
        lambda api: last(
            found := api.create(pod(A, B)),
            gates(api.replace({**found.object, "spec": {**found["spec"], "schedulingGates": [{"name": B}]}})),
        ),
        [B],
    ),
    "a Node is written into a gated Pod": (
        lambda api: frozen(after(api, add("/spec/nodeName", "nowhere"))),
        FROZEN,
    ),
    "a Node is written into a Pod without gates": (
        lambda api: frozen(after(api, add("/spec/nodeName", "nowhere"), given=pod())),
        FROZEN,
    ),
    "a gated Pod is bound": (
        lambda api: last(api.create(pod(A)), api.bind()),
        Refusal(
            409,
            "Conflict",
            'Operation cannot be fulfilled on pods/binding "web": pod web has non-empty .spec.schedulingGates',
        ),
    ),
    "a released Pod is bound": (
        lambda api: last(api.create(pod(A)), api.patch(PODS, "web", [remove(GATES)]), api.bind()),
        201,
    ),
    "its two owners remove their gates by index at once: the second is stale": (
        lambda api: last(
            after(api, check(f"{GATES}/0/name", A), remove(f"{GATES}/0")),
            api.patch(PODS, "web", [check(f"{GATES}/2/name", C), remove(f"{GATES}/2")]),
        ),
        STALE,
    ),
    "it is deleted while gated": (
        lambda api: last(api.create(pod(A)), api.delete(PODS, "web"), api.get(PODS, "web")),
        not_found('pods "web"'),
    ),
}


@pytest.mark.behaviour(2, case="one more later")
@pytest.mark.behaviour(3, case="a gate that is gone stays gone")
@pytest.mark.behaviour(4, case="the same gate twice")
@pytest.mark.behaviour(5, case="its two owners remove their gates by index at once: the second is stale")
@pytest.mark.behaviour(11, case="a Node is given at creation")
@pytest.mark.behaviour(11, case="a gated Pod is bound")
@rows(GATE_ROWS)
def test_gates(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


def release(api: Api, *more: Object, given: Object | None = None) -> Any:
    """Everything that a release writes, in one patch."""
    found = api.create(given or pod(A, B, metadata={"labels": {"gate": "held"}})).accepted()
    answer = api.patch(
        PODS,
        "web",
        [
            check("/metadata/uid", found["metadata.uid"]),
            check(f"{GATES}/1/name", B),
            remove(f"{GATES}/1"),
            add("/spec/tolerations/-", GPU),
            put("/metadata/labels/gate", "released"),
            *more,
        ],
    )
    if answer.code >= 300:
        return told(answer)
    meta = answer["metadata"]
    return gates(answer), answer["spec.tolerations"], meta["labels"], meta.get("annotations"), meta["generation"]


RELEASE: Rows = {
    "gate, toleration, annotation and label in one patch": (
        lambda api: release(api, check("/metadata/annotations", None), add("/metadata/annotations", {"a": "b"})),
        ([A], [*DEFAULTS, GPU], {"gate": "released"}, {"a": "b"}, 2),
    ),
    "an annotation where there are none": (lambda api: release(api, add("/metadata/annotations/a", "b")), STALE),
    "an annotation beside others": (
        lambda api: release(
            api,
            add("/metadata/annotations/a", "b"),
            given=pod(A, B, metadata={"labels": {"gate": "held"}, "annotations": {"c": "d"}}),
        ),
        ([A], [*DEFAULTS, GPU], {"gate": "released"}, {"a": "b", "c": "d"}, 2),
    ),
    "a map of annotations, guarded, where somebody made one": (
        lambda api: release(
            api,
            check("/metadata/annotations", None),
            add("/metadata/annotations", {"a": "b"}),
            given=pod(A, B, metadata={"labels": {"gate": "held"}, "annotations": {"c": "d"}}),
        ),
        STALE,
    ),
    "a wrong toleration in it: nothing is released": (
        lambda api: last(
            release(api, add("/spec/tolerations/-", {"key": "a b", "operator": "Exists"})),
            gates(api.get(PODS, "web")),
        ),
        [A, B],
    ),
    "annotations of more than 256 KiB": (
        lambda api: release(api, add("/metadata/annotations", {"a": "x" * 262_144})),
        invalid(
            'Pod "web"',
            ("FieldValueTooLong", "metadata.annotations", "Too long: may not be more than 262144 bytes"),
        ),
    ),
    "it is one step of the version": (
        lambda api: last(
            release(api),
            api.patch(PODS, "web", [check("/spec/tolerations/2/key", GPU["key"])]).version
            == api.get(PODS, "web").version,
        ),
        True,
    ),
}


@rows(RELEASE)
def test_release(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


REQUIRED = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution"
SELECTED = pod(A, nodeSelector={"a": "1"})
NARROWER = {"key": "b", "operator": "Exists"}


def affine(*expressions: Object, **more: Any) -> Object:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms, **more}}


def term(key: str) -> str:
    """A term as the refusal quotes it."""
    return f'{{"MatchExpressions":[{{"Key":"{key}","Operator":"Exists","Values":null}}],"MatchFields":null}}'


def narrowed(api: Api, *operations: Object, given: Object) -> Any:
    """200, or the causes (field, first line) of the refusal."""
    answer = after(api, *operations, given=given, path="metadata.name")
    return [(field, text.split("\n")[0]) for _, field, text in answer.causes] if answer != "web" else answer


TERMS = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
SELECTOR_GROWS = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
WEIGHED = {"weight": 1, "preference": {"matchExpressions": [NARROWER]}}
PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [WEIGHED]}
NARROWING: Rows = {
    "a node selector, where there was none": (
        lambda api: narrowed(api, add("/spec/nodeSelector", {"a": "1"}), given=pod(A)),
        "web",
    ),
    "one more label in the node selector": (
        lambda api: narrowed(api, add("/spec/nodeSelector/b", "2"), given=SELECTED),
        "web",
    ),
    "another value in the node selector": (
        lambda api: narrowed(api, put("/spec/nodeSelector/a", "2"), given=SELECTED),
        [("spec.nodeSelector", f'Invalid value: {{"a":"2"}}: {SELECTOR_GROWS}')],
    ),
    "a label less in the node selector": (
        lambda api: narrowed(api, remove("/spec/nodeSelector"), given=SELECTED),
        [("spec.nodeSelector", f"Invalid value: null: {SELECTOR_GROWS}")],
    ),
    "required affinity, where there was none": (
        lambda api: narrowed(api, add("/spec/affinity", affine(NARROWER)), given=pod(A)),
        "web",
    ),
    "one more expression in a required term": (
        lambda api: narrowed(
            api,
            add(f"{REQUIRED}/nodeSelectorTerms/0/matchExpressions/-", NARROWER),
            given=pod(A, affinity=affine({"key": "a", "operator": "Exists"})),
        ),
        "web",
    ),
    "another expression in a required term": (
        lambda api: narrowed(
            api,
            put(f"{REQUIRED}/nodeSelectorTerms/0/matchExpressions/0", NARROWER),
            given=pod(A, affinity=affine({"key": "a", "operator": "Exists"})),
        ),
        [(f"{TERMS}[0]", f"Invalid value: {term('b')}: only additions are allowed (no mutations or deletions)")],
    ),
    "one more required term": (
        lambda api: narrowed(
            api,
            add(f"{REQUIRED}/nodeSelectorTerms/-", {"matchExpressions": [NARROWER]}),
            given=pod(A, affinity=affine({"key": "a", "operator": "Exists"})),
        ),
        [
            (
                TERMS,
                (
                    f"Invalid value: [{term('a')},{term('b')}]: no additions/deletions to non-empty NodeSelectorTerms"
                    " list are allowed"
                ),
            )
        ],
    ),
    "preferred terms, freely": (
        lambda api: last(
            narrowed(api, add("/spec/affinity", {"nodeAffinity": PREFERRED}), given=pod(A)),
            api.patch(PODS, "web", [remove("/spec/affinity")]),
        ),
        200,
    ),
    "another scheduler": (
        lambda api: [field for field, _ in narrowed(api, put("/spec/schedulerName", "other"), given=pod(A))],
        ["spec"],
    ),
    "a claim": (
        lambda api: [field for field, _ in narrowed(api, add("/spec/resourceClaims", [CLAIM]), given=pod(A))],
        ["spec"],
    ),
    "no claim any more": (
        lambda api: frozen(after(api, remove("/spec/resourceClaims/0"), given=pod(resourceClaims=[CLAIM]))),
        FROZEN,
    ),
    "selector, affinity and toleration with the last gate": (
        lambda api: narrowed(
            api,
            remove(GATES),
            add("/spec/nodeSelector", {"a": "1"}),
            add("/spec/affinity", affine(NARROWER)),
            add("/spec/tolerations/-", GPU),
            given=pod(A),
        ),
        "web",
    ),
    "a selector after the last gate": (
        lambda api: last(
            after(api, remove(GATES)),
            frozen(told(api.patch(PODS, "web", [add("/spec/nodeSelector", {"a": "1"})]))),
        ),
        FROZEN,
    ),
}


@rows(NARROWING)
def test_narrowing(api: Api, attempt: Any, want: Any) -> None:
    assert told(attempt(api)) == want


PLACED = Mutation(
    required=(NARROWER, {"key": "c", "operator": "In", "values": ["1", "2"]}),
    preferred=(WEIGHED,),
    annotations={"tollbar.dev/placement": "rule"},
)


@pytest.mark.parametrize(
    "given",
    [
        pod(A),
        SELECTED,
        pod(A, affinity={}),
        pod(A, affinity={"nodeAffinity": PREFERRED}),
        pod(A, affinity={"podAntiAffinity": {}}),
        pod(A, affinity=affine({"key": "a", "operator": "Exists"}, NARROWER)),
        pod(
            A,
            affinity={
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {},
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                            {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                        ]
                    }
                }
            },
        ),
    ],
    ids=["nothing", "a selector", "empty", "preferences", "for Pods", "the same already", "three terms, one empty"],
)
def test_what_a_placement_asks_for_is_accepted_whatever_the_pod_asks_for(api: Api, given: Object) -> None:
    """And asking again changes nothing."""
    created = api.create(given).accepted().object
    released = api.patch(PODS, "web", mutations.patch(created, PLACED, gate=A, action="remove", fenced=True)).accepted()
    assert released["spec.schedulingGates"] is None
    again = mutations.patch(released.object, PLACED, gate=A, action="keep", fenced=False)
    assert all(each["path"].startswith("/metadata/annotations") for each in again), again
