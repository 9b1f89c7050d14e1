"""ResourceClaims, templates and classes: names, requests, owners."""

from typing import Any

import pytest
from fakes.engine import Watched
from objects.builders import claim, device_class, pod, template

from tollbar.model import claims, pods
from tollbar.model.claims import Unresolved

RESOLVED: dict[str, tuple[Any, list[str | Unresolved]]] = {
    "no reference": (pod(), []),
    "by name": (pod().claims("gpu"), ["gpu"]),
    "from a template, not generated yet": (pod().templates("gpu"), [Unresolved.NOT_CREATED]),
    "from a template, generated": (pod().templates("gpu").generated("gpu", "web-gpu-x"), ["web-gpu-x"]),
    "from a template, another one generated": (pod().templates("gpu").generated("nic", "x"), [Unresolved.NOT_CREATED]),
    "from a template, none needed": (pod().templates("gpu").generated("gpu", None), [Unresolved.NOT_NEEDED]),
    "neither": (pod().but("spec.resourceClaims", [{"name": "gpu"}]), [Unresolved.UNSUPPORTED]),
    "several, in their order": (
        pod().templates("b", "a").claims("c").generated("a", "web-a-x").generated("b", "web-b-x"),
        ["web-b-x", "web-a-x", "c"],
    ),
}


@pytest.mark.parametrize(("given", "want"), RESOLVED.values(), ids=RESOLVED)
def test_resolved(given: Any, want: list[str | Unresolved]) -> None:
    references = pods.claim_references(given)
    assert list(claims.resolved(given)) == list(zip(references, want, strict=True))


def test_the_recorded_names_are_read_once_for_all_references() -> None:
    recorded = Watched({"name": f"c{i}", "resourceClaimName": f"web-c{i}-x"} for i in range(9))
    given = pod().templates(*(f"c{i}" for i in range(9))).but("status.resourceClaimStatuses", recorded)
    assert ([name for _, name in claims.resolved(given)], recorded.walks) == ([f"web-c{i}-x" for i in range(9)], 1)


CLASSES: dict[str, tuple[Any, list[str]]] = {
    "no requests": (claim(), []),
    "no devices member": (claim().but("spec.devices", {}), []),
    "exactly": (claim().request("gpu"), ["gpu"]),
    "the first available of two": (
        claim().request("big", "small"),
        ["big", "small"],
    ),
    "several requests": (
        claim().request("gpu").request("nic"),
        ["gpu", "nic"],
    ),
}


@pytest.mark.parametrize(("given", "want"), CLASSES.values(), ids=CLASSES)
def test_device_classes(given: Any, want: list[str]) -> None:
    assert list(claims.device_classes(given)) == want


def test_a_template_holds_the_spec_of_its_claims() -> None:
    assert claims.template_claim_spec(template().request("gpu")) == claim().request("gpu")["spec"]


OWNED: dict[str, tuple[Any, bool]] = {
    "nobody's": (claim(), False),
    "this Pod's": (claim().generated_for(pod()), True),
    "of the Pod that had the name before": (claim().owned_by("Pod", "web", uid="old"), False),
    "of something else with that uid": (claim().owned_by("Job", "web", uid="uid-of-web"), False),
}


@pytest.mark.parametrize(("given", "want"), OWNED.values(), ids=OWNED)
def test_owner(given: Any, want: bool) -> None:
    assert claims.owned_by_pod(given, pod()) is want


BACKED: dict[str, tuple[Any, Any]] = {
    "an implicit name": (claims.implicit_class("deviceclass.resource.kubernetes.io/gpu"), "gpu"),
    "another name": (claims.implicit_class("example.com/gpu"), None),
    "a class that backs one": (
        claims.extended_resource_of(device_class().backing("example.com/gpu")),
        "example.com/gpu",
    ),
    "a class that backs none": (claims.extended_resource_of(device_class()), None),
}


@pytest.mark.parametrize(("given", "want"), BACKED.values(), ids=BACKED)
def test_extended_resources_and_classes(given: Any, want: Any) -> None:
    assert given == want


USED: dict[str, tuple[Any, set[str]]] = {
    "none": (pod(), set()),
    "by name, and from a template": (pod().claims("a").templates("t").generated("t", "web-t-x"), {"a", "web-t-x"}),
    "what is not made yet or not needed has no name": (pod().templates("t", "u").generated("u", None), set()),
    "for extended resources": (pod().for_extended_resources("web-extended-resources-x"), {"web-extended-resources-x"}),
}


@pytest.mark.parametrize(("given", "want"), USED.values(), ids=USED)
def test_names_of(given: Any, want: set[str]) -> None:
    assert (claims.names_of(given), pods.uses_claims(given)) == (want, bool(want) or "resourceClaims" in given["spec"])


GANG = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "g"}
DEPLOYMENT = {"apiGroup": "apps", "resource": "deployments", "name": "web", "uid": "d"}
RESERVED: dict[str, tuple[Any, Any, bool]] = {
    "by nobody": (claim(), pod(), False),
    "by the Pod": (claim().reserved(DEPLOYMENT, claims.pod_entry(pod())), pod(), True),
    "by a Pod of the same name": (claim().reserved({**claims.pod_entry(pod()), "uid": "old"}), pod(), False),
    "by its PodGroup, whatever the uid": (claim().reserved(GANG), pod().in_group("gang"), True),
    "by another PodGroup": (claim().reserved(GANG), pod().in_group("other"), False),
    "by a PodGroup that it is not in": (claim().reserved(GANG), pod(), False),
}


@pytest.mark.parametrize(("given", "user", "want"), RESERVED.values(), ids=RESERVED)
def test_is_reserved_for(given: Any, user: Any, want: bool) -> None:
    assert claims.is_reserved_for(given, user) is want


def test_admin_access_counts_in_a_request_only() -> None:
    asking = claim().but("spec.devices.requests", [{"name": "a", "exactly": {"adminAccess": True}}])
    assert (claims.has_admin_access(asking), claims.has_admin_access(claim().request("a", "b"))) == (True, False)
