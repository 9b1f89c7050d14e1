"""How a claim names its workload, and what is read of it."""

from typing import Any

import pytest
from objects.builders import Built, claim

from tollbar.model.objects import Key, Object
from tollbar.model.workloads import (
    Intent,
    Malformed,
    Reference,
    claim_named_by,
    intent_of,
    parse_reference,
    pod_spec,
    pods_at_once,
)

FORM = Malformed("must be <resource>.<group>/<name>, such as deployments.apps/web")
REFERENCES = {
    "deployments.apps/web": Reference("apps", "deployments", "web"),
    "jobsets.jobset.x-k8s.io/train.1": Reference("jobset.x-k8s.io", "jobsets", "train.1"),
    "replicationcontrollers/web": Reference("", "replicationcontrollers", "web"),
    "": FORM,
    "web": FORM,
    "/web": FORM,
    "deployments.apps/": FORM,
    ".apps/web": FORM,
}


@pytest.mark.parametrize(("given", "want"), REFERENCES.items(), ids=REFERENCES)
def test_references(given: str, want: Reference | Malformed) -> None:
    assert parse_reference(given) == want


@pytest.mark.parametrize("given", ["Deployments.apps/web", "deployments.Apps/web", "deployments.apps/Web", "a.b/c/d"])
def test_a_reference_with_an_invalid_name_is_malformed_and_the_name_is_given(given: str) -> None:
    found = parse_reference(given)
    assert isinstance(found, Malformed)
    assert found.why.partition(" ")[0] in ("resource", "group", "name")


@pytest.mark.parametrize("text", [text for text, want in REFERENCES.items() if isinstance(want, Reference)])
def test_a_reference_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_reference(text)) == text


def test_entries() -> None:
    assert (Reference("apps", "deployments", "web").entry("u"), Reference("", "pods", "web").entry("u")) == (
        {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "u"},
        {"resource": "pods", "name": "web", "uid": "u"},
    )


def test_a_claim_without_annotations_has_no_workload() -> None:
    assert intent_of(claim().annotated({"tollbar.dev/release": "WhenIdle"})) is None


def test_the_default_release_is_when_the_workload_is_deleted() -> None:
    named = claim().annotated({"tollbar.dev/reserved-for": "deployments.apps/web"})
    web = Reference("apps", "deployments", "web")
    assert (intent_of(named), intent_of(named.annotated({"tollbar.dev/release": "WhenIdle"}))) == (
        Intent(web, "WhenDeleted"),
        Intent(web, "WhenIdle"),
    )


@pytest.mark.parametrize("text", ["pods/web", "podgroups.scheduling.k8s.io/gang"])
def test_a_pod_or_podgroup_is_no_workload(text: str) -> None:
    assert isinstance(intent_of(claim().annotated({"tollbar.dev/reserved-for": text})), Malformed)


NAMED: dict[str, tuple[Object, str]] = {
    "the claim that it names": ({"resourceClaimName": "shared"}, "shared"),
    "else the claim of its own name": ({}, "web"),
    "an empty name is none": ({"resourceClaimName": ""}, "web"),
}


@pytest.mark.parametrize(("given", "want"), NAMED.values(), ids=NAMED)
def test_the_claim_of_a_workload_claim(given: Object, want: str) -> None:
    assert claim_named_by({"metadata": {"namespace": "ml", "name": "web"}, "spec": given}) == Key("ml", want)


def surge(value: Any) -> Any:
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": value, "maxUnavailable": 0}}


AT_ONCE: dict[str, tuple[Object, int | None]] = {
    "replicas": ({"spec": {"replicas": 3}}, 3),
    "none": ({"spec": {"replicas": 0, "strategy": surge("25%")}}, 0),
    "and the surge of a rolling update": ({"spec": {"replicas": 3, "strategy": surge(2)}}, 5),
    "a percentage is rounded up": ({"spec": {"replicas": 5, "strategy": surge("25%")}}, 7),
    "Recreate": ({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}}, 3),
    "a Job": ({"spec": {"parallelism": 8}}, 8),
    "a Job that needs less": ({"spec": {"parallelism": 8, "completions": 3}}, 3),
    "a DaemonSet": ({"spec": {}, "status": {"desiredNumberScheduled": 7}}, 7),
    "a kind that does not say": ({"spec": {}}, None),
    "fields that mean something else": ({"spec": {"replicas": "3", "parallelism": True, "strategy": "fast"}}, None),
    "a surge that is no number": ({"spec": {"replicas": 3, "strategy": surge("9" * 5000 + "%")}}, 3),
    "a negative one": ({"spec": {"replicas": 3, "strategy": surge(-1)}}, 3),
}


@pytest.mark.parametrize(("given", "want"), AT_ONCE.values(), ids=AT_ONCE)
def test_how_many_pods_a_workload_has_at_once(given: Object, want: int | None) -> None:
    assert pods_at_once(given) == want


def test_the_template_of_its_pods() -> None:
    wanted = {"containers": []}
    given = [Built(spec={"template": {"spec": wanted}}), Built(spec={"template": "none"}), Built(spec={})]
    assert [pod_spec(each) for each in given] == [wanted, {}, {}]
