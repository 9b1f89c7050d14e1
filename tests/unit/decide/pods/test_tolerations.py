"""Which tolerations a Pod lacks, and the patch that writes them."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from fakes.engine import expression, rule
from objects.builders import Pod, pod, toleration

from tollbar import wellknown
from tollbar.decide.pods import tolerations
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import Rule
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object

ALWAYS = expression(lambda _: True, "pod.spec")
GPU = toleration("example.com/gpu")
NIC = toleration("example.com/nic")
EQUAL = {"key": "example.com/gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
IMPLICIT = {"key": "example.com/gpu", "value": "a", "effect": "NoSchedule"}
BRIEF = toleration("example.com/gpu", effect="NoExecute", tolerationSeconds=60)
LONG = toleration("example.com/gpu", effect="NoExecute")


def giving(name: str, *given: Object) -> Rule:
    return rule(name, ALWAYS, tolerations=given)


LACKING: dict[str, tuple[Pod, list[Rule], tuple[Addition, ...]]] = {
    "no rules": (pod(), [], ()),
    "a rule's tolerations, in its order": (
        pod(),
        [giving("gpu", NIC, GPU)],
        (Addition("gpu", 1, (NIC, GPU)),),
    ),
    "rules by name": (
        pod(),
        [giving("nic", NIC), giving("gpu", GPU)],
        (Addition("gpu", 1, (GPU,)), Addition("nic", 1, (NIC,))),
    ),
    "each toleration once, for the first rule by name": (
        pod(),
        [giving("b", GPU, NIC), giving("a", GPU)],
        (Addition("a", 1, (GPU,)), Addition("b", 1, (NIC,))),
    ),
    "once also within one rule": (pod(), [giving("a", GPU, GPU)], (Addition("a", 1, (GPU,)),)),
    "what the author wrote is there": (pod().tolerating(GPU), [giving("gpu", GPU)], ()),
    "an empty operator is Equal": (pod().tolerating(IMPLICIT), [giving("gpu", EQUAL)], ()),
    "Equal is an empty operator": (pod().tolerating(EQUAL), [giving("gpu", IMPLICIT)], ()),
    "an empty value is an absent one": (pod().tolerating({**GPU, "value": ""}), [giving("gpu", GPU)], ()),
    "another operator is another toleration": (
        pod().tolerating(EQUAL),
        [giving("gpu", GPU)],
        (Addition("gpu", 1, (GPU,)),),
    ),
    "another effect is another toleration": (
        pod().tolerating({**GPU, "effect": "NoExecute"}),
        [giving("gpu", GPU)],
        (Addition("gpu", 1, (GPU,)),),
    ),
    "other seconds are another toleration": (
        pod().tolerating(BRIEF),
        [giving("gpu", LONG)],
        (Addition("gpu", 1, (LONG,)),),
    ),
}


@pytest.mark.parametrize(("given", "rules", "want"), LACKING.values(), ids=LACKING)
def test_additions(given: Pod, rules: list[Rule], want: tuple[Addition, ...]) -> None:
    assert tolerations.additions_for(given, rules) == want


def record(*entries: Object) -> str:
    return json.dumps(entries, separators=(",", ":"))


ENTRY = {"rule": "gpu", "generation": 1, "added": [GPU], "via": "gate"}
RECORD = record(ENTRY)
EARLIER = {"rule": "nic", "generation": 7, "added": [NIC], "via": "admission"}
ADDITION = (Addition("gpu", 1, (GPU,)),)
TEST_UID = {"op": "test", "path": "/metadata/uid", "value": "uid-of-web"}
TEST_GATE = {"op": "test", "path": "/spec/schedulingGates/0/name", "value": wellknown.GATE}
REMOVE_GATE = {"op": "remove", "path": "/spec/schedulingGates/0"}
LABEL = {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "released"}
NO_ANNOTATIONS = {"op": "test", "path": "/metadata/annotations", "value": None}
FIRST_ANNOTATION = {"op": "add", "path": "/metadata/annotations", "value": {"tollbar.dev/tolerations": RECORD}}
ANNOTATION = {"op": "add", "path": "/metadata/annotations/tollbar.dev~1tolerations", "value": RECORD}
APPEND = {"op": "add", "path": "/spec/tolerations/-", "value": GPU}
NO_TOLERATIONS = {"op": "test", "path": "/spec/tolerations", "value": None}
ONLY_NIC = {"op": "test", "path": "/spec/tolerations", "value": [NIC]}
FIRST_TOLERATION = {"op": "add", "path": "/spec/tolerations", "value": [GPU]}

FULL = "x" * (256 * 1024 - len("a") - len("tollbar.dev/tolerations") - len(RECORD))


def patching(*given: Any, **more: Any) -> Callable[[], Patch]:
    """tolerations.patch(), in the test and not when the table is read."""
    return partial(tolerations.patch, *given, **more)


PATCHES: dict[str, tuple[Callable[[], Patch], tuple[Object, ...]]] = {
    "nothing to do": (patching(pod(), (), via="late", gate="keep", fenced=True), ()),
    "release a Pod that lacks nothing": (
        patching(pod().gated(), (), via="gate", gate="remove", fenced=True),
        (TEST_UID, TEST_GATE, REMOVE_GATE, LABEL),
    ),
    "release it with a toleration": (
        patching(pod().gated().tolerating(NIC), ADDITION, via="gate", gate="remove", fenced=True),
        (TEST_UID, TEST_GATE, REMOVE_GATE, LABEL, ONLY_NIC, APPEND, NO_ANNOTATIONS, FIRST_ANNOTATION),
    ),
    "our gate among others": (
        patching(pod().gated("a.dev/x", wellknown.GATE), (), via="gate", gate="remove", fenced=True),
        (
            TEST_UID,
            {**TEST_GATE, "path": "/spec/schedulingGates/1/name"},
            {**REMOVE_GATE, "path": "/spec/schedulingGates/1"},
            LABEL,
        ),
    ),
    "release a Pod without labels": (
        patching(pod().gated().but("metadata.labels", None), (), via="gate", gate="remove", fenced=True),
        (
            TEST_UID,
            TEST_GATE,
            REMOVE_GATE,
            {"op": "test", "path": "/metadata/labels", "value": None},
            {"op": "add", "path": "/metadata/labels", "value": {"tollbar.dev/gate": "released"}},
        ),
    ),
    "add to a Pod without tolerations or annotations": (
        patching(pod(), ADDITION, via="gate", gate="keep", fenced=True),
        (TEST_UID, NO_TOLERATIONS, FIRST_TOLERATION, NO_ANNOTATIONS, FIRST_ANNOTATION),
    ),
    "add to a Pod with both": (
        patching(pod().tolerating(NIC).annotated({"a": "b"}), ADDITION, via="gate", gate="keep", fenced=True),
        (TEST_UID, ONLY_NIC, APPEND, ANNOTATION),
    ),
    "at admission nothing is tested": (
        patching(pod(), ADDITION, via="gate", gate="keep", fenced=False),
        (FIRST_TOLERATION, FIRST_ANNOTATION),
    ),
    "gate a Pod": (
        patching(pod(), (), via="admission", gate="add", fenced=False),
        (
            {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": wellknown.GATE}]},
            {"op": "add", "path": "/metadata/labels", "value": {"tollbar.dev/gate": "held"}},
        ),
    ),
    "gate a Pod with labels and other gates": (
        patching(pod().gated("a.dev/x").labelled(app="web"), (), via="admission", gate="add", fenced=False),
        (
            {"op": "add", "path": "/spec/schedulingGates/-", "value": {"name": wellknown.GATE}},
            {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "held"},
        ),
    ),
    "gate a Pod that has the gate": (
        patching(pod().gated(), (), via="admission", gate="add", fenced=False),
        (),
    ),
    "the record is continued": (
        patching(
            pod().tolerating(NIC).annotated({"tollbar.dev/tolerations": record(EARLIER)}),
            ADDITION,
            via="gate",
            gate="keep",
            fenced=True,
        ),
        (TEST_UID, ONLY_NIC, APPEND, {**ANNOTATION, "value": record(EARLIER, ENTRY)}),
    ),
    "what is not a record is replaced": (
        patching(
            pod().tolerating(NIC).annotated({"tollbar.dev/tolerations": "mine"}),
            ADDITION,
            via="gate",
            gate="keep",
            fenced=True,
        ),
        (TEST_UID, ONLY_NIC, APPEND, ANNOTATION),
    ),
    "a record that just fits": (
        patching(pod().tolerating(NIC).annotated({"a": FULL}), ADDITION, via="gate", gate="keep", fenced=True),
        (TEST_UID, ONLY_NIC, APPEND, ANNOTATION),
    ),
    "a record that would make the Pod invalid is left out": (
        patching(pod().tolerating(NIC).annotated({"a": FULL + "x"}), ADDITION, via="gate", gate="keep", fenced=True),
        (TEST_UID, ONLY_NIC, APPEND),
    ),
    "bytes count, not characters": (
        patching(
            pod().tolerating(NIC).annotated({"a": FULL[:-1] + "é"}), ADDITION, via="gate", gate="keep", fenced=True
        ),
        (TEST_UID, ONLY_NIC, APPEND),
    ),
}


@pytest.mark.parametrize(("given", "want"), PATCHES.values(), ids=PATCHES)
def test_patch(given: Callable[[], Patch], want: tuple[Object, ...]) -> None:
    assert given() == want


ENTRY = {"rule": "a", "generation": 1, "added": [{"key": "a.dev/x", "operator": "Exists"}], "via": "gate"}


def recorded(*entries: Any) -> dict[str, str]:
    return {"tollbar.dev/tolerations": json.dumps(entries)}


RECORDS: dict[str, tuple[Any, list[Any]]] = {
    "none": ({}, []),
    "an empty text": ({"tollbar.dev/tolerations": ""}, []),
    "not JSON": ({"tollbar.dev/tolerations": "{"}, []),
    "not a list": ({"tollbar.dev/tolerations": "{}"}, []),
    "a number": ({"tollbar.dev/tolerations": "5"}, []),
    "entries": (recorded(ENTRY, ENTRY), [ENTRY, ENTRY]),
    "entries that are none": (recorded(1, None, {}, {"rule": "a"}, ENTRY), [ENTRY]),
    "a rule that is a list": (recorded({**ENTRY, "rule": ["a"]}), []),
    "no generation": (recorded({**ENTRY, "generation": None}), []),
    "no via": (recorded({**ENTRY, "via": None}), []),
    "tolerations that are no list": (recorded({**ENTRY, "added": 5}), []),
    "a toleration that is a number": (recorded({"added": [5]}, {**ENTRY, "added": [5]}), []),
    "a toleration that the API server refuses": (recorded({**ENTRY, "added": [{"key": []}]}), []),
    "nested beyond reason": ({"tollbar.dev/tolerations": "[" * 200_000}, []),
    "a number beyond reason": ({"tollbar.dev/tolerations": "[" + "9" * 10_000 + "]"}, []),
}


@pytest.mark.parametrize(("given", "want"), RECORDS.values(), ids=RECORDS)
def test_provenance_of(given: Any, want: list[Any]) -> None:
    assert tolerations.provenance_of(pod().annotated(given)) == want


@pytest.mark.parametrize(("added", "want"), [((GPU,), {"tolerations": [NIC]}), ((GPU, NIC), {})], ids=["one", "all"])
def test_a_pod_as_it_was_before(added: tuple[Object, ...], want: Object) -> None:
    before = tolerations.without_recorded(pod().tolerating(GPU, NIC), added)
    assert {name: member for name, member in before["spec"].items() if name == "tolerations"} == want
