"""Pods that are being created, what is known of them, and the plans that are expected for them."""

import json
from dataclasses import dataclass, field, replace
from typing import Any

from fakes.engine import FakeEngine, expression, has_label, no_selector, rule, wants_class
from objects import patching
from objects.builders import Pod, claim, device_class, namespace, pod, template, toleration

from tollbar import wellknown
from tollbar.decide.pods import admission, package
from tollbar.decide.pods.admission import AdmissionFacts, AdmissionPlan
from tollbar.decide.pods.tolerations import Addition
from tollbar.decide.rules.rule import ExtendedResources, Rule
from tollbar.model.jsonpatch import Patch
from tollbar.model.objects import Object
from tollbar.views.lookup import PackageLookup

ML, TEAM_A = namespace(), namespace().labelled(team="a")
GPU_CLASS, TPU_CLASS = device_class("gpu"), device_class("tpu")
CLAIM, TEMPLATE = claim("gpu").request("gpu"), template("gpu").request("gpu")
RESOURCE = "example.com/gpu"
CLUSTER = (ML, GPU_CLASS, TPU_CLASS, CLAIM, TEMPLATE)

TOLERATION = toleration(RESOURCE)
GPU = rule("gpu", wants_class("gpu"))
APP = rule("app", has_label("app"))
EXTENDED = rule(
    "ext", ExtendedResources(frozenset({RESOURCE})), reads={"pod.spec.containers", "pod.spec.initContainers"}
)
CHAINED = replace(
    rule("chained", expression(lambda inputs: "tolerations" in inputs["pod"]["spec"], "pod.spec.tolerations")),
    tolerations=(toleration("example.com/chained"),),
)
AUDIT = replace(GPU, name="audit", mode="Audit", tolerations=(toleration("example.com/a"), toleration("example.com/b")))
NAMED = rule("named", expression(lambda inputs: inputs["pod"]["metadata"]["name"] == "web", "pod.metadata.name"))
SHY = rule(
    "shy",
    expression(lambda inputs: "tolerations" not in inputs["pod"]["spec"], "pod.spec.tolerations"),
    tolerations=(TOLERATION,),
)
BY_UID = rule("uid", expression(lambda _: True, "pod.metadata.uid"))
CLAIM_NAMED = rule("claim", expression(lambda _: True, "claims.metadata.name"))

COSTLY = expression(lambda _: False, "pod.metadata.labels", steps=500_000)

NEW = pod().being_created()
FORGED = NEW.labelled({wellknown.LABEL_GATE: "held"})
CONSUMER = NEW.claims("gpu")
CHOICES = tuple("gpu" for _ in range(16))

GATE_AND_LABEL: Patch = (
    {"op": "add", "path": "/spec/schedulingGates", "value": [{"name": wellknown.GATE}]},
    {"op": "add", "path": "/metadata/labels", "value": {"tollbar.dev/gate": "held"}},
)
ADD_LABEL: Patch = GATE_AND_LABEL[1:]
UNLABEL: Patch = ({"op": "remove", "path": "/metadata/labels/tollbar.dev~1gate"},)
STRIP: Patch = ({"op": "remove", "path": "/metadata/annotations/tollbar.dev~1tolerations"},)
LATER = "what the Pod gets only after its admission"
NOT_HELD = "tollbar: not held, because no controller could release it; tolerations may come later: ResourceClaim gpu"


@dataclass
class Given:
    """A Pod that is being created, in a cluster that has everything."""

    pod: Pod
    rules: tuple[Rule, ...] = (GPU,)
    cluster: tuple[Object, ...] = CLUSTER
    facts: dict[str, Any] = field(default_factory=dict)

    def decide(self) -> AdmissionPlan:
        return admission.decide(
            AdmissionFacts(
                package=package.assemble(self.pod, PackageLookup.of(self.cluster), at_admission=True),
                rules=self.rules,
                engine=FakeEngine(),
                selector=no_selector,
                **{"mode": "Auto", "managed": True, **self.facts},
            )
        )


def ignored(*because: Any, patch: Patch = (), **more: Any) -> AdmissionPlan:
    return AdmissionPlan("ignored", patch, because=because, **more)


def gated(*because: Any, patch: Patch | None = None) -> AdmissionPlan:
    return AdmissionPlan("gated", GATE_AND_LABEL if patch is None else patch, because=because)


def tolerated(*rules: Rule, patch: Patch | None = None, because: tuple[Any, ...] = (), **more: Any) -> AdmissionPlan:
    additions = tuple(Addition(each.name, 1, each.tolerations) for each in rules)
    if patch is None:
        lacking = [toleration for each in rules for toleration in each.tolerations]
        patch = (first_tolerations(*lacking), first_annotation(*rules))
    matched = because or tuple(f"Matched: rule {each.name}" for each in rules)
    return AdmissionPlan("tolerated", patch, because=matched, additions=additions, **more)


def first_tolerations(*tolerations: Object) -> Object:
    return {"op": "add", "path": "/spec/tolerations", "value": list(tolerations)}


def first_annotation(*rules: Rule) -> Object:
    return {"op": "add", "path": "/metadata/annotations", "value": {"tollbar.dev/tolerations": record(*rules)}}


def record(*rules: Rule) -> str:
    entries = [
        {"rule": each.name, "generation": 1, "added": list(each.tolerations), "via": "admission"} for each in rules
    ]
    return json.dumps(entries, separators=(",", ":"))


def recorded(given: Pod, text: str) -> Pod:
    return given.annotated({"tollbar.dev/tolerations": text})


def again(given: Given) -> AdmissionPlan:
    """What a second pass decides, on the Pod as the first one leaves it."""
    return replace(given, pod=Pod(patching.apply(given.pod, given.decide().patch))).decide()
