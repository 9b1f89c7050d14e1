"""Reviews of Pods: from the request to the patch, on the real CEL engine and decisions."""

import copy
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import orjson
import pytest
from objects.builders import scheduling_gate, toleration, toleration_rule
from objects.reviews import GPU_CLAIM, about_pod, new_pod, review_of

from tollbar.decide.pods.scope import AdmissionMode
from tollbar.model.objects import Key, Object
from tollbar.runtime.metrics import Metrics
from tollbar.views.gatherer import Gatherer
from webhooks import review
from webhooks.pods import PodHandler
from webhooks.review import Answer

Build = Callable[..., PodHandler]

GPU_TOLERATION = toleration("example.com/gpu")
GATE = {"name": "tollbar.dev/tolerations"}
ANNOTATION = "tollbar.dev/tolerations"
GATED = (
    {"op": "add", "path": "/spec/schedulingGates", "value": [GATE]},
    {"op": "add", "path": "/metadata/labels", "value": {"tollbar.dev/gate": "held"}},
)
PROVENANCE = json.dumps(
    [{"rule": "gpu", "generation": 1, "added": [GPU_TOLERATION], "via": "admission"}],
    separators=(",", ":"),
)
RECORDED = {"op": "add", "path": "/metadata/annotations", "value": {ANNOTATION: PROVENANCE}}
TOLERATED = ({"op": "add", "path": "/spec/tolerations/-", "value": GPU_TOLERATION}, RECORDED)

NOT_HELD = Answer(
    warnings=(
        (
            "tollbar: not held, because no controller could release it; tolerations may come later:"
            " ResourceClaimTemplate later"
        ),
    )
)

CASES: dict[str, tuple[Object, tuple[Any, ...]]] = {
    "a Pod with a GPU claim is tolerated": (about_pod(new_pod("one-gpu")), TOLERATED),
    "a dry run gets the same answer": (about_pod(new_pod("one-gpu"), dryRun=True), TOLERATED),
    "a claim by name counts": (about_pod(new_pod().claims("shared")), TOLERATED),
    "a Pod without a name yet": (about_pod(new_pod("one-gpu").being_created(generate_name=True)), TOLERATED),
    "a Pod whose namespace is only in the request": (
        about_pod(new_pod("one-gpu").but("metadata.namespace", None)),
        TOLERATED,
    ),
    "a Pod without tolerations": (
        about_pod(new_pod("one-gpu").but("spec.tolerations", None)),
        ({"op": "add", "path": "/spec/tolerations", "value": [GPU_TOLERATION]}, RECORDED),
    ),
    "a Pod that has the toleration": (about_pod(new_pod("one-gpu").tolerating(GPU_TOLERATION)), ()),
    "a Pod with annotations keeps them": (
        about_pod(new_pod("one-gpu").annotated({"a": "b"})),
        (TOLERATED[0], {"op": "add", "path": "/metadata/annotations/tollbar.dev~1tolerations", "value": PROVENANCE}),
    ),
    "another device": (about_pod(new_pod("one-nic")), ()),
    "no device": (about_pod(new_pod()), ()),
    "a claim that does not exist is waited for": (about_pod(new_pod("later")), GATED),
    "a class that does not exist is waited for": (about_pod(new_pod("of-no-class")), GATED),
    "a GPU or something else is no GPU": (about_pod(new_pod("gpu-or-nic")), ()),
    "a GPU or another GPU is a GPU": (about_pod(new_pod("gpu-or-gpu")), TOLERATED),
    "sixteen alternatives are looked at": (about_pod(new_pod("sixteen-times-gpu")), TOLERATED),
    "256 alternatives are left to the controller": (about_pod(new_pod("two-to-the-eighth")), GATED),
    "a forged record is taken away": (
        about_pod(new_pod("one-nic").annotated({ANNOTATION: PROVENANCE})),
        ({"op": "remove", "path": "/metadata/annotations/tollbar.dev~1tolerations"},),
    ),
    "a Pod with a node": (about_pod(new_pod("one-gpu").bound()), ()),
    "a Pod that opts out": (about_pod(new_pod("one-gpu").labelled({"tollbar.dev/skip": "true"})), ()),
    "a Pod of the system namespace": (
        about_pod(new_pod("one-gpu").but("metadata.namespace", "tollbar-system"), namespace="tollbar-system"),
        (),
    ),
    "an update": (about_pod(new_pod("one-gpu"), "UPDATE", oldObject=new_pod()), ()),
    "a deletion has no object": (about_pod(None, "DELETE", oldObject=new_pod("one-gpu")), ()),
    "a subresource": (about_pod(new_pod("one-gpu"), subResource="ephemeralcontainers"), ()),
    "something else than a Pod": (
        about_pod(new_pod("one-gpu"), kind={"group": "apps", "version": "v1", "kind": "Pod"}),
        (),
    ),
    "an object without a spec": (about_pod({"metadata": {"name": "web"}}), ()),
    "an object that is none": (about_pod(None, object=["web"]), ()),
}


@pytest.mark.parametrize(("request_", "want"), CASES.values(), ids=CASES)
def test_a_request_gets_its_patch_and_is_always_allowed(
    handler: Build, request_: Object, want: tuple[Any, ...]
) -> None:
    before = copy.deepcopy(request_)
    assert (handler()(request_), request_) == (Answer(patch=want), before)


PATCHED = {name: given for name, (given, want) in CASES.items() if want}


@pytest.mark.parametrize("request_", PATCHED.values(), ids=PATCHED)
@pytest.mark.parametrize("mode", ["Auto", "Gate"])
def test_calling_again_with_the_patched_pod_changes_nothing(handler: Build, mode: str, request_: Object) -> None:
    handle = handler(mode)
    patched = jsonpatch.apply_patch(request_["object"], handle(request_).patch)
    assert handle({**request_, "object": patched}) == Answer()


