"""What a Pod's package holds, lacks, and leaves unknown."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from objects.builders import Claim, Pod, claim, device_class, namespace, pod, template

from tollbar.decide.pods import package
from tollbar.decide.pods.package import Missing, Package
from tollbar.model.objects import Key, Object
from tollbar.views import kinds
from tollbar.views.lookup import PackageLookup, filled

ML = namespace()
GPU = device_class("gpu")
RESOURCE = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"

HUGE_NOTE = {"example.com/note": "x" * kinds.MOST_BYTES}
HUGE = claim("gpu").request("gpu").annotated(HUGE_NOTE)

OF_A_STAND_IN = frozenset(
    f"claims.metadata.{member}"
    for member in (
        "creationTimestamp",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "name",
        "ownerReferences",
        "resourceVersion",
        "uid",
    )
)
OF_A_NEW_POD = frozenset(
    {
        "pod.metadata.creationTimestamp",
        "pod.metadata.generation",
        "pod.metadata.managedFields",
        "pod.metadata.resourceVersion",
        "pod.metadata.uid",
        "pod.spec.nodeName",
        "pod.status",
    }
)


def assembled(pod_: Object, *objects: Object, at_admission: bool = False) -> Package:
    """From stores that keep claims with their status, for others who read them."""
    stores = filled(objects, (*PackageLookup.KINDS, kinds.CLAIMS_WITH_STATUS))
    return package.assemble(pod_, PackageLookup(stores), at_admission=at_admission)


def of(pod_: Object, *objects: Object, at_admission: bool = False) -> Callable[[], Package]:
    """In the test, not when the table is read."""
    return partial(assembled, pod_, *objects, at_admission=at_admission)


def of_few(pod_: Object, *objects: Object) -> Callable[[], Package]:
    """From stores that keep of claims and templates what packages need alone."""
    return lambda: package.assemble(pod_, PackageLookup.of(objects))


def stand_in(reference: str = "gpu", *, annotations: dict[str, str] | None = None, **metadata: Any) -> Object:
    annotations = {**(annotations or {}), "resource.kubernetes.io/pod-claim-name": reference}
    meta = {"namespace": "ml", **metadata, "annotations": annotations}
    return {"metadata": meta, "spec": claim().request("gpu")["spec"]}


def virtual(*requests: tuple[str, str, int]) -> Object:
    """The claim that kube-scheduler will create: (name, class, count)."""
    return {
        "metadata": {"namespace": "ml", "name": "<extended-resources>"},
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": name,
                        "exactly": {"deviceClassName": class_, "allocationMode": "ExactCount", "count": count},
                    }
                    for name, class_, count in requests
                ]
            }
        },
    }


def pending(name: str) -> tuple[Missing, ...]:
    return (Missing("ResourceClaim", f"from template {name}"),)


P = pod()
BY_NAME = pod().claims("gpu")
FROM_TEMPLATE = pod().templates("gpu")
GENERATED = FROM_TEMPLATE.generated("gpu", "web-gpu-x")
CLAIM = claim("gpu").request("gpu")
TEMPLATE = template("gpu").request("gpu")
OWN = claim("web-gpu-x").request("gpu").generated_for(P)


def referring(*names: str, **more: str) -> Pod:
    """By name; or in the entry of that name to a template."""
    references = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(names)]
    stand_ins = [{"name": entry, "resourceClaimTemplateName": name} for entry, name in more.items()]
    return P.but("spec.resourceClaims", [*references, *stand_ins])


def asking(kinds: int) -> Claim:
    """A claim with so many requests of the class, one of them with a choice of two."""
    exactly = [{"name": f"r{i}", "exactly": {"deviceClassName": "gpu"}} for i in range(kinds - 2)]
    return CLAIM.but(
        "spec.devices.requests", [{"name": "r", "firstAvailable": [{"deviceClassName": "gpu"}] * 2}, *exactly]
    )


ANNOTATED = {f"a{i}": "" for i in range(500)}
RESOURCES = {f"example.com/{i}": "1" for i in range(1024)}
NEARLY = referring(*["gpu"] * 1020).wants({"cpu": "1", "memory": "1"}).wants({"cpu": "1", "memory": "1"})

TABLE: dict[str, tuple[Callable[[], Package], Package]] = {
    "a plain Pod": (of(P, ML), Package(P, ML)),
    "an unknown namespace": (of(P), Package(P, missing=(Missing("Namespace", "ml"),))),
    "a claim by name": (of(BY_NAME, ML, CLAIM, GPU), Package(BY_NAME, ML, (CLAIM,), {"gpu": GPU})),
    "nothing that only some caches keep": (
        of(
            BY_NAME,
            ML.but("status", {"phase": "Active"}).but("metadata.managedFields", [{}]).but("spec.finalizers", ["k"]),
            CLAIM.but("status", {"allocation": {}}).but("metadata.managedFields", [{}]),
            GPU.but("metadata.managedFields", [{}]),
        ),
        Package(BY_NAME, ML, (CLAIM,), {"gpu": GPU}),
    ),
    "a claim that several references name": (
        of(referring("gpu", "gpu", "gpu"), ML, CLAIM, GPU),
        Package(referring("gpu", "gpu", "gpu"), ML, (CLAIM,), {"gpu": GPU}),
    ),
    "a generated claim that another reference names": (
        of(GENERATED.claims("web-gpu-x"), ML, GPU, OWN),
        Package(GENERATED.claims("web-gpu-x"), ML, (OWN,), {"gpu": GPU}),
    ),
    "a template that several references name makes a claim for each": (
        of(referring(a="gpu", b="gpu"), ML, GPU, TEMPLATE),
        Package(
            referring(a="gpu", b="gpu"),
            ML,
            (stand_in("a"), stand_in("b")),
            {"gpu": GPU},
            pending=pending("gpu"),
            unknown=OF_A_STAND_IN,
        ),
    ),
    "as many references and resources as there may be": (
        of(NEARLY, ML, CLAIM, GPU),
        Package(NEARLY, ML, (CLAIM,), {"gpu": GPU}),
    ),
    "one reference more is too large": (
        of(NEARLY.claims("gpu"), ML, CLAIM, GPU),
        Package(NEARLY.claims("gpu"), ML, too_large=True),
    ),
    "one resource more is too large": (
        of(NEARLY.wants({"cpu": "1"}, init=True, member="limits"), ML, CLAIM, GPU),
        Package(NEARLY.wants({"cpu": "1"}, init=True, member="limits"), ML, too_large=True),
    ),
    "as many extended resources": (
        of(P.wants(RESOURCES), ML),
        Package(P.wants(RESOURCES), ML),
    ),
    "one extended resource more is too large": (
        of(P.wants({**RESOURCES, "example.com/more": "0"}), ML),
        Package(P.wants({**RESOURCES, "example.com/more": "0"}), ML, too_large=True),
    ),
    "claims that want as much as they may, however often they are named": (
        of(referring("gpu", "gpu"), ML, GPU, asking(1023)),
        Package(referring("gpu", "gpu"), ML, (asking(1023),), {"gpu": GPU}),
    ),
    "claims with one request more are too large": (
        of(referring("gpu", "gpu"), ML, GPU, asking(1024)),
        Package(referring("gpu", "gpu"), ML, too_large=True),
    ),
    "nothing is missing of what is too large, but the namespace": (
        of(referring("gone", "gpu", "gone too"), asking(1024)),
        Package(referring("gone", "gpu", "gone too"), missing=(Missing("Namespace", "ml"),), too_large=True),
    ),
    "claims to come are made of labels and annotations, too": (
        of(referring(a="gpu", b="gpu", c="gpu"), ML, GPU, TEMPLATE.giving(None, ANNOTATED)),
        Package(referring(a="gpu", b="gpu", c="gpu"), ML, too_large=True),
    ),
    "a claim of which there is only a stub": (
        of(BY_NAME, ML, GPU, HUGE),
        Package(BY_NAME, ML, too_large=True),
    ),
    "a claim of which there is only a stub, for those who read no status": (
        of_few(BY_NAME, ML, GPU, HUGE),
        Package(BY_NAME, ML, too_large=True),
    ),
    "a template of which there is only a stub": (
        of_few(pod().templates("gpu"), ML, GPU, template("gpu").request("gpu").annotated(HUGE_NOTE)),
        Package(pod().templates("gpu"), ML, too_large=True),
    ),
    "at admission, what is too large has no status either": (
        of(NEARLY.claims("gpu").being_created(), ML, at_admission=True),
        Package(NEARLY.claims("gpu").being_created(), ML, unknown=OF_A_NEW_POD, too_large=True),
    ),
    "a claim by name that does not exist": (
        of(BY_NAME, ML, GPU),
        Package(BY_NAME, ML, missing=(Missing("ResourceClaim", "gpu"),)),
    ),
    "a claim of that name elsewhere": (
        of(BY_NAME, ML, GPU, claim("gpu", "other").request("gpu")),
        Package(BY_NAME, ML, missing=(Missing("ResourceClaim", "gpu"),)),
    ),
    "a class that does not exist": (
        of(BY_NAME, ML, CLAIM),
        Package(BY_NAME, ML, (CLAIM,), missing=(Missing("DeviceClass", "gpu"),)),
    ),
    "one missing class of several alternatives": (
        of(BY_NAME, ML, GPU, claim("gpu").request("gpu", "tpu")),
        Package(BY_NAME, ML, (claim("gpu").request("gpu", "tpu"),), {"gpu": GPU}, (Missing("DeviceClass", "tpu"),)),
    ),
    "everything is missing, once each and in order": (
        of(pod().claims("b", "a").templates("t").claims("b")),
        Package(
            pod().claims("b", "a").templates("t").claims("b"),
            missing=(
                Missing("ResourceClaim", "b"),
                Missing("ResourceClaim", "a"),
                Missing("ResourceClaimTemplate", "t"),
                Missing("Namespace", "ml"),
            ),
        ),
    ),
    "a template stands in for the claim to come": (
        of(FROM_TEMPLATE, ML, GPU, TEMPLATE),
        Package(FROM_TEMPLATE, ML, (stand_in(),), {"gpu": GPU}, pending=pending("gpu"), unknown=OF_A_STAND_IN),
    ),
    "with the labels and annotations that the template gives": (
        of(FROM_TEMPLATE, ML, GPU, TEMPLATE.giving({"a": "b"}, {"c": "d"})),
        Package(
            FROM_TEMPLATE,
            ML,
            (stand_in(labels={"a": "b"}, annotations={"c": "d"}),),
            {"gpu": GPU},
            pending=pending("gpu"),
            unknown=OF_A_STAND_IN,
        ),
    ),
    "a template that does not exist": (
        of(FROM_TEMPLATE, ML, GPU),
        Package(FROM_TEMPLATE, ML, missing=(Missing("ResourceClaimTemplate", "gpu"),)),
    ),
    "the generated claim": (of(GENERATED, ML, GPU, OWN), Package(GENERATED, ML, (OWN,), {"gpu": GPU})),
    "a generated claim that the cache does not have yet": (
        of(GENERATED, ML, GPU, TEMPLATE),
        Package(GENERATED, ML, (stand_in(),), {"gpu": GPU}, pending=pending("gpu"), unknown=OF_A_STAND_IN),
    ),
    "a claim of that name which is not this Pod's": (
        of(GENERATED, ML, GPU, TEMPLATE, claim("web-gpu-x").request("other").owned_by("Pod", "web", uid="old")),
        Package(GENERATED, ML, (stand_in(),), {"gpu": GPU}, pending=pending("gpu"), unknown=OF_A_STAND_IN),
    ),
    "a template reference that needs no claim": (
        of(FROM_TEMPLATE.generated("gpu", None), ML, TEMPLATE),
        Package(FROM_TEMPLATE.generated("gpu", None), ML),
    ),
    "a reference to neither": (
        of(P.but("spec.resourceClaims", [{"name": "gpu"}]), ML),
        Package(
            P.but("spec.resourceClaims", [{"name": "gpu"}]),
            ML,
            missing=(
                Missing("ResourceClaim", "for gpu: neither resourceClaimName nor resourceClaimTemplateName is set"),
            ),
        ),
    ),
    "an extended resource that no class backs": (
        of(P.wants({RESOURCE: "1"}), ML, GPU),
        Package(P.wants({RESOURCE: "1"}), ML),
    ),
    "an extended resource that a class backs": (
        of(P.wants({RESOURCE: "2"}), ML, GPU.backing(RESOURCE)),
        Package(
            P.wants({RESOURCE: "2"}),
            ML,
            (virtual(("container-1-request-0", "gpu", 2)),),
            {"gpu": GPU.backing(RESOURCE)},
        ),
    ),
    "a class by its implicit resource name": (
        of(P.wants({IMPLICIT: "1"}), ML, GPU),
        Package(P.wants({IMPLICIT: "1"}), ML, (virtual(("container-1-request-0", "gpu", 1)),), {"gpu": GPU}),
    ),
    "an implicit resource name of no class": (
        of(P.wants({IMPLICIT: "1"}), ML),
        Package(
            P.wants({IMPLICIT: "1"}),
            ML,
            (virtual(("container-1-request-0", "gpu", 1)),),
            missing=(Missing("DeviceClass", "gpu"),),
        ),
    ),
    "quantity 0 is no request": (
        of(P.wants({RESOURCE: "0"}), ML, GPU.backing(RESOURCE)),
        Package(P.wants({RESOURCE: "0"}), ML),
    ),
    "one request per container and resource, init containers first, next to claims": (
        of(
            BY_NAME.wants({RESOURCE: "1", "cpu": "1"}, member="limits").wants({IMPLICIT: "2"}, init=True),
            ML,
            CLAIM,
            GPU.backing(RESOURCE),
        ),
        Package(
            BY_NAME.wants({RESOURCE: "1", "cpu": "1"}, member="limits").wants({IMPLICIT: "2"}, init=True),
            ML,
            (CLAIM, virtual(("container-0-request-0", "gpu", 2), ("container-2-request-1", "gpu", 1))),
            {"gpu": GPU.backing(RESOURCE)},
        ),
    ),
    "at admission, what the API server adds is unknown": (
        of(P.being_created(), ML, at_admission=True),
        Package(P.being_created(), ML, unknown=OF_A_NEW_POD),
    ),
    "at admission with generateName, so is the name": (
        of(P.being_created(generate_name=True), ML, at_admission=True),
        Package(P.being_created(generate_name=True), ML, unknown=OF_A_NEW_POD | {"pod.metadata.name"}),
    ),
    "at admission, a status that a client sent does not count": (
        of(FROM_TEMPLATE.generated("gpu", None).being_created(), ML, GPU, TEMPLATE, at_admission=True),
        Package(
            FROM_TEMPLATE.being_created(),
            ML,
            (stand_in(),),
            {"gpu": GPU},
            pending=pending("gpu"),
            unknown=OF_A_NEW_POD | OF_A_STAND_IN,
        ),
    ),
}


def seen(want: Package) -> Package:
    """The rows name objects; a package has the metadata and the spec of them, and the metadata of its namespace."""
    both = ("metadata", "spec")
    return replace(
        want,
        namespace=want.namespace and {"metadata": want.namespace["metadata"]},
        claims=tuple({member: each[member] for member in both} for each in want.claims),
        classes={name: {member: each[member] for member in both} for name, each in want.classes.items()},
    )


@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_assemble(given: Callable[[], Package], want: Package) -> None:
    assert given() == seen(want)


class CountingLookup(PackageLookup):
    """How many claims somebody asked for."""

    asked = 0

    def claim(self, key: Key) -> Object | None:
        self.asked += 1
        return super().claim(key)


ASKED: dict[str, tuple[Pod, int]] = {
    "as many claims as there may be": (referring(*["gpu"] * 1024), 1024),
    "too many": (referring(*["gpu"] * 1025), 0),
    "far too many": (referring(*["gpu"] * 20_000), 0),
}


@pytest.mark.parametrize(("given", "want"), ASKED.values(), ids=ASKED)
def test_nothing_is_asked_for_a_package_that_is_too_large(given: Pod, want: int) -> None:
    lookup = CountingLookup.of((ML, CLAIM, GPU))
    package.assemble(given, lookup)
    assert lookup.asked == want


def test_the_stand_in_is_the_generated_claim_but_for_the_unknown_members() -> None:
    generated = OWN.labelled(a="b").annotated({"c": "d", "resource.kubernetes.io/pod-claim-name": "gpu"})
    known = {
        "metadata": {
            member: value
            for member, value in generated["metadata"].items()
            if f"claims.metadata.{member}" not in OF_A_STAND_IN
        },
        "spec": generated["spec"],
    }
    assert assembled(FROM_TEMPLATE, ML, GPU, TEMPLATE.giving({"a": "b"}, {"c": "d"})).claims == (known,)


def test_a_reference_that_needs_no_claim_hides_none_behind_it() -> None:
    references = [{"name": "none", "resourceClaimTemplateName": "t"}, {"name": "c", "resourceClaimName": "c"}]
    found = assembled(pod().but("spec.resourceClaims", references).generated("none", None), claim("c"))
    assert [each["metadata"]["name"] for each in found.claims] == ["c"]


def test_of_a_namespace_rules_see_the_metadata_alone() -> None:
    found = assembled(pod(), namespace().but("spec", {"finalizers": ["kubernetes"]}))
    assert list(found.namespace or {}) == ["metadata"]
