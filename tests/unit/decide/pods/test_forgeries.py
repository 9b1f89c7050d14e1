"""What a client wrote of what only Tollbar writes, its label and its record: whether a Pod keeps it at its creation."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes.engine import failing, in_words, rule
from objects import patching
from objects.builders import toleration
from unit.decide.pods.admissionplans import (
    APP,
    CLUSTER,
    CONSUMER,
    FORGED,
    GATE_AND_LABEL,
    GPU,
    ML,
    NEW,
    SHY,
    STRIP,
    TOLERATION,
    UNLABEL,
    Given,
    again,
    first_annotation,
    first_tolerations,
    gated,
    ignored,
    recorded,
    tolerated,
)
from unit.decide.pods.tables import table

from tollbar.decide.pods.admission import AdmissionPlan
from tollbar.decide.rules.rule import Rule

LABELS = {
    "a forged label is taken off a Pod that gets nothing": (
        Given(FORGED, cluster=CLUSTER),
        ignored("NoRuleMatched", patch=UNLABEL),
    ),
    "a forged label is taken off with the patch that adds tolerations": (
        Given(FORGED.claims("gpu")),
        tolerated(GPU, patch=(*UNLABEL, first_tolerations(TOLERATION), first_annotation(GPU))),
    ),
    "a forged label and a forged record": (
        Given(recorded(FORGED, "[]")),
        ignored("NoRuleMatched", patch=(*STRIP, *UNLABEL)),
    ),
    "a forged label is taken off in mode Never": (
        Given(FORGED, facts={"mode": "Never"}),
        ignored("NeverMode", patch=UNLABEL),
    ),
    "a forged label becomes true of a Pod that is gated": (
        Given(FORGED.claims("gpu"), cluster=(ML,)),
        gated("Undecided: rule gpu: ResourceClaim gpu", patch=GATE_AND_LABEL[:1]),
    ),
}


# A record survives only if an earlier pass of the same admission wrote it.
TOLERATING = CONSUMER.tolerating(TOLERATION)
STRIPPED = AdmissionPlan("tolerated", STRIP, because=("Matched: rule gpu",))
TRUE_ENTRY = {"rule": "gpu", "generation": 1, "added": [TOLERATION], "via": "admission"}


def text(*entries: Any) -> str:
    return json.dumps(entries, separators=(",", ":"))


RECORDS = {
    "the record of an earlier pass stays": (Given(recorded(TOLERATING, text(TRUE_ENTRY))), replace(STRIPPED, patch=())),
    "an empty text": (Given(recorded(TOLERATING, "")), STRIPPED),
    "an empty list": (Given(recorded(TOLERATING, "[]")), STRIPPED),
    "not JSON": (Given(recorded(TOLERATING, "gpu-team")), STRIPPED),
    "the same record formatted otherwise": (Given(recorded(TOLERATING, json.dumps([TRUE_ENTRY]))), STRIPPED),
    "an unknown rule": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "rule": "x"}))), STRIPPED),
    "another generation": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "generation": 2}))), STRIPPED),
    "another value of `via`": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "via": "gate"}))), STRIPPED),
    "`added` is empty": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "added": []}))), STRIPPED),
    "`added` is not a list": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "added": 1}))), STRIPPED),
    "`added` has what the rule does not add": (
        Given(recorded(TOLERATING.tolerating(toleration("x")), text({**TRUE_ENTRY, "added": [toleration("x")]}))),
        STRIPPED,
    ),
    "`added` has what the Pod does not tolerate": (
        Given(recorded(CONSUMER, text(TRUE_ENTRY))),
        tolerated(GPU, patch=(*STRIP, first_tolerations(TOLERATION), first_annotation(GPU))),
    ),
    "an entry with another member": (Given(recorded(TOLERATING, text({**TRUE_ENTRY, "note": "x"}))), STRIPPED),
    "something besides a true entry": (Given(recorded(TOLERATING, text(TRUE_ENTRY, "x"))), STRIPPED),
    "a false entry besides a true one": (Given(recorded(TOLERATING, text(TRUE_ENTRY, {}))), STRIPPED),
    "a rule that is false for this Pod": (
        Given(recorded(NEW.tolerating(TOLERATION), text(TRUE_ENTRY))),
        ignored("NoRuleMatched", patch=STRIP),
    ),
    "a rule about other namespaces": (
        Given(
            recorded(TOLERATING, text(TRUE_ENTRY)),
            (replace(GPU, namespace_selector={"matchLabels": {"team": "b"}}),),
        ),
        ignored("NoRuleMatched", patch=STRIP),
    ),
    "a rule in Audit": (
        Given(recorded(TOLERATING, text(TRUE_ENTRY)), (replace(GPU, mode="Audit"),)),
        ignored("Audited: rule gpu", patch=STRIP),
    ),
    "a rule that fails": (
        Given(recorded(TOLERATING, text(TRUE_ENTRY)), (rule("gpu", failing()),)),
        ignored("Failed: rule gpu: 1:1: no such key", patch=STRIP, failed=(("gpu", "1:1: no such key"),)),
    ),
    "a rule that cannot be decided yet": (
        Given(recorded(TOLERATING, text(TRUE_ENTRY)), cluster=(ML,)),
        gated("Undecided: rule gpu: ResourceClaim gpu", patch=(*STRIP, *GATE_AND_LABEL)),
    ),
    "a rule that is false, besides a true one": (
        Given(
            recorded(
                TOLERATING.tolerating(toleration("example.com/app")),
                text({**TRUE_ENTRY, "rule": "app", "added": [toleration("example.com/app")]}, TRUE_ENTRY),
            ),
            (GPU, APP),
        ),
        STRIPPED,
    ),
    "a true rule, while another cannot be decided": (
        Given(
            recorded(
                CONSUMER.labelled(app="web").tolerating(toleration("example.com/app")),
                text({**TRUE_ENTRY, "rule": "app", "added": [toleration("example.com/app")]}),
            ),
            (GPU, APP),
            cluster=(ML,),
        ),
        gated(
            "Matched: rule app",
            "Undecided: rule gpu: ResourceClaim gpu",
            patch=(
                GATE_AND_LABEL[0],
                {"op": "add", "path": "/metadata/labels/tollbar.dev~1gate", "value": "held"},
            ),
        ),
    ),
    "a rule that was true of a Pod without its tolerations": (
        Given(recorded(TOLERATING, text({**TRUE_ENTRY, "rule": "shy"})), (SHY,)),
        ignored("NoRuleMatched"),
    ),
    "a rule that was false of a Pod without its tolerations": (
        Given(recorded(TOLERATING.tolerating(toleration("x")), text({**TRUE_ENTRY, "rule": "shy"})), (SHY,)),
        ignored("NoRuleMatched", patch=STRIP),
    ),
    "the record of a gated Pod with a true rule stays": (
        Given(recorded(TOLERATING.gated(), text(TRUE_ENTRY))),
        gated("AlreadyGated", patch=()),
    ),
    "the record of a gated Pod with a false rule is stripped": (
        Given(recorded(NEW.tolerating(TOLERATION).gated(), text(TRUE_ENTRY))),
        gated("AlreadyGated", patch=STRIP),
    ),
}

TABLE = table({"label": LABELS, "record": RECORDS})


@pytest.mark.parametrize(("given", "want"), TABLE.values(), ids=TABLE)
def test_plan(given: Given, want: AdmissionPlan) -> None:
    assert in_words(given.decide()) == want


@pytest.mark.parametrize("given", [given for given, _ in TABLE.values()], ids=TABLE)
def test_a_second_pass_changes_nothing(given: Given) -> None:
    assert again(given).patch == ()


@pytest.mark.parametrize("rules", [(), (GPU,)], ids=["nothing is added", "with a record of ours"])
def test_other_annotations_stay(rules: tuple[Rule, ...]) -> None:
    given = recorded(CONSUMER.annotated({"a": "b"}), "[]")
    after = patching.apply(given, Given(given, rules).decide().patch)
    assert (after["metadata"]["annotations"]["a"], len(after["metadata"]["annotations"])) == ("b", 1 + len(rules))
