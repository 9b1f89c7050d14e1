"""Reviews of ResourceClaims and templates as they are created: what is added, told and counted."""

import json
from typing import Any

import pytest
from objects.builders import claim, template, toleration, toleration_rule
from objects.patching import apply
from objects.reviews import GPU_CLAIM, about_pod

from tollbar.model.objects import Object
from tollbar.runtime.metrics import Metrics
from tollbar.views.devicetolerations import DeviceTolerations
from tollbar.views.gatherer import Gatherer
from webhooks.claims import ClaimHandler
from webhooks.review import ALLOWED, Answer

GPU = toleration("example.com/gpu")
RULE = toleration_rule("gpu").cel(GPU_CLAIM).giving_devices(GPU)
CLAIM = claim("gpu").request("gpu.example.com")
RECORD = json.dumps([{"rule": "gpu", "generation": 1, "request": "r0", "added": [GPU], "via": "creation"}])
TEMPLATE = template("gpu").request("nic.example.com", "gpu.example.com")


def about_claim(obj: Object, operation: str = "CREATE", **members: Any) -> Object:
    kind = {"group": "resource.k8s.io", "version": "v1", "kind": obj["kind"]}
    return about_pod(obj, operation, **{"kind": kind, **members})


@pytest.fixture
def handler(gatherer: Gatherer, metrics: Metrics) -> ClaimHandler:
    gatherer.rules.replace([RULE])
    return ClaimHandler(DeviceTolerations(gatherer, metrics, kept=lambda: True))


def counted(metrics: Metrics, mode: str = "Enforce") -> float:
    return metrics.registry.get_sample_value("tollbar_device_tolerations_total", {"rule": "gpu", "mode": mode}) or 0


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (CLAIM, ("spec", "devices", "requests", 0, "exactly")),
        (TEMPLATE, ("spec", "spec", "devices", "requests", 0, "firstAvailable", 1)),
    ],
)
def test_a_request_that_matches_gets_the_tolerations(
    handler: ClaimHandler, metrics: Metrics, obj: Object, path: tuple[Any, ...]
) -> None:
    answer = handler(about_claim(obj))
    found = apply(obj, answer.patch)
    for step in path:
        found = found[step]
    assert (found["tolerations"], answer.warnings, answer.denial, counted(metrics)) == ([GPU], (), None, 1)


def test_a_dry_run_gets_the_same_answer_and_is_not_counted(handler: ClaimHandler, metrics: Metrics) -> None:
    tried = handler(about_claim(CLAIM, dryRun=True))
    assert (tried, counted(metrics), handler(about_claim(CLAIM)) == tried, counted(metrics)) == (tried, 0, True, 1)


def test_audit_changes_nothing_and_tells(handler: ClaimHandler, gatherer: Gatherer, metrics: Metrics) -> None:
    gatherer.rules.replace([RULE.mode("Audit")])
    assert handler(about_claim(CLAIM)) == Answer(
        warnings=("tollbar: rule gpu (Audit) would add 1 device toleration to request r0",)
    )
    assert (counted(metrics), counted(metrics, "Audit")) == (0, 1)


def test_where_they_are_dropped_nothing_is_added_recorded_or_counted(gatherer: Gatherer, metrics: Metrics) -> None:
    gatherer.rules.replace([RULE])
    kept = ClaimHandler(DeviceTolerations(gatherer, metrics, kept=lambda: True))(about_claim(CLAIM))
    forged = CLAIM.annotated({"tollbar.dev/tolerations": RECORD})
    handler = ClaimHandler(DeviceTolerations(gatherer, metrics, kept=lambda: False))
    before = counted(metrics)
    assert (handler(about_claim(CLAIM)), apply(forged, handler(about_claim(forged)).patch), counted(metrics)) == (
        ALLOWED,
        CLAIM.annotated({}),
        before,
    )
    assert kept.patch


UNTOUCHED = {
    "an update": about_claim(CLAIM, "UPDATE", oldObject=CLAIM),
    "the status": about_claim(CLAIM, subResource="status"),
    "a Pod": about_pod(CLAIM),
    "another kind of the group": about_claim({**CLAIM, "kind": "ResourceSlice"}),
    "an older version": about_claim(
        CLAIM, kind={"group": "resource.k8s.io", "version": "v1beta1", "kind": "ResourceClaim"}
    ),
    "no object": about_claim(CLAIM, object=None),
    "an object without a spec": about_claim(CLAIM, object={"metadata": {}}),
}


@pytest.mark.parametrize("request_", UNTOUCHED.values(), ids=UNTOUCHED)
def test_what_is_not_the_creation_of_a_claim_is_allowed_as_it_is(handler: ClaimHandler, request_: Object) -> None:
    assert handler(request_) == ALLOWED


def test_no_claim_is_changed_before_the_caches_are_filled(gatherer: Gatherer, metrics: Metrics) -> None:
    gatherer.rules.replace([RULE])
    gatherer.lookup.classes.synced.clear()
    assert ClaimHandler(DeviceTolerations(gatherer, metrics, kept=lambda: True))(about_claim(CLAIM)) == ALLOWED