MODES = {
    "Gate gates what Auto would decide": ("Gate", new_pod("one-gpu"), GATED),
    "Gate leaves a Pod without devices alone": ("Gate", new_pod(), ()),
    "Never leaves what waits alone": ("Never", new_pod("later"), ()),
    "Never leaves what is known alone": ("Never", new_pod("one-gpu"), ()),
}


@pytest.mark.parametrize(("mode", "given", "want"), MODES.values(), ids=MODES)
def test_the_mode_says_what_may_be_gated(handler: Build, mode: str, given: Object, want: tuple[Any, ...]) -> None:
    assert handler(mode)(about_pod(given)) == Answer(patch=want)


def test_an_audited_rule_only_warns(handler: Build, gatherer: Gatherer) -> None:
    gatherer.rules.replace([toleration_rule("gpu").cel(GPU_CLAIM).mode("Audit")])
    assert handler()(about_pod(new_pod("one-gpu"))) == Answer(
        warnings=("tollbar: rule gpu (Audit) would add 1 toleration",)
    )


def test_nothing_is_said_before_the_caches_are_complete(handler: Build, gatherer: Gatherer) -> None:
    handle = handler()
    gatherer.lookup.classes.synced.clear()
    before = handle(about_pod(new_pod("one-gpu")))
    gatherer.lookup.classes.synced.set()
    assert (before, handle(about_pod(new_pod("one-gpu")))) == (Answer(), Answer(patch=TOLERATED))


def test_nothing_is_gated_while_nobody_may_release_it(handler: Build, gatherer: Gatherer) -> None:
    handle = handler()
    answers = [handle(about_pod(new_pod("later")))]
    gatherer.gates.apply(scheduling_gate().ready("False", "NotAnOwner"))
    answers.append(handle(about_pod(new_pod("later"))))
    gatherer.gates.apply(scheduling_gate().ready("True", "Owned"))
    answers.append(handle(about_pod(new_pod("later"))))
    assert answers == [Answer(patch=GATED), NOT_HELD, Answer(patch=GATED)]


@pytest.mark.parametrize("mode", ["Auto", "Gate"])
def test_nothing_is_gated_while_no_controller_is_there_to_release_it(
    gatherer: Gatherer, metrics: Metrics, mode: AdmissionMode
) -> None:
    there = True
    handle = PodHandler(gatherer, mode=mode, metrics=metrics, releasing=lambda: there)
    answers = [handle(about_pod(new_pod("later")))]
    there = False
    answers += [handle(about_pod(new_pod("later"))), handle(about_pod(new_pod("one-gpu")))]
    assert answers == [Answer(patch=GATED), NOT_HELD, Answer(patch=TOLERATED)]


def test_a_rule_counts_from_the_moment_the_cache_has_it(handler: Build, gatherer: Gatherer) -> None:
    handle = handler()
    answers = [handle(about_pod(new_pod("one-nic"))).patch]
    gatherer.rules.apply(toleration_rule("nic").cel(GPU_CLAIM.replace("gpu.", "nic.")))
    answers.append(handle(about_pod(new_pod("one-nic"))).patch[:1])
    gatherer.rules.discard(Key("", "nic"))
    answers.append(handle(about_pod(new_pod("one-nic"))).patch)
    added = {"op": "add", "path": "/spec/tolerations/-", "value": toleration("example.com/nic")}
    assert answers == [(), (added,), ()]


def test_a_pod_of_a_mebibyte_is_decided_like_any_other(handler: Build) -> None:
    big = new_pod("one-gpu").annotated({"blob": "x" * 2**20})
    body = orjson.dumps(review_of(about_pod(big)))
    assert handler()(review.parse(body)).patch[0] == TOLERATED[0]


def test_a_failing_rule_is_false_for_this_pod_and_counted(handler: Build, gatherer: Gatherer, metrics: Metrics) -> None:
    gatherer.rules.apply(toleration_rule("broken").cel('pod.metadata.labels["absent"] == "x"'))
    answer = handler()(about_pod(new_pod("one-gpu")))
    assert (answer, _values(metrics)) == (
        Answer(patch=TOLERATED),
        {
            "tollbar_admission_decisions_total tolerated": 1.0,
            "tollbar_tolerations_added_total gpu admission": 1.0,
            "tollbar_rule_errors_total broken EvaluationFailed": 1.0,
        },
    )


def test_decisions_are_counted_but_not_those_of_dry_runs(handler: Build, gatherer: Gatherer, metrics: Metrics) -> None:
    handle = handler()
    for given in (new_pod("one-gpu"), new_pod("one-gpu"), new_pod("later"), new_pod()):
        handle(about_pod(given))
        handle(about_pod(given, dryRun=True))
    assert _values(metrics) == {
        "tollbar_admission_decisions_total tolerated": 2.0,
        "tollbar_admission_decisions_total gated": 1.0,
        "tollbar_admission_decisions_total ignored": 1.0,
        "tollbar_tolerations_added_total gpu admission": 2.0,
    }


def test_the_series_of_a_rule_go_with_it(handler: Build, gatherer: Gatherer, metrics: Metrics) -> None:
    handler()(about_pod(new_pod("one-gpu")))
    gatherer.rules.discard(Key("", "gpu"))
    assert _values(metrics) == {"tollbar_admission_decisions_total tolerated": 1.0}


def _values(metrics: Metrics) -> dict[str, float]:
    """Every tollbar_* series that is not zero, as `name label label`."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name.startswith("tollbar_") and sample.value
    }
