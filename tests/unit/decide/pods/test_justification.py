"""Whether what Tollbar gave a Pod is still justified: every standing, one row each."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes.engine import FakeEngine, FakeProgram, expression, failing, has_label, no_selector, rule, wants_class
from objects.builders import CREATED, claim, device_class, namespace, pod, toleration

from tollbar import wellknown
from tollbar.decide.pods import justification
from tollbar.decide.pods.justification import Standing
from tollbar.decide.pods.package import assemble
from tollbar.decide.rules.rule import Prototypes, Rule
from tollbar.model import timestamps
from tollbar.model.objects import Object
from tollbar.views.lookup import PackageLookup

CHOICES = [claim(name).request("gpu", "other") for name in "abcdefghi"]
CLUSTER = (
    namespace(),
    device_class("gpu"),
    claim("gpu").request("gpu"),
    claim("empty"),
    device_class("picky").selecting("any"),
    claim("picky").request("picky"),
    device_class("other"),
    *CHOICES,
)
GPU = rule("gpu", wants_class("gpu"))
APP = rule("app", has_label("app"), tolerations=GPU.tolerations)
FAILING = rule("another", failing(), tolerations=GPU.tolerations)
SHY = rule("shy", expression(lambda inputs: "tolerations" not in inputs["pod"]["spec"], "pod.spec.tolerations"))
BY_GPU = {"rule": "gpu", "generation": 1, "added": list(GPU.tolerations), "via": "admission"}
BY_SHY = {"rule": "shy", "generation": 1, "added": list(SHY.tolerations), "via": "gate"}
WITH, WITHOUT = pod().claims("gpu"), pod().claims("empty")


def judged(web: Object, rules: tuple[Rule, ...], *entries: Any, selector: Any = no_selector) -> list[Standing]:
    recorded = web.annotated({wellknown.ANNOTATION_PROVENANCE: json.dumps(list(entries))})  # type: ignore[attr-defined]
    package = assemble(recorded, PackageLookup.of(CLUSTER))
    return [each.standing for each in justification.judge(package, rules, FakeEngine(), selector)]


BOTH = WITH.tolerating(*SHY.tolerations)
MANY = pod().claims(*"abcdefghi")


def made(seconds: float) -> Rule:
    return replace(GPU, created=timestamps.time(seconds))


CASES: dict[str, tuple[Object, tuple[Rule, ...], list[Any], list[Standing]]] = {
    "the rule is true": (WITH, (GPU,), [BY_GPU], [Standing.JUSTIFIED]),
    "the rule is not true": (WITHOUT, (GPU,), [BY_GPU], [Standing.UNTRUE]),
    "another rule that gives the same fails": (WITHOUT, (FAILING, GPU), [BY_GPU], [Standing.UNTRUE]),
    "the rule fails": (WITH, (rule("gpu", failing()),), [BY_GPU], [Standing.UNDECIDED]),
    "the claims have more alternatives than are looked at": (MANY, (GPU,), [BY_GPU], [Standing.UNDECIDED]),
    "the rule is as old as the Pod": (WITHOUT, (made(CREATED),), [BY_GPU], [Standing.UNTRUE]),
    "the rule was created again": (WITHOUT, (made(CREATED + 1),), [BY_GPU], [Standing.RULE_CHANGED]),
    "another rule that gives the same is true": (
        WITHOUT.labelled(app="web"),  # type: ignore[attr-defined]
        (APP, GPU),
        [BY_GPU],
        [Standing.JUSTIFIED],
    ),
    "a claim is missing": (pod().claims("gone"), (GPU,), [BY_GPU], [Standing.UNDECIDED]),
    "the rule is gone": (WITHOUT, (), [BY_GPU], [Standing.RULE_CHANGED]),
    "the rule is in Audit now": (WITHOUT, (replace(GPU, mode="Audit"),), [BY_GPU], [Standing.RULE_CHANGED]),
    "the rule has been edited": (WITHOUT, (replace(GPU, generation=2),), [BY_GPU], [Standing.RULE_CHANGED]),
    "the rule gives something else now": (
        WITH,
        (replace(GPU, tolerations=(toleration("a.dev/x"),)),),
        [BY_GPU],
        [Standing.RULE_CHANGED],
    ),
    "a rule that was true before its tolerations were there": (
        pod().tolerating(*SHY.tolerations),
        (SHY,),
        [BY_SHY],
        [Standing.JUSTIFIED],
    ),
    "each by itself": (WITHOUT, (GPU, SHY), [BY_GPU, BY_SHY], [Standing.UNTRUE, Standing.JUSTIFIED]),
    "what another rule gave before its tolerations were there changes nothing for those that are true": (
        BOTH,
        (GPU, SHY),
        [BY_GPU, BY_SHY],
        [Standing.JUSTIFIED, Standing.JUSTIFIED],
    ),
    "nor for those that cannot be decided": (
        pod().claims("gone").tolerating(*SHY.tolerations),
        (GPU, SHY),
        [BY_GPU, BY_SHY],
        [Standing.UNDECIDED, Standing.JUSTIFIED],
    ),
    "nor for those that fail": (
        BOTH,
        (rule("gpu", failing()), SHY),
        [BY_GPU, BY_SHY],
        [Standing.UNDECIDED, Standing.JUSTIFIED],
    ),
    "a Pod that does not say when it was created": (
        WITHOUT.but("metadata.creationTimestamp", None),
        (made(CREATED),),
        [BY_GPU],
        [Standing.RULE_CHANGED],
    ),
    "what somebody else wrote there": (
        WITHOUT,
        (GPU,),
        [1, {}, {**BY_GPU, "added": 1}, {**BY_GPU, "rule": []}, {**BY_GPU, "added": [1, {"key": []}]}],
        [],
    ),
    "nothing": (WITHOUT, (GPU,), [], []),
}


@pytest.mark.parametrize(("web", "rules", "entries", "want"), CASES.values(), ids=CASES)
def test_standing(web: Object, rules: tuple[Rule, ...], entries: list[Any], want: list[Standing]) -> None:
    assert judged(web, rules, *entries) == want


@pytest.mark.parametrize(("selects", "want"), [(True, Standing.JUSTIFIED), (False, Standing.UNTRUE)])
def test_selectors_of_devices_are_asked(selects: bool, want: Standing) -> None:
    given = rule("gpu", Prototypes(({},)), tolerations=GPU.tolerations, reads={"claims", "pod.spec.tolerations"})
    program = FakeProgram(lambda _: selects, frozenset({"device"}))
    assert judged(pod().claims("picky"), (given,), BY_GPU, selector=lambda _: program) == [want]
