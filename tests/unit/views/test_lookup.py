"""The questions that decisions ask about other objects, answered from stores."""

import pytest
from objects.builders import CREATED, claim, device_class, namespace, pod, pod_group, template

from tollbar.model.objects import Key, Object
from tollbar.views.lookup import ClaimLookup, PackageLookup

RESOURCE = "example.com/gpu"


def lookup(*objects: Object) -> PackageLookup:
    return PackageLookup.of(objects)


OLD, NEW, SAME = (
    device_class("c-old").backing(RESOURCE),
    device_class("b-new").backing(RESOURCE).created(CREATED + 1),
    device_class("a-same").backing(RESOURCE).created(CREATED + 1),
)

BACKING: dict[str, tuple[PackageLookup, str, str | None]] = {
    "no class": (lookup(device_class()), RESOURCE, None),
    "one class": (lookup(OLD, device_class()), RESOURCE, "c-old"),
    "of two, the one created last": (lookup(OLD, NEW), RESOURCE, "b-new"),
    "of two created at once, the first by name": (lookup(NEW, SAME, OLD), RESOURCE, "a-same"),
    "by an implicit name": (lookup(OLD), "deviceclass.resource.kubernetes.io/c-old", "c-old"),
    "by the implicit name of none": (lookup(OLD), "deviceclass.resource.kubernetes.io/x", None),
}


@pytest.mark.parametrize(("given", "resource", "want"), BACKING.values(), ids=BACKING)
def test_class_for_extended_resource(given: PackageLookup, resource: str, want: str | None) -> None:
    found = given.class_for_extended_resource(resource)
    assert (found and found["metadata"]["name"]) == want


def test_what_is_looked_up_is_what_is_kept() -> None:
    given = lookup(
        claim().but("status", {"allocation": {}}),
        template(),
        device_class().but("metadata.managedFields", [{}]),
        namespace().but("spec", {"finalizers": ["kubernetes"]}),
    )
    assert [
        given.claim(Key("ml", "gpu")),
        given.template(Key("ml", "gpu")),
        given.device_class("gpu"),
        given.namespace("ml"),
        given.claim(Key("ml", "x")),
    ] == [
        {"metadata": claim()["metadata"], "spec": {}},
        {"metadata": template()["metadata"], "spec": {"spec": {}}},
        {"metadata": device_class()["metadata"], "spec": {}},
        {"metadata": namespace()["metadata"]},
        None,
    ]


WEB = pod().templates("gpu")
MADE = claim("web-gpu-x").generated_for(WEB, "gpu")


def test_what_decisions_about_claims_ask() -> None:
    given = ClaimLookup.of([WEB, MADE, claim("other"), template("gpu"), pod_group("gang"), pod("without-claims")])
    key = Key("ml", "web")
    found = (given.claim(Key("ml", "web-gpu-x")), given.template(Key("ml", "gpu")), given.pod_group(Key("ml", "gang")))
    assert (
        [(each or {})["metadata"]["name"] for each in (*found, given.pod(key))],
        [each["metadata"]["name"] for each in given.claims_owned_by("uid-of-web")],
        given.pod(Key("ml", "without-claims")),
    ) == (["web-gpu-x", "gpu", "gang", "web"], ["web-gpu-x"], None)


def test_a_consumer_is_known_to_be_gone_after_its_deleted_event() -> None:
    given = ClaimLookup.of([WEB, pod_group("gang")])
    given.consumers.remove(WEB)
    given.pod_groups.remove(pod_group("gang"))
    uids = [WEB["metadata"]["uid"], pod_group("gang")["metadata"]["uid"], "another"]
    assert [given.is_gone(uid) for uid in uids] == [True, True, False]
